use super::*;

fn me(node: &str) -> Me {
    let (security, carrier) = (Security::Secured, Carrier::Connection);
    let peer = PeerId::new(node, 7);
    Me { cluster: "prod".into(), peer, security, carrier, versions: Versions::OURS }
}

/// The end of one side.
#[derive(Clone, Debug, PartialEq, Eq)]
enum End {
    Open,
    Up(PeerId, Permits),
    Refused(Refused),
}

/// Runs both sides against each other. Noise is played: a message is the sender's secret and prologue. So is TLS: it is done
/// when both sides have asked for it with the same preambles.
struct Pair {
    /// What each side's certificate is for.
    certificates: [Vec<Certified>; 2],
    sides: [(Hello, u8, Vec<u8>); 2],
    unwelcome: Option<Refused>,
    ends: [End; 2],
}

impl Pair {
    fn new(dialler: Me, listener: Me) -> Self {
        let expected = listener.peer.node.clone();
        Self {
            sides: [
                (Hello::new(dialler, Side::Dialler { expected }), 1, vec![]),
                (Hello::new(listener, Side::Listener), 1, vec![]),
            ],
            certificates: [certified("prod", "b"), certified("prod", "a")],
            unwelcome: None,
            ends: [End::Open, End::Open],
        }
    }

    fn run(mut self) -> [End; 2] {
        let mut inputs = std::collections::VecDeque::from([(0, Input::Start), (1, Input::Start)]);
        let mut tls: [Option<Vec<u8>>; 2] = [None, None];
        while let Some((at, input)) = inputs.pop_front() {
            let mut effects = Vec::new();
            let (hello, secret, prologue) = &mut self.sides[at];
            hello.step(input, &mut effects);
            for effect in effects {
                match effect {
                    Effect::Send(frame) => inputs.push_back((1 - at, Input::Frame(frame))),
                    Effect::Tls { preambles } => {
                        tls[at] = Some(preambles);
                        let [Some(first), Some(second)] = &tls else { continue };
                        for at in [0, 1] {
                            let names = self.certificates[1 - at].clone();
                            inputs.push_back((
                                at,
                                if first == second {
                                    Input::TlsDone { names: Ok(names), binding: vec![42; 32] }
                                } else {
                                    Input::TlsFailed(Refused::Tls("changed".into()))
                                },
                            ));
                        }
                    }
                    Effect::NoiseBegin { prologue: given } => *prologue = given,
                    Effect::NoiseWrite => {
                        let message = [&[*secret], &prologue[..]].concat();
                        inputs.push_back((1 - at, Input::Frame(noise_frame(&message))));
                    }
                    Effect::NoiseRead(message) => {
                        let same = message[0] == *secret && message[1..] == prologue[..];
                        inputs.push_front((at, if same { Input::NoiseDone } else { Input::NoiseFailed }));
                    }
                    Effect::Check(_) => inputs.push_front((
                        at,
                        self.unwelcome.clone().filter(|_| at == 1).map_or(Input::Welcome, Input::Unwelcome),
                    )),
                    Effect::Accept(peer, permits) => self.ends[at] = End::Up(peer, permits),
                    Effect::Refuse(why) => self.ends[at] = End::Refused(why),
                }
            }
        }
        self.ends
    }
}

fn certified(cluster: &str, node: &str) -> Vec<Certified> {
    vec![Certified { cluster: cluster.into(), node: node.into(), permits: Permits::default() }]
}

/// Two nodes with certificates, and with a secret too or without.
fn certified_pair(security: Security) -> Pair {
    let (mut a, mut b) = (me("b"), me("a"));
    (a.security, b.security) = (security, security);
    Pair::new(a, b)
}

fn up(node: &str, incarnation: u64) -> End {
    End::Up(PeerId::new(node, incarnation), Permits::default())
}

fn both(why: Refused) -> [End; 2] {
    [End::Refused(why.clone()), End::Refused(why)]
}

