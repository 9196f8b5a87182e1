use rustls::{ClientConnection, HandshakeKind, ServerConnection};

use super::*;

#[path = "../../../tests/all/support/authority.rs"]
mod authority;

use authority::{Authority, Wish};

fn made(uris: &[&str]) -> Tls {
    let authority = Authority::new("ours");
    let (certificate, key) = authority.issue(&Wish::of(uris));
    Tls::from_pem(certificate, key, Authority::believed(&[&authority])).unwrap()
}

/// Connects twice, and says how that was done the second time.
fn second_handshake(client: ClientConfig, server: ServerConfig) -> HandshakeKind {
    let (client, server) = (Arc::new(client), Arc::new(server));
    let once = || {
        let nobody = ServerName::try_from("callsign.invalid").unwrap();
        let mut client = ClientConnection::new(client.clone(), nobody).unwrap();
        let mut server = ServerConnection::new(server.clone()).unwrap();
        while client.wants_write() || server.wants_write() {
            let (mut there, mut back) = (Vec::new(), Vec::new());
            while client.wants_write() {
                client.write_tls(&mut there).unwrap();
            }
            let mut there = &there[..];
            while !there.is_empty() {
                server.read_tls(&mut there).unwrap();
                server.process_new_packets().unwrap();
            }
            while server.wants_write() {
                server.write_tls(&mut back).unwrap();
            }
            let mut back = &back[..];
            while !back.is_empty() {
                client.read_tls(&mut back).unwrap();
                client.process_new_packets().unwrap();
            }
        }
        assert!(!client.is_handshaking() && !server.is_handshaking());
        client.handshake_kind().unwrap()
    };
    assert_eq!(once(), HandshakeKind::Full);
    once()
}

#[test]
fn no_session_is_resumed_even_if_the_other_side_would() {
    let tls = made(&["callsign://prod/a"]);
    let asking = || {
        let mut asking = tls.client().clone();
        asking.resumption = Resumption::default();
        asking
    };
    let mut giving = tls.server().clone();
    giving.send_tls13_tickets = 2;
    assert_eq!(second_handshake(asking(), giving.clone()), HandshakeKind::Resumed, "as others do");
    assert_eq!(second_handshake(asking(), tls.server().clone()), HandshakeKind::Full);
    assert_eq!(second_handshake(tls.client().clone(), giving), HandshakeKind::Full);
    assert!(!tls.client().enable_sni, "nobody is asked for by a name");
}

#[test]
fn the_names_of_a_certificate_are_those_that_nodes_may_have_each_with_its_own_permits() {
    let tls = made(&[
        "callsign://prod/a",
        "callsign://prod/a",
        "callsign://prod/b?lead=no",
        "callsign://prod/b?lead=no",
        "callsign://test/b",
        "callsign://prod/b/c",
        "callsign://prod/",
        "callsign:///b",
        "callsign://prod",
        "https://example.org/a",
    ]);
    let mut names = tls.names();
    names.dedup();
    assert_eq!(names, ["callsign://prod/a", "callsign://prod/b", "callsign://test/b"]);
    let leads = |cluster, node| tls.permits(cluster, node).map(|permits| permits.may_lead());
    let all = [("prod", "a"), ("prod", "b"), ("test", "b"), ("test", "a"), ("prod", "c")];
    let expected = [Some(true), Some(false), Some(true), None, None];
    assert_eq!(all.map(|(cluster, node)| leads(cluster, node)), expected);
}

#[test]
fn of_a_certificate_with_very_many_names_the_first_are_looked_at() {
    let uris: Vec<_> = (0..MOST_NAMES + 3).map(|n| format!("callsign://prod/node-{n}")).collect();
    let tls = made(&uris.iter().map(String::as_str).collect::<Vec<_>>());
    assert_eq!(tls.names(), uris[..MOST_NAMES]);
}
