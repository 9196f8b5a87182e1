//! Certificates: who has one for its name gets in, alone or with a secret; everybody else learns why not.

use std::time::Duration;

use crate::support::*;
use callsign_store::in_full;
use callsign_transport::{
    BadPermits, BadTls, Carrier, CertificateFault, DownReason, Endpoint, Keys, KeysRefused, LinkEvent,
    LinkEvents, MemoryNetwork, Network, PeerId, Permits, Refused, Secret, Security, StartError, Tls, Whose,
};
use rcgen::ExtendedKeyUsagePurpose::{ClientAuth, ServerAuth};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
};

fn certified(node: &str, incarnation: u64, over: &Over, tls: Tls) -> Settings {
    let mut config = config(node, incarnation, over);
    config.keys = Keys { secrets: vec![], tls: Some(tls) };
    config
}

fn theirs(why: CertificateFault) -> Refused {
    Refused::Certificate { of: Whose::Theirs, why }
}

fn ours(why: CertificateFault) -> Refused {
    Refused::Certificate { of: Whose::Ours, why }
}

fn is_certificate(why: &Refused) -> bool {
    matches!(why, Refused::Certificate { .. })
}

/// Starts "b", which dials "a", with keys that do not fit, and returns what each of the two says of it. Two others of the
/// cluster do not notice.
async fn refusals(carrier: Carrier, a: Keys, b: Keys, fits: impl Fn(&Refused) -> bool) -> (Refused, Refused) {
    let (_, network) = memory(carrier);
    let mut settings = [config("a", 1, &network), config("b", 2, &network)];
    (settings[0].keys, settings[1].keys) = (a, b);
    let [a, b] = settings;
    let (a, b) = (start(a).await, start(b).await);
    dial(&b, &[&a]);
    let said = (refused(&a, &fits).await, refused(&b, &fits).await);
    tokio::time::sleep(Duration::from_secs(10)).await;
    assert!(b.links().is_empty() && a.links().is_empty());
    said
}

fn only(tls: Tls) -> Keys {
    Keys { secrets: vec![], tls: Some(tls) }
}

async fn nodes_with_certificates_link_with_a_secret_and_without_one(carrier: Carrier) {
    let authority = Authority::new("ours");
    for with_secret in [true, false] {
        let (_, network) = memory(carrier);
        let node = |name: &'static str, incarnation| {
            let mut config = config(name, incarnation, &network);
            config.keys.tls = Some(authority.tls(name));
            if !with_secret {
                config.keys.secrets.clear();
            }
            config
        };
        let (a, b) = (start(node("a", 1)).await, start(node("b", 2)).await);
        dial(&b, &[&a]);
        let mut events = a.subscribe(CHANNEL);
        let link = link(&b, &a).await;
        up(&mut events).await;
        let long = "x".repeat(200_000);
        control(&b, link, &long).unwrap();
        assert_eq!(message(&mut events).await, long);
    }
}

#[tokio::test(start_paused = true)]
async fn nodes_link_over_a_way_that_takes_a_few_bytes_at_once() {
    let authority = Authority::new("ours");
    let network = Network::Memory(MemoryNetwork::narrow(8));
    let over = Over { carrier: Carrier::Connection, network };
    let a = start(certified("a", 1, &over, authority.tls("a"))).await;
    let b = start(certified("b", 2, &over, authority.tls("b"))).await;
    dial(&b, &[&a]);
    tokio::join!(link(&a, &b), link(&b, &a));
}

#[tokio::test]
async fn a_listener_that_does_not_begin_with_a_word_of_belief_is_refused() {
    let (carrier, authority) = (Carrier::Connection, Authority::new("ours"));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let b = start(certified("b", 2, &tcp(carrier), authority.tls("b"))).await;
    b.set_peers(vec![("a".into(), listener.local_addr().unwrap().to_string())]);
    let (mut stream, _) = listener.accept().await.unwrap();
    let mut said = frame(&preamble(carrier));
    stream.read_exact(&mut said).await.unwrap();
    stream.write_all(&said).await.unwrap();
    let of_a = authority.issue(&Wish::of(&["callsign://prod/a"]));
    let mut stream = tls_listening(carrier, stream, &of_a).await.unwrap();
    stream.write_u8(2).await.unwrap();
    let why = refused(&b, |why| matches!(why, Refused::Malformed(_))).await;
    assert_eq!(why, Refused::Malformed("not what a listener says first".into()));
}