#[test]
fn two_nodes_that_belong_together_learn_who_the_other_is() {
    use Security::{Both, Certified, Plain, Secured};
    for security in [Plain, Secured, Certified, Both] {
        let (mut a, mut b) = (me("b"), me("a"));
        (a.security, b.security) = (security, security);
        b.peer.incarnation = 8;
        let ends = Pair::new(a, b).run();
        assert_eq!(ends, [up("a", 8), up("b", 7)]);
    }
}

#[test]
fn another_cluster_is_refused_on_both_sides() {
    let mut listener = me("a");
    listener.cluster = "test".into();
    let ends = Pair::new(me("b"), listener).run();
    let refused = |ours: &str, theirs: &str| {
        End::Refused(Refused::Cluster { ours: ours.into(), theirs: theirs.into() })
    };
    assert_eq!(ends, [refused("prod", "test"), refused("test", "prod")]);
}

#[test]
fn a_secret_or_certificates_on_one_side_only_are_refused_on_both_sides() {
    use Security::{Both, Certified, Plain, Secured};
    let all = [Plain, Secured, Certified, Both];
    let pairs = all.into_iter().flat_map(|a| all.into_iter().map(move |b| (a, b)));
    for (dialler, listener) in pairs.filter(|(a, b)| a != b) {
        let (mut a, mut b) = (me("b"), me("a"));
        (a.security, b.security) = (dialler, listener);
        let refused = |ours, theirs| End::Refused(Refused::Security { ours, theirs });
        assert_eq!(Pair::new(a, b).run(), [refused(dialler, listener), refused(listener, dialler)]);
    }
}

#[test]
fn another_carrier_is_refused_on_both_sides() {
    let mut listener = me("a");
    listener.carrier = Carrier::NodeServer;
    let refused = |ours, theirs| End::Refused(Refused::Carrier { ours, theirs });
    let (one, other) = (Carrier::Connection, Carrier::NodeServer);
    assert_eq!(Pair::new(me("b"), listener).run(), [refused(one, other), refused(other, one)]);
}

#[test]
fn different_secrets_are_refused_on_both_sides() {
    let mut pair = Pair::new(me("b"), me("a"));
    pair.sides[1].1 = 2;
    assert_eq!(pair.run(), both(Refused::Secret));
}

#[test]
fn a_certificate_of_another_cluster_is_refused_on_both_sides_each_from_its_own() {
    for security in [Security::Certified, Security::Both] {
        let mut pair = certified_pair(security);
        pair.certificates[0] = certified("test", "b");
        let why = CertificateFault::OtherCluster {
            cluster: "prod".into(),
            certified: vec!["callsign://test/b".into()],
        };
        let refused = |of| End::Refused(Refused::Certificate { of, why: why.clone() });
        assert_eq!(pair.run(), [refused(Whose::Ours), refused(Whose::Theirs)]);
    }
}

#[test]
fn a_certificate_without_a_name_of_a_node_is_refused() {
    let mut pair = certified_pair(Security::Certified);
    pair.certificates[1] = vec![];
    let [End::Refused(here), End::Refused(there)] = pair.run() else { panic!("linked") };
    let why = CertificateFault::OtherCluster { cluster: "prod".into(), certified: vec![] };
    assert_eq!(here, Refused::Certificate { of: Whose::Theirs, why: why.clone() });
    assert_eq!(there, Refused::Certificate { of: Whose::Ours, why });
}

#[test]
fn a_node_with_the_certificate_of_another_is_refused_and_told_so() {
    for security in [Security::Certified, Security::Both] {
        for liar in [0, 1] {
            let mut pair = certified_pair(security);
            // Of this cluster, and of a node of the same name elsewhere.
            pair.certificates[liar] = [certified("prod", "c"), certified("test", ["b", "a"][liar])].concat();
            let said = ["b", "a"][liar].to_owned();
            let certified = vec!["callsign://prod/c".into(), format!("callsign://test/{said}")];
            let why = CertificateFault::OtherNode { said, certified };
            let of = |at| if at == liar { Whose::Ours } else { Whose::Theirs };
            let refused = |at| End::Refused(Refused::Certificate { of: of(at), why: why.clone() });
            assert_eq!(pair.run(), [refused(0), refused(1)]);
        }
    }
}

