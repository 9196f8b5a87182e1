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