/// What a certificate says may change while it is shown.
#[tokio::test]
async fn a_link_that_was_made_with_a_certificate_that_was_replaced_meanwhile_is_made_again() {
    let carrier = Carrier::Connection;
    let authority = Authority::new("ours");
    let a = start(certified("a", 1, &tcp(carrier), authority.tls("a"))).await;
    let mut events = a.subscribe(CHANNEL);
    let of_b = authority.issue(&Wish::of(&["callsign://prod/b"]));
    let mut stream = tls_by_hand(carrier, &a, Some(&of_b), true).await.unwrap();
    assert_eq!(stream.read_u8().await.unwrap(), 1, "the certificate is believed");
    let (certificate, key) = authority.issue(&Wish::of(&["callsign://prod/a?lead=no"]));
    assert!(a.set_keys(only(Tls::from_pem(certificate, key, &authority.pem).unwrap())).unwrap());
    stream.write_all(&frame(b"\x81\xa5Hello\x92\xa1b\x07")).await.unwrap();
    stream.write_all(&frame(b"\xa5Ready")).await.unwrap();
    assert_eq!(up(&mut events).await.0, PeerId::new("b", 7));
    assert_eq!(down(&mut events).await.2, DownReason::Forgotten);
}

/// Copies what a dialler and `to` say to each other, and keeps it.
async fn listened_to(to: &Endpoint) -> (std::net::SocketAddr, tokio::sync::mpsc::UnboundedReceiver<Vec<u8>>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let (address, to) = (listener.local_addr().unwrap(), to.local_addr());
    let (relayed, relay) = tokio::sync::mpsc::unbounded_channel();
    tokio::spawn(async move {
        let (from, _) = listener.accept().await.unwrap();
        let (mut from_read, mut from_write) = from.into_split();
        let (mut to_read, mut to_write) = TcpStream::connect(to).await.unwrap().into_split();
        tokio::spawn(async move { tokio::io::copy(&mut to_read, &mut from_write).await });
        let mut buffer = vec![0; 64 << 10];
        while let Ok(length @ 1..) = from_read.read(&mut buffer).await {
            relayed.send(buffer[..length].to_vec()).unwrap();
            to_write.write_all(&buffer[..length]).await.unwrap();
        }
    });
    (address, relay)
}

async fn nothing_that_is_said_with_certificates_is_in_the_clear(carrier: Carrier) {
    let authority = Authority::new("ours");
    let a = start(certified("a", 1, &tcp(carrier), authority.tls("a"))).await;
    let b = start(certified("b", 2, &tcp(carrier), authority.tls("b"))).await;
    let (through, mut relayed) = listened_to(&a).await;
    b.set_peers(vec![("a".into(), through.to_string())]);
    let mut events = a.subscribe(CHANNEL);
    let link = link(&b, &a).await;
    up(&mut events).await;
    control(&b, link, "a word that nobody else must read").unwrap();
    message(&mut events).await;
    let mut all = Vec::new();
    while let Ok(bytes) = relayed.try_recv() {
        all.extend(bytes);
    }
    assert!(all.windows(8).any(|bytes| bytes == b"CALLSIGN"), "it was listened to");
    assert!(!all.windows(6).any(|bytes| bytes == b"nobody"));
}

async fn a_certificate_of_another_authority_is_refused_on_both_sides(carrier: Carrier) {
    let (here, there) = (Authority::new("ours"), Authority::new("theirs"));
    // The dialler looks first, so it is the listener's that is refused.
    let (a, b) = refusals(carrier, only(here.tls("a")), only(there.tls("b")), is_certificate).await;
    assert_eq!((a, b), (ours(CertificateFault::UnknownIssuer), theirs(CertificateFault::UnknownIssuer)));
    // The dialler believes both; the listener does not believe the dialler's.
    let both = there.tls_believing("b", &[&here, &there]);
    let (a, b) = refusals(carrier, only(here.tls("a")), only(both), is_certificate).await;
    assert_eq!((a, b), (theirs(CertificateFault::UnknownIssuer), ours(CertificateFault::UnknownIssuer)));
}