#[test]
fn one_of_the_names_of_a_certificate_is_enough() {
    let mut pair = certified_pair(Security::Certified);
    pair.certificates[0] = [certified("prod", "c"), certified("prod", "b")].concat();
    assert_eq!(pair.run(), [up("a", 7), up("b", 7)]);
}

#[test]
fn noise_is_bound_to_the_tls_that_it_runs_in() {
    let mut hello =
        Hello::new(Me { security: Security::Both, ..me("b") }, Side::Dialler { expected: "a".into() });
    let mut effects = Vec::new();
    // Another version may say more.
    let theirs = [&preamble(&Me { security: Security::Both, ..me("a") })[..], b" "].concat();
    hello.step(Input::Frame(theirs.clone()), &mut effects);
    let preambles = [preamble(&Me { security: Security::Both, ..me("b") }), theirs].concat();
    assert_eq!(effects, [Effect::Tls { preambles: preambles.clone() }], "nothing is said before it");
    effects.clear();
    hello.step(Input::TlsDone { names: Ok(certified("prod", "a")), binding: vec![9; 32] }, &mut effects);
    let prologue = [&preambles[..], &[9; 32]].concat();
    assert_eq!(effects, [Effect::NoiseBegin { prologue }, Effect::NoiseWrite]);
}

#[test]
fn a_certificate_with_many_long_names_is_refused_in_a_frame_of_a_handshake() {
    let mut hello = Hello::new(Me { security: Security::Certified, ..me("a") }, Side::Listener);
    let mut effects = Vec::new();
    hello.step(Input::Frame(preamble(&Me { security: Security::Certified, ..me("b") })), &mut effects);
    let long = "x".repeat(100);
    let names = vec![Certified { cluster: long.clone(), node: long, permits: Permits::default() }; 64];
    hello.step(Input::TlsDone { names: Ok(names), binding: vec![] }, &mut effects);
    let said =
        effects.iter().filter_map(|effect| if let Effect::Send(said) = effect { Some(said) } else { None });
    assert!(
        said.clone().count() == 2 && said.map(Vec::len).max() < Some(crate::core::frame::HANDSHAKE_FRAME)
    );
    assert!(matches!(effects.last(), Some(Effect::Refuse(Refused::Certificate { .. }))));
}

#[test]
fn a_node_refuses_its_own_name_and_tells_the_other_side() {
    assert_eq!(Pair::new(me("a"), me("a")).run(), both(Refused::OwnName { node: "a".into() }));
}

#[test]
fn a_malformed_name_is_refused_on_both_sides() {
    for name in ["", "b/c", "b c", "\u{fc}", &"x".repeat(101)] {
        assert_eq!(Pair::new(me(name), me("a")).run(), both(Refused::BadName), "{name:?}");
    }
}

#[test]
fn the_lesser_name_must_not_dial() {
    assert_eq!(Pair::new(me("a"), me("b")).run(), both(Refused::WrongDirection));
}

#[test]
fn another_node_at_the_dialled_address_is_refused_on_both_sides() {
    let mut pair = Pair::new(me("c"), me("a"));
    pair.sides[0].0.side = Side::Dialler { expected: "b".into() };
    let why = Refused::WrongNode { expected: "b".into(), found: "a".into() };
    assert_eq!(pair.run(), both(why));
}

#[test]
fn an_unwelcome_incarnation_is_told_so() {
    let mut pair = Pair::new(me("b"), me("a"));
    pair.unwelcome = Some(Refused::Superseded);
    assert_eq!(pair.run(), both(Refused::Superseded));
}

fn listener_gets(frames: Vec<Vec<u8>>) -> Vec<Effect> {
    let mut hello = Hello::new(me("a"), Side::Listener);
    let mut effects = Vec::new();
    for frame in frames {
        hello.step(Input::Frame(frame), &mut effects);
    }
    effects
}

fn speaks(node: &str, oldest: u16, newest: u16) -> Me {
    Me { versions: Versions { oldest, newest }, ..me(node) }
}

