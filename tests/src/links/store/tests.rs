use std::{
    io::{ErrorKind, Read, Write},
    net::{TcpListener, TcpStream},
    time::Duration,
};

use super::{StoreLinks, with_host};
use crate::wait::TEST_DEADLINE;

/// How long is waited for what is not to come.
const NOTHING: Duration = Duration::from_millis(200);

fn receives(mut stream: &TcpStream, wait: Duration) -> Result<u8, ErrorKind> {
    stream.set_read_timeout(Some(wait)).unwrap();
    let mut byte = [0];
    stream.read_exact(&mut byte).map(|()| byte[0]).map_err(|error| error.kind())
}

#[test]
fn a_store_that_is_cut_off_and_mute_answers_when_both_are_over() {
    let server = TcpListener::bind("127.0.0.1:0").unwrap();
    let links = StoreLinks::default();
    let url = links.url("node", &format!("postgres://me@{}/db", server.local_addr().unwrap()));
    let address = url.trim_start_matches("postgres://me@").trim_end_matches("/db");
    let node = TcpStream::connect(address).unwrap();
    let (server, _) = server.accept().unwrap();
    links.cut("node");
    links.cut_answers("node");
    (&node).write_all(&[1]).unwrap();
    assert_eq!(receives(&server, NOTHING), Err(ErrorKind::WouldBlock));
    links.end_cut("node");
    assert_eq!(receives(&server, TEST_DEADLINE), Ok(1), "it is mute only");
    (&server).write_all(&[2]).unwrap();
    assert_eq!(receives(&node, NOTHING), Err(ErrorKind::WouldBlock));
    links.end_cut_answers("node");
    assert_eq!(receives(&node, TEST_DEADLINE), Ok(2));
}

#[test]
fn a_server_that_is_cut_off_is_so_for_every_node_and_the_other_one_is_not() {
    let servers = [(); 2].map(|()| TcpListener::bind("127.0.0.1:0").unwrap());
    let links = StoreLinks::default();
    let [first, second] = servers.each_ref().map(|server| server.local_addr().unwrap());
    let store = format!("postgres://{first},{second}/db");
    let ends = |node: &str| {
        let url = links.url(node, &store);
        let hosts = url.trim_start_matches("postgres://").trim_end_matches("/db").to_owned();
        let (one, other) = hosts.split_once(',').unwrap();
        [one.to_owned(), other.to_owned()]
    };
    let [to_first, to_second] = ends("a");
    links.cut_server(0, true);
    // The next one is tried in another order, and is cut off all the same.
    let [later_to_second, later_to_first] = ends("b");
    for (server, open, shut) in
        [(&servers[1], &to_second, &to_first), (&servers[1], &later_to_second, &later_to_first)]
    {
        let node = TcpStream::connect(open).unwrap();
        let (server, _) = server.accept().unwrap();
        (&node).write_all(&[1]).unwrap();
        assert_eq!(receives(&server, TEST_DEADLINE), Ok(1));
        let cut = TcpStream::connect(shut).unwrap();
        assert_eq!(receives(&cut, NOTHING), Err(ErrorKind::WouldBlock));
    }
    links.cut_server(0, false);
    let node = TcpStream::connect(&to_first).unwrap();
    (&node).write_all(&[2]).unwrap();
    // Those that were cut off and gave up may come through first. They end without a word.
    let (server, heard) = loop {
        let (server, _) = servers[0].accept().unwrap();
        let heard = receives(&server, TEST_DEADLINE);
        if !matches!(heard, Err(ErrorKind::UnexpectedEof | ErrorKind::ConnectionReset)) {
            break (server, heard);
        }
    };
    assert_eq!(heard, Ok(2));
    (&server).write_all(&[3]).unwrap();
    assert_eq!(receives(&node, TEST_DEADLINE), Ok(3));
}

#[test]
fn a_url_keeps_all_but_its_host() {
    let with = |url| with_host(url, "127.0.0.1:1").unwrap_or_default();
    assert_eq!(
        with("postgres://me:secret@db:5433/x?sslmode=disable"),
        "postgres://me:secret@127.0.0.1:1/x?sslmode=disable"
    );
    assert_eq!(with("postgresql://db"), "postgresql://127.0.0.1:1");
    assert!(StoreLinks::can_cut("postgres://me@%2Ftmp%2Fx/db"));
    assert!(!StoreLinks::can_cut("sqlite:/tmp/x.db"));
    assert!(!StoreLinks::can_cut("fdb:/etc/fdb.cluster"));
    let local = |url| StoreLinks::is_local(url);
    assert!(local("postgres://me@%2Ftmp%2Fx/db") && local("sqlite:/tmp/x.db"));
    assert!(!local("postgres://db/x") && !local("fdb:/etc/fdb.cluster"));
}