async fn a_node_under_a_name_that_is_not_its_certificates_does_not_start(carrier: Carrier) {
    let authority = Authority::new("ours");
    let settings = certified("a", 1, &memory(carrier).1, authority.tls("b"));
    let Err(StartError::Keys(KeysRefused::NotThisNode { wanted, certified })) = try_start(settings).await
    else {
        panic!("started");
    };
    assert_eq!((wanted.as_str(), &certified[..]), ("callsign://prod/a", &["callsign://prod/b".into()][..]));
    let mut settings = self::certified("a", 1, &memory(carrier).1, authority.tls("a"));
    settings.cluster = "test".into();
    let error = try_start(settings).await.unwrap_err().to_string();
    assert_eq!(error, "the certificate is for callsign://prod/a, not for callsign://test/a");
}

async fn a_node_that_shows_the_certificate_of_another_is_refused_and_told_so(carrier: Carrier) {
    let authority = Authority::new("ours");
    let a = start(certified("a", 1, &tcp(carrier), authority.tls("a"))).await;
    let of_c = authority.issue(&Wish::of(&["callsign://prod/c"]));
    let mut stream = tls_by_hand(carrier, &a, Some(&of_c), true).await.unwrap();
    assert_eq!(stream.read_u8().await.unwrap(), 1, "the certificate itself is believed");
    stream.write_all(&frame(b"\x81\xa5Hello\x92\xa1b\x07")).await.unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).await.expect("it says that nothing follows");
    assert!(answer.windows(9).any(|bytes| bytes == b"OtherNode"), "{}", answer.escape_ascii());
    let certified = vec!["callsign://prod/c".to_owned()];
    let why = CertificateFault::OtherNode { said: "b".into(), certified };
    assert_eq!(refused(&a, is_certificate).await, theirs(why));
    assert_eq!(a.links(), []);
}

async fn tls_that_is_not_bound_to_what_was_said_before_it_is_refused(carrier: Carrier) {
    let authority = Authority::new("ours");
    let a = start(certified("a", 1, &tcp(carrier), authority.tls("a"))).await;
    let of_b = authority.issue(&Wish::of(&["callsign://prod/b"]));
    let _ = tls_by_hand(carrier, &a, Some(&of_b), false).await;
    refused(&a, |why| matches!(why, Refused::Tls(_))).await;
}

async fn a_node_keeps_to_the_names_of_its_certificate(carrier: Carrier) {
    let authority = Authority::new("ours");
    let two = authority.issue(&Wish::of(&["callsign://prod/b", "callsign://prod/c"]));
    let (_, network) = memory(carrier);
    let a = start(certified("a", 1, &network, authority.tls("a"))).await;
    // It was started as "b" with a certificate for both, and that of "c" alone was put in place of it.
    let both = Tls::from_pem(&two.0, &two.1, &authority.pem).unwrap();
    let b = start(certified("b", 2, &network, both)).await;
    let refused_keys = b.set_keys(only(authority.tls("c"))).unwrap_err();
    assert!(matches!(refused_keys, KeysRefused::NotThisNode { .. }), "{refused_keys}");
    dial(&b, &[&a]);
    link(&b, &a).await;
    // "d" dials a "c" at the address of "a": whoever answers there has no certificate for "c".
    let d = start(certified("d", 4, &network, authority.tls("d"))).await;
    d.set_peers(vec![("c".into(), address(&a).to_string())]);
    let why = refused(&d, |why| matches!(why, Refused::WrongNode { .. })).await;
    assert_eq!(why, Refused::WrongNode { expected: "c".into(), found: "a".into() });
}

