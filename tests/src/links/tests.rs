use std::{
    io::{ErrorKind, Read, Write},
    net::{TcpListener, TcpStream},
    time::{Duration, Instant},
};

use super::*;
use crate::wait::{TEST_DEADLINE, eventually};

/// How long is waited for what is not to come.
const NOTHING: Duration = Duration::from_millis(200);

/// This process stands for the node that dials, and listens as the other.
fn connected() -> (Links, TcpStream, TcpStream) {
    let links = Links::default();
    let address = links.address("listener");
    links.address("dialler");
    links.started("dialler", std::process::id());
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let dialled = TcpStream::connect(address).unwrap();
    // It waits until the node says where it listens.
    links.listens("listener", listener.local_addr().unwrap());
    let (accepted, _) = listener.accept().unwrap();
    (links, dialled, accepted)
}

fn receives(mut stream: &TcpStream, wait: Duration) -> Result<u8, ErrorKind> {
    stream.set_read_timeout(Some(wait)).unwrap();
    let mut byte = [0];
    match stream.read_exact(&mut byte) {
        Ok(()) => Ok(byte[0]),
        Err(error) => Err(error.kind()),
    }
}

#[test]
fn a_way_that_is_cut_keeps_what_is_sent_and_the_other_one_passes() {
    let (links, dialled, accepted) = connected();
    (&dialled).write_all(&[1]).unwrap();
    assert_eq!(receives(&accepted, TEST_DEADLINE), Ok(1));
    links.cut_way("dialler", "listener");
    (&dialled).write_all(&[2]).unwrap();
    (&accepted).write_all(&[3]).unwrap();
    assert_eq!(receives(&dialled, TEST_DEADLINE), Ok(3));
    assert_eq!(receives(&accepted, NOTHING), Err(ErrorKind::WouldBlock));
    links.heal("dialler", "listener");
    assert_eq!(receives(&accepted, TEST_DEADLINE), Ok(2));
}

#[test]
fn a_way_that_is_cut_twice_passes_when_both_cuts_are_over() {
    let (links, dialled, accepted) = connected();
    let way = &both_ways("dialler", "listener")[..1];
    links.cut("dialler", "listener");
    links.cut_way("dialler", "listener");
    links.lift(way, &Way::cut());
    (&dialled).write_all(&[1]).unwrap();
    assert_eq!(receives(&accepted, NOTHING), Err(ErrorKind::WouldBlock));
    links.lift(way, &Way::cut());
    assert_eq!(receives(&accepted, TEST_DEADLINE), Ok(1));
    (&accepted).write_all(&[2]).unwrap();
    assert_eq!(receives(&dialled, NOTHING), Err(ErrorKind::WouldBlock), "the other way was cut once");
}

#[test]
fn the_end_of_a_connection_does_not_pass_a_cut() {
    let (links, dialled, accepted) = connected();
    links.cut("dialler", "listener");
    drop(dialled);
    assert_eq!(receives(&accepted, NOTHING), Err(ErrorKind::WouldBlock));
    links.heal_all();
    assert_eq!(receives(&accepted, TEST_DEADLINE), Err(ErrorKind::UnexpectedEof));
}

#[test]
fn who_dials_over_a_cut_hears_nothing_and_is_never_there_once_it_gave_up() {
    let (links, dialled, accepted) = connected();
    links.cut_way("listener", "dialler");
    let again = TcpStream::connect(links.address("listener")).unwrap();
    (&again).write_all(&[4]).unwrap();
    assert_eq!(receives(&again, NOTHING), Err(ErrorKind::WouldBlock));
    drop(again);
    assert_eq!(links.carried(), Carried::Connections { made: 2, strangers: 0 });
    links.heal_all();
    // What came before is still there, and nothing else.
    (&accepted).write_all(&[5]).unwrap();
    assert_eq!(receives(&dialled, TEST_DEADLINE), Ok(5));
}

#[test]
fn a_slow_way_takes_its_time_and_keeps_the_order() {
    let (links, dialled, accepted) = connected();
    let delay = Duration::from_millis(100);
    links.impose(&both_ways("dialler", "listener")[..1], &Way { lost_per_mille: 300, ..Way::slow(delay) });
    let sent = Instant::now();
    for byte in 0..20 {
        (&dialled).write_all(&[byte]).unwrap();
    }
    for byte in 0..20 {
        assert_eq!(receives(&accepted, TEST_DEADLINE), Ok(byte));
    }
    assert!(sent.elapsed() >= delay, "{:?}", sent.elapsed());
}

#[test]
fn connections_break_at_once_and_are_made_again() {
    let (links, dialled, accepted) = connected();
    links.break_connections(&both_ways("listener", "dialler")[..1]);
    for end in [&dialled, &accepted] {
        let received = receives(end, TEST_DEADLINE);
        assert!(
            matches!(received, Err(ErrorKind::UnexpectedEof | ErrorKind::ConnectionReset)),
            "{received:?}"
        );
    }
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    links.listens("listener", listener.local_addr().unwrap());
    let again = TcpStream::connect(links.address("listener")).unwrap();
    let (accepted, _) = listener.accept().unwrap();
    (&again).write_all(&[6]).unwrap();
    assert_eq!(receives(&accepted, TEST_DEADLINE), Ok(6));
}

#[test]
fn strangers_are_sent_away() {
    let links = Links::default();
    let stranger = TcpStream::connect(links.address("node")).unwrap();
    assert!(receives(&stranger, TEST_DEADLINE).is_err());
    eventually("it is counted", TEST_DEADLINE, || {
        if links.carried() == (Carried::Connections { made: 0, strangers: 1 }) {
            Ok(())
        } else {
            Err("not yet".to_owned())
        }
    });
}
