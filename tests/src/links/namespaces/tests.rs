use std::{
    fs::File,
    io::{ErrorKind, Write},
    os::fd::AsFd,
    thread,
};

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use super::*;
use crate::{links::both_ways, wait::TEST_DEADLINE};

/// How long is waited for what is not to come.
const NOTHING: Duration = Duration::from_millis(200);

/// `None`, and a line that says why, where there are no namespaces.
fn namespaces() -> Option<Namespaces> {
    let made = Namespaces::new(&["dialler", "listener", "other"].map(str::to_owned));
    made.map_err(|why| println!("skipped: {why}")).ok()
}

/// A socket stays in the namespace in which it was made.
fn inside<T: Send>(namespaces: &Namespaces, node: &str, make: impl FnOnce() -> T + Send) -> T {
    let file = File::open(namespaces.nodes[namespaces.index(node)].file()).unwrap();
    let made = thread::scope(|scope| {
        let there = scope.spawn(|| {
            move_into_link_name_space(file.as_fd(), Some(LinkNameSpaceType::Network)).unwrap();
            make()
        });
        there.join()
    });
    made.unwrap()
}

fn connected(namespaces: &Namespaces) -> (TcpStream, TcpStream) {
    let address = namespaces.address("listener");
    let listener = inside(namespaces, "listener", || TcpListener::bind(address).unwrap());
    let dialled =
        inside(namespaces, "dialler", || TcpStream::connect_timeout(&address, TEST_DEADLINE).unwrap());
    (dialled, listener.accept().unwrap().0)
}

fn lost(namespaces: &Namespaces) -> u64 {
    match namespaces.carried() {
        Carried::Packets { lost } => lost,
        other @ Carried::Connections { .. } => panic!("{other}"),
    }
}

fn receives(mut stream: &TcpStream, wait: Duration) -> Result<u8, ErrorKind> {
    stream.set_read_timeout(Some(wait)).unwrap();
    let mut byte = [0];
    stream.read_exact(&mut byte).map(|()| byte[0]).map_err(|error| error.kind())
}

#[test]
fn a_way_that_is_cut_loses_packets_and_the_other_one_passes() {
    let Some(namespaces) = namespaces() else { return };
    let (dialled, accepted) = connected(&namespaces);
    let [way, back] = both_ways("dialler", "listener");
    namespaces.set(&[(way.clone(), Way::cut())]);
    let before = lost(&namespaces);
    (&dialled).write_all(&[1]).unwrap();
    (&accepted).write_all(&[2]).unwrap();
    assert_eq!(receives(&dialled, TEST_DEADLINE), Ok(2));
    assert_eq!(receives(&accepted, NOTHING), Err(ErrorKind::WouldBlock));
    let during = lost(&namespaces);
    assert!(during > before, "{during}, {before} before");
    // The kernel sends it again, without anybody's doing.
    namespaces.set(&[(way.clone(), Way::default())]);
    assert_eq!(receives(&accepted, TEST_DEADLINE), Ok(1));
    // Neither way: no answer, but no refusal either.
    for cut in [way, back] {
        namespaces.set(&[(cut.clone(), Way::cut())]);
        let address = namespaces.address("listener");
        let dialled = inside(&namespaces, "dialler", || TcpStream::connect_timeout(&address, NOTHING));
        assert_eq!(dialled.unwrap_err().kind(), ErrorKind::TimedOut, "{cut:?}");
        namespaces.set(&[(cut, Way::default())]);
    }
    assert_ne!(
        namespaces.carried(),
        Carried::Packets { lost: 0 },
        "what was lost is counted when it is over"
    );
}

#[test]
fn connections_that_are_broken_end_on_both_sides_also_over_a_cut() {
    let Some(namespaces) = namespaces() else { return };
    if let Some(why) = namespaces.why_no_breaks() {
        return println!("skipped: {why}");
    }
    let (dialled, accepted) = connected(&namespaces);
    let ways = both_ways("dialler", "listener");
    namespaces.break_connections(&both_ways("dialler", "other"));
    (&dialled).write_all(&[1]).unwrap();
    assert_eq!(receives(&accepted, TEST_DEADLINE), Ok(1), "those of another link go on");
    namespaces.set(&ways.clone().map(|way| (way, Way::cut())));
    namespaces.break_connections(&[both_ways("other", "dialler")[0].clone(), ways[0].clone()]);
    for end in [&dialled, &accepted] {
        assert_eq!(receives(end, TEST_DEADLINE), Err(ErrorKind::ConnectionAborted));
    }
}

#[test]
fn a_namespace_is_gone_with_its_handle() {
    let Some(namespaces) = namespaces() else { return };
    let holders: Vec<_> = namespaces.nodes.iter().map(Node::file).collect();
    assert!(holders.iter().all(|file| Path::new(file).exists()));
    drop(namespaces);
    assert!(!holders.iter().any(|file| Path::new(file).exists()));
}

#[test]
fn a_way_is_a_queueing_discipline() {
    let slow = Way::slow(Duration::from_millis(80));
    let both = Way { lost_per_mille: 123, ..slow.clone() };
    assert_eq!(discipline(&Way::default()), "noqueue");
    assert_eq!(discipline(&slow), "netem limit 100000 delay 80000us 40000us");
    assert_eq!(discipline(&Way::lossy(50)), "netem limit 100000 loss 5.0%");
    assert_eq!(discipline(&both), "netem limit 100000 delay 80000us 40000us loss 12.3%");
    assert_eq!(discipline(&Way { is_open: false, ..both }), "blackhole");
}