async fn a_certificate_that_runs_out_is_refused_and_says_when(carrier: Carrier) {
    let authority = Authority::new("ours");
    let wish = Wish { years: (2001, 2002), ..Wish::of(&["callsign://prod/b"]) };
    let (certificate, key) = authority.issue(&wish);
    let expired = CertificateFault::Expired { at_unix: Some(1_009_843_200) };
    let Err(BadTls::NotGood(why)) = Tls::from_pem(&certificate, &key, &authority.pem) else {
        panic!("taken")
    };
    assert_eq!(why, expired, "2002-01-01");
    // What a node does that holds it nevertheless: its certificate ran out while it was running.
    let a = start(certified("a", 1, &tcp(carrier), authority.tls("a"))).await;
    let _ = tls_by_hand(carrier, &a, Some(&(certificate, key)), true).await;
    assert_eq!(refused(&a, is_certificate).await, theirs(expired));
}

async fn a_certificate_that_is_not_for_clients_too_is_refused(carrier: Carrier) {
    let authority = Authority::new("ours");
    for (purposes, is_good) in [
        (vec![ServerAuth], false),
        (vec![ClientAuth], false),
        (vec![ServerAuth, ClientAuth], true),
        (vec![], true),
    ] {
        let wish = Wish { purposes, ..Wish::of(&["callsign://prod/b"]) };
        let (certificate, key) = authority.issue(&wish);
        let made = Tls::from_pem(&certificate, &key, &authority.pem);
        assert_eq!(made.is_ok(), is_good);
        assert!(is_good || matches!(made, Err(BadTls::NotGood(CertificateFault::Purpose))), "{made:?}");
    }
    let (certificate, key) =
        authority.issue(&Wish { purposes: vec![ServerAuth], ..Wish::of(&["callsign://prod/b"]) });
    let a = start(certified("a", 1, &tcp(carrier), authority.tls("a"))).await;
    let _ = tls_by_hand(carrier, &a, Some(&(certificate, key)), true).await;
    assert_eq!(refused(&a, is_certificate).await, theirs(CertificateFault::Purpose));
}

async fn nobody_gets_in_without_a_certificate(carrier: Carrier) {
    let authority = Authority::new("ours");
    let a = start(certified("a", 1, &tcp(carrier), authority.tls("a"))).await;
    let _ = tls_by_hand(carrier, &a, None, true).await;
    assert_eq!(refused(&a, is_certificate).await, theirs(CertificateFault::Missing));
}

async fn certificates_on_one_side_only_are_refused_on_both_sides(carrier: Carrier) {
    let authority = Authority::new("ours");
    let secrets = vec![Secret::new("a secret of the test cluster").unwrap()];
    let secret = Keys { secrets: secrets.clone(), tls: None };
    let plain = Keys::default();
    let certified = |node: &str| only(authority.tls(node));
    let both = |node: &str| Keys { secrets: secrets.clone(), tls: Some(authority.tls(node)) };
    for (a, b) in [
        (certified("a"), secret.clone()),
        (certified("a"), plain.clone()),
        (certified("a"), both("b")),
        (both("a"), secret),
        (both("a"), plain),
    ] {
        let (here, there) = (a.security(), b.security());
        let fits = |why: &Refused| matches!(why, Refused::Security { .. });
        let said = refusals(carrier, a, b, fits).await;
        let expected = |ours: Security, theirs: Security| Refused::Security { ours, theirs };
        assert_eq!(said, (expected(here, there), expected(there, here)));
    }
}

async fn a_wrong_secret_is_a_wrong_secret_with_certificates_too(carrier: Carrier) {
    let authority = Authority::new("ours");
    let keys = |node: &str, secret: &str| Keys {
        secrets: vec![Secret::new(secret).unwrap()],
        tls: Some(authority.tls(node)),
    };
    let (a, b) = (keys("a", "a secret of the test cluster"), keys("b", "another secret, long enough"));
    let said = refusals(carrier, a, b, |why| *why == Refused::Secret).await;
    assert_eq!(said, (Refused::Secret, Refused::Secret));
}