#[test]
fn another_version_is_refused_whatever_follows_it_and_answered_with_ours() {
    let newer = [&MAGIC[..], &[0, 9], b"in words of the future", &[0, 12]].concat();
    let why = Refused::Version { ours: Versions::OURS, theirs: Versions { oldest: 9, newest: 12 } };
    assert_eq!(
        listener_gets(vec![newer.clone()]),
        [Effect::Send(preamble(&me("a"))), Effect::Refuse(why.clone())]
    );
    let mut dialler = Hello::new(me("b"), Side::Dialler { expected: "a".into() });
    let mut effects = Vec::new();
    dialler.step(Input::Frame(newer), &mut effects);
    assert_eq!(effects, [Effect::Refuse(why)]);
}

#[test]
fn without_a_common_version_both_sides_refuse_and_name_both_ranges() {
    for (dialler, listener) in [((1, 1), (2, 3)), ((2, 3), (1, 1)), ((4, 6), (1, 3)), ((1, 3), (4, 6))] {
        let versions = |(oldest, newest)| Versions { oldest, newest };
        let refused =
            |ours, theirs| End::Refused(Refused::Version { ours: versions(ours), theirs: versions(theirs) });
        let ends = Pair::new(speaks("b", dialler.0, dialler.1), speaks("a", listener.0, listener.1)).run();
        assert_eq!(ends, [refused(dialler, listener), refused(listener, dialler)]);
    }
}

#[test]
fn the_newest_common_version_is_spoken_on_both_sides() {
    for (dialler, listener, common) in [((1, 1), (1, 1), 1), ((1, 1), (1, 2), 1), ((1, 3), (1, 2), 2)] {
        let mut sides = [
            Hello::new(speaks("b", dialler.0, dialler.1), Side::Dialler { expected: "a".into() }),
            Hello::new(speaks("a", listener.0, listener.1), Side::Listener),
        ];
        let received = [preamble(&sides[1].me), preamble(&sides[0].me)];
        for (hello, frame) in sides.iter_mut().zip(received) {
            assert_eq!(hello.version(), None);
            hello.step(Input::Frame(frame), &mut Vec::new());
            assert_eq!(hello.version(), Some(common));
        }
        let ends = Pair::new(sides[0].me.clone(), sides[1].me.clone()).run();
        assert!(ends.iter().all(|end| matches!(end, End::Up(..))), "{ends:?}");
    }
}

#[test]
fn a_preamble_that_does_not_say_its_newest_version_has_one_version() {
    let whole = preamble(&me("b"));
    let effects = listener_gets(vec![whole[..whole.len() - 2].to_vec()]);
    assert!(matches!(effects.last(), Some(Effect::NoiseBegin { .. })), "{effects:?}");
}

#[test]
fn what_newer_versions_add_behind_preamble_and_hello_is_not_read() {
    let plain = |node| Me { security: Security::Plain, ..me(node) };
    let mut later = preamble(&plain("b"));
    let newest = later.split_off(later.len() - 2);
    later.extend([&b"\x81\xa3new\xc3"[..], &newest].concat());
    let hello = [&word(&HelloWord::Hello { node: "b".into(), incarnation: 7 })[..], b"\x01"].concat();
    let mut listener = Hello::new(plain("a"), Side::Listener);
    let mut effects = Vec::new();
    listener.step(Input::Frame(later), &mut effects);
    listener.step(Input::Frame(hello), &mut effects);
    assert_eq!(effects.last(), Some(&Effect::Check(PeerId::new("b", 7))));
}

#[test]
fn a_refusal_for_a_reason_of_the_future_is_passed_on_by_its_name() {
    let future = b"\x81\xa7Refused\x81\xa8Eclipsed\x92\x01\x02".to_vec();
    let effects = listener_gets(vec![preamble(&me("b")), future]);
    assert_eq!(effects.last(), Some(&Effect::Refuse(Refused::Unknown("Eclipsed".into()))));
    let damaged = b"\x81\xa7Refused\x81\xa9WrongNode\x01".to_vec();
    let effects = listener_gets(vec![preamble(&me("b")), damaged]);
    assert!(matches!(effects.last(), Some(Effect::Refuse(Refused::Malformed(_)))), "{effects:?}");
}