/// Somebody in the middle who changes what is said in the clear, so that both sides still agree to it.
async fn a_preamble_that_was_changed_on_the_way_is_noticed_by_both_sides(carrier: Carrier) {
    let authority = Authority::new("ours");
    let a = start(certified("a", 1, &tcp(carrier), authority.tls("a"))).await;
    let b = start(certified("b", 2, &tcp(carrier), authority.tls("b"))).await;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    b.set_peers(vec![("a".into(), listener.local_addr().unwrap().to_string())]);
    let (from, _) = listener.accept().await.unwrap();
    let (mut from_read, mut from_write) = from.into_split();
    let (mut to_read, mut to_write) = TcpStream::connect(a.local_addr()).await.unwrap().into_split();
    let length = usize::try_from(from_read.read_u32().await.unwrap()).unwrap();
    let mut preamble = vec![0; length];
    from_read.read_exact(&mut preamble).await.unwrap();
    // It still says the same, in one byte more.
    to_write.write_u32(u32::try_from(length + 1).unwrap()).await.unwrap();
    to_write.write_all(&[&preamble[..], b" "].concat()).await.unwrap();
    tokio::spawn(async move { tokio::io::copy(&mut to_read, &mut from_write).await });
    tokio::spawn(async move { tokio::io::copy(&mut from_read, &mut to_write).await });
    for node in [&a, &b] {
        let why = refused(node, |why| matches!(why, Refused::Tls(_))).await;
        assert_eq!(why.to_string(), "TLS: what was said before it was changed on the way");
    }
}

async fn bytes_before_tls_are_not_taken_for_bytes_inside_it(carrier: Carrier) {
    let authority = Authority::new("ours");
    let a = start(certified("a", 1, &tcp(carrier), authority.tls("a"))).await;
    let mut stream = TcpStream::connect(a.local_addr()).await.unwrap();
    let hello = frame(b"\x81\xa5Hello\x92\xa1b\x07");
    stream.write_all(&[frame(&preamble(carrier)), hello].concat()).await.unwrap();
    let why = refused(&a, |why| matches!(why, Refused::Malformed(_) | Refused::Tls(_))).await;
    assert_eq!(why, Refused::Malformed("bytes before TLS".into()));
}

/// New certificates are used for new links, on both sides; the links that are there stay.
async fn certificates_change_on_living_nodes_and_no_link_is_lost(carrier: Carrier) {
    let (old, new) = (Authority::new("old"), Authority::new("new"));
    let (_, network) = memory(carrier);
    let a = start(certified("a", 1, &network, old.tls("a"))).await;
    let b = start(certified("b", 2, &network, old.tls("b"))).await;
    dial(&b, &[&a]);
    let first = link(&b, &a).await;
    // Believe both; have new certificates; believe the new authority only.
    for step in [
        |old: &Authority, new: &Authority, node: &str| old.tls_believing(node, &[old, new]),
        |old: &Authority, new: &Authority, node: &str| new.tls_believing(node, &[new, old]),
        |_: &Authority, new: &Authority, node: &str| new.tls(node),
    ] {
        for (index, (node, name)) in [(&a, "a"), (&b, "b")].into_iter().enumerate() {
            assert!(node.set_keys(only(step(&old, &new, name))).unwrap());
            // Whoever comes now finds either of them, whatever the other one has by then.
            let c = start(certified("c", 10 + index as u64, &network, step(&old, &new, "c"))).await;
            dial(&c, &[node]);
            link(&c, node).await;
            c.leave().await;
        }
    }
    assert_eq!(b.link_to("a").map(|(link, _)| link), Some(first), "the link was never lost");
    // Whoever has only the old one is refused.
    let late = start(certified("d", 3, &network, old.tls_believing("d", &[&old, &new]))).await;
    dial(&late, &[&a]);
    assert_eq!(refused(&late, is_certificate).await, ours(CertificateFault::UnknownIssuer));
    let same = new.tls("a");
    assert!(a.set_keys(only(same.clone())).unwrap());
    assert!(!a.set_keys(only(same)).unwrap(), "nothing has changed");
    let wanted = Security::Plain;
    let error = KeysRefused::OtherSecurity { now: Security::Certified, wanted };
    assert_eq!(a.set_keys(Keys::default()), Err(error));
    b.forget("a");
    until("the link comes back", || b.link_to("a").filter(|(link, _)| *link != first)).await;
}

/// A certificate says what its node may do; a peer knows it with the link, and a certificate that says something else makes all
/// links anew.
async fn what_a_node_may_do_its_peers_learn_with_each_link(carrier: Carrier) {
    let authority = Authority::new("ours");
    let by = |query: &str| {
        let (certificate, key) = authority.issue(&Wish::of(&[&format!("callsign://prod/b{query}")]));
        Tls::from_pem(certificate, key, &authority.pem).unwrap()
    };
    let (_, network) = memory(carrier);
    let a = start(certified("a", 1, &network, authority.tls("a"))).await;
    let b = start(certified("b", 2, &network, by("?names=shop/&names=a%26b&lead=no"))).await;
    let (mut on_a, mut on_b) = (a.subscribe(CHANNEL), b.subscribe(CHANNEL));
    dial(&b, &[&a]);
    assert_eq!(permits(&mut on_b).await, Permits::default());
    let first = permits(&mut on_a).await;
    assert_eq!(first, b.permits());
    assert!(first.allows("shop/x") && first.allows("a&b") && !first.allows("jobs/x") && !first.may_lead());
    // A later subscriber hears the same of the links that are there.
    assert_eq!(permits(&mut a.subscribe(CHANNEL)).await, first);
    // The same said by another certificate changes nothing.
    let (before, _) = b.link_to("a").unwrap();
    assert!(b.set_keys(only(by("?lead=no&names=a%26b&names=shop/"))).unwrap());
    assert_eq!(b.link_to("a").map(|(link, _)| link), Some(before));
    assert!(b.set_keys(only(by("?names=jobs/"))).unwrap());
    assert_eq!(down(&mut on_a).await.2, DownReason::Forgotten);
    let second = permits(&mut on_a).await;
    assert!(second == b.permits() && second.allows("jobs/x") && !second.allows("shop/x"), "{second}");
    assert_eq!(down(&mut on_b).await.2, DownReason::Forgotten);
    assert_eq!(permits(&mut on_b).await, Permits::default());
}

async fn permits(events: &mut LinkEvents) -> Permits {
    match next(events).await {
        LinkEvent::Up { permits, .. } => permits,
        event => panic!("not up: {event:?}"),
    }
}

async fn a_certificate_that_says_what_is_not_understood_is_refused_on_both_sides(carrier: Carrier) {
    let authority = Authority::new("ours");
    let uris = ["callsign://prod/b", "callsign://prod/c?names=x&rank=3"];
    let (certificate, key) = authority.issue(&Wish::of(&uris));
    let why = BadPermits::Unknown { part: "rank=3".into() };
    let fault = CertificateFault::Permits { name: "callsign://prod/c".into(), why };
    let Err(BadTls::NotGood(why)) = Tls::from_pem(&certificate, &key, &authority.pem) else {
        panic!("taken")
    };
    assert_eq!(why, fault);
    let said = "says of callsign://prod/c what cannot be read: \"rank=3\" is none of `names=PREFIX`, `lead=yes` and `lead=no`";
    assert_eq!(why.to_string(), said);
    // What a node does that holds it nevertheless: of a version that knows more.
    let a = start(certified("a", 1, &tcp(carrier), authority.tls("a"))).await;
    let mut stream = tls_by_hand(carrier, &a, Some(&(certificate, key)), true).await.unwrap();
    assert_eq!(stream.read_u8().await.unwrap(), 1, "the certificate itself is believed");
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer).await;
    assert!(answer.windows(7).any(|bytes| bytes == b"Permits"), "{}", answer.escape_ascii());
    assert_eq!(refused(&a, is_certificate).await, theirs(fault));
    let two = ["callsign://prod/b?lead=no", "callsign://prod/b"];
    let (certificate, key) = authority.issue(&Wish::of(&two));
    let error = Tls::from_pem(&certificate, &key, &authority.pem).unwrap_err();
    let error = in_full(&error).to_string();
    assert!(error.ends_with("it says two things of one node"), "{error}");
}