#[test]
fn a_stranger_is_not_answered() {
    for garbage in [&b"GET / HTTP/1.1"[..], b"", b"CALLSIG", MAGIC] {
        assert_eq!(listener_gets(vec![garbage.to_vec()]), [Effect::Refuse(Refused::NotCallsign)]);
    }
}

#[test]
fn a_preamble_changed_on_the_way_ends_as_a_wrong_secret() {
    // Somebody in the middle lets the dialler believe in another listener's preamble.
    let mut dialler = Hello::new(me("b"), Side::Dialler { expected: "a".into() });
    let mut effects = Vec::new();
    let longer = [&preamble(&me("a"))[..], b" "].concat();
    dialler.step(Input::Frame(longer), &mut effects);
    let [Effect::NoiseBegin { prologue }, Effect::NoiseWrite] = &effects[..] else { panic!("{effects:?}") };
    let honest = listener_gets(vec![preamble(&me("b"))]);
    let Some(Effect::NoiseBegin { prologue: theirs }) = honest.get(1) else { panic!("{honest:?}") };
    assert_ne!(prologue, theirs);
}

#[test]
fn frames_out_of_turn_and_garbage_end_the_handshake_once() {
    let hello = word(&HelloWord::Hello { node: "b".into(), incarnation: 7 });
    for second in [hello, word(&HelloWord::Ready), b"\xc1\xff".to_vec(), vec![]] {
        let effects = listener_gets(vec![preamble(&me("b")), second.clone(), second]);
        let refused = effects.iter().filter(|e| matches!(e, Effect::Refuse(Refused::Malformed(_)))).count();
        assert_eq!(refused, 1, "{effects:?}");
        assert!(!effects.iter().any(|e| matches!(e, Effect::Accept(..) | Effect::Check(_))));
    }
}

#[test]
fn the_listener_accepts_nobody_before_the_dialler_is_ready() {
    let mut listener = Hello::new(me("a"), Side::Listener);
    let mut effects = Vec::new();
    for input in [
        Input::Frame(preamble(&me("b"))),
        Input::Frame(noise_frame(b"psk, e")),
        Input::NoiseDone,
        Input::Frame(word(&HelloWord::Hello { node: "b".into(), incarnation: 7 })),
        Input::Welcome,
    ] {
        listener.step(input, &mut effects);
    }
    assert!(!effects.iter().any(|e| matches!(e, Effect::Accept(..))));
    listener.step(Input::Frame(word(&HelloWord::Ready)), &mut effects);
    assert_eq!(effects.last(), Some(&Effect::Accept(PeerId::new("b", 7), Permits::default())));
}

#[test]
fn each_side_learns_what_the_other_may_do() {
    let mut pair = certified_pair(Security::Certified);
    let restricted = Permits::read("names=shop/&lead=no").unwrap();
    let elsewhere = Certified { cluster: "test".into(), node: "a".into(), permits: Permits::default() };
    let mut of_a = vec![elsewhere];
    of_a.extend(certified("prod", "c").into_iter().chain(certified("prod", "a")));
    of_a[2].permits = restricted.clone();
    pair.certificates[1] = of_a;
    assert_eq!(pair.run(), [End::Up(PeerId::new("a", 7), restricted), up("b", 7)]);
}

#[test]
fn a_certificate_that_says_what_cannot_be_read_is_refused_and_told_so() {
    let mut hello = Hello::new(Me { security: Security::Certified, ..me("a") }, Side::Listener);
    let mut effects = Vec::new();
    hello.step(Input::Frame(preamble(&Me { security: Security::Certified, ..me("b") })), &mut effects);
    effects.clear();
    let why = Permits::read("lead=maybe").unwrap_err();
    let why = CertificateFault::Permits { name: "callsign://prod/b".into(), why };
    hello.step(Input::TlsDone { names: Err(why.clone()), binding: vec![] }, &mut effects);
    let why = Refused::Certificate { of: Whose::Theirs, why };
    assert_eq!(effects, [Effect::Send(word(&HelloWord::Refused(why.clone()))), Effect::Refuse(why)]);
}