/// The issuer of the certificates is no authority that is believed, and shows that one vouches for it.
async fn nodes_whose_certificates_are_vouched_for_through_another_one_link(carrier: Carrier) {
    let authority = Authority::new("ours");
    let between = authority.under("between");
    let tls = |node: &str| {
        let (certificate, key) = between.issue(&Wish::of(&[&format!("callsign://prod/{node}")]));
        assert!(Tls::from_pem(&certificate, &key, &authority.pem).is_err(), "nobody vouches for it");
        Tls::from_pem(certificate + &between.pem, key, &authority.pem).unwrap()
    };
    let (_, network) = memory(carrier);
    let a = start(certified("a", 1, &network, tls("a"))).await;
    let b = start(certified("b", 2, &network, tls("b"))).await;
    assert_eq!(a.keys().tls.unwrap().names(), ["callsign://prod/a"]);
    dial(&b, &[&a]);
    tokio::join!(link(&a, &b), link(&b, &a));
}

#[test]
fn files_that_do_not_belong_together_are_refused_each_with_its_reason() {
    let (authority, other) = (Authority::new("ours"), Authority::new("theirs"));
    let (certificate, key) = authority.issue(&Wish::of(&["callsign://prod/a", "https://example.org/b"]));
    let (_, other_key) = authority.issue(&Wish::of(&["callsign://prod/a"]));
    let (pem, empty) = (&authority.pem, &String::new());
    let made = Tls::from_pem(&certificate, &key, pem).unwrap();
    assert_eq!(made.names(), ["callsign://prod/a"]);
    assert!(made.expires_in().unwrap() > Duration::from_secs(90 * 365 * 86_400));
    for (certificate, key, authorities, says) in [
        (empty, &key, pem, "certificate: no certificate is in it"),
        (&key, &key, pem, "certificate: no certificate is in it"),
        (&certificate, empty, pem, "key: "),
        (&certificate, &certificate, pem, "key: "),
        (&certificate, &key, empty, "authorities: no certificate is in it"),
        (&certificate, &other_key, pem, "the key does not belong to the certificate"),
        (
            &certificate,
            &key,
            &other.pem,
            "the certificate is not good: is of an authority that is not believed",
        ),
        (pem, &key, pem, "the certificate is not good: "),
    ] {
        let error = Tls::from_pem(certificate, key, authorities).unwrap_err();
        let error = in_full(&error).to_string();
        assert!(error.starts_with(says), "{error}, not {says}");
    }
    let missing = Tls::from_files("/nowhere/cert.pem", "/nowhere/key.pem", "/nowhere/ca.pem").unwrap_err();
    assert!(in_full(&missing).to_string().starts_with("cannot read /nowhere/cert.pem: "), "{missing}");
    let halves = [&certificate.as_bytes()[..certificate.len() / 2], certificate.as_bytes()];
    assert!(Tls::from_pem(halves[0], &key, pem).is_err(), "half written");
    assert!(!format!("{made:?}").contains("PRIVATE"));
}

suite! {
    paused: [
        nodes_with_certificates_link_with_a_secret_and_without_one,
        nodes_whose_certificates_are_vouched_for_through_another_one_link,
        a_certificate_of_another_authority_is_refused_on_both_sides,
        a_node_under_a_name_that_is_not_its_certificates_does_not_start,
        a_node_keeps_to_the_names_of_its_certificate,
        certificates_on_one_side_only_are_refused_on_both_sides,
        a_wrong_secret_is_a_wrong_secret_with_certificates_too,
        certificates_change_on_living_nodes_and_no_link_is_lost,
        what_a_node_may_do_its_peers_learn_with_each_link,
    ];
    real: [
        nothing_that_is_said_with_certificates_is_in_the_clear,
        a_node_that_shows_the_certificate_of_another_is_refused_and_told_so,
        tls_that_is_not_bound_to_what_was_said_before_it_is_refused,
        a_certificate_that_runs_out_is_refused_and_says_when,
        a_certificate_that_is_not_for_clients_too_is_refused,
        nobody_gets_in_without_a_certificate,
        a_certificate_that_says_what_is_not_understood_is_refused_on_both_sides,
        a_preamble_that_was_changed_on_the_way_is_noticed_by_both_sides,
        bytes_before_tls_are_not_taken_for_bytes_inside_it,
    ];
}
