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
    Up(PeerId),
    Refused(Refused),
}

/// Runs both sides against each other. Noise is played: a message is the sender's secret and prologue.
struct Pair {
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
            unwelcome: None,
            ends: [End::Open, End::Open],
        }
    }

    fn run(mut self) -> [End; 2] {
        let mut inputs = std::collections::VecDeque::from([(0, Input::Start), (1, Input::Start)]);
        while let Some((at, input)) = inputs.pop_front() {
            let mut effects = Vec::new();
            let (hello, secret, prologue) = &mut self.sides[at];
            hello.step(input, &mut effects);
            for effect in effects {
                match effect {
                    Effect::Send(frame) => inputs.push_back((1 - at, Input::Frame(frame))),
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
                    Effect::Accept(peer) => self.ends[at] = End::Up(peer),
                    Effect::Refuse(why) => self.ends[at] = End::Refused(why),
                }
            }
        }
        self.ends
    }
}

fn both(why: Refused) -> [End; 2] {
    [End::Refused(why.clone()), End::Refused(why)]
}

#[test]
fn two_nodes_that_belong_together_learn_who_the_other_is() {
    for security in [Security::Secured, Security::Plain] {
        let (mut a, mut b) = (me("b"), me("a"));
        (a.security, b.security) = (security, security);
        b.peer.incarnation = 8;
        let ends = Pair::new(a, b).run();
        assert_eq!(ends, [End::Up(PeerId::new("a", 8)), End::Up(PeerId::new("b", 7))]);
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
fn a_secret_on_one_side_only_is_refused_on_both_sides() {
    use Security::{Plain, Secured};
    for (dialler, listener) in [(Plain, Secured), (Secured, Plain)] {
        let (mut a, mut b) = (me("b"), me("a"));
        (a.security, b.security) = (dialler, listener);
        let refused = |ours, theirs| End::Refused(Refused::Security { ours, theirs });
        assert_eq!(Pair::new(a, b).run(), [refused(dialler, listener), refused(listener, dialler)]);
    }
}

#[test]
fn different_secrets_are_refused_on_both_sides() {
    let mut pair = Pair::new(me("b"), me("a"));
    pair.sides[1].1 = 2;
    assert_eq!(pair.run(), both(Refused::Secret));
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

fn listener_hears(frames: Vec<Vec<u8>>) -> Vec<Effect> {
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
        listener_hears(vec![newer.clone()]),
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
        let heard = [preamble(&sides[1].me), preamble(&sides[0].me)];
        for (hello, frame) in sides.iter_mut().zip(heard) {
            assert_eq!(hello.version(), None);
            hello.step(Input::Frame(frame), &mut Vec::new());
            assert_eq!(hello.version(), Some(common));
        }
        let ends = Pair::new(sides[0].me.clone(), sides[1].me.clone()).run();
        assert!(ends.iter().all(|end| matches!(end, End::Up(_))), "{ends:?}");
    }
}

#[test]
fn a_preamble_that_does_not_say_its_newest_version_has_one_version() {
    let whole = preamble(&me("b"));
    let effects = listener_hears(vec![whole[..whole.len() - 2].to_vec()]);
    assert!(matches!(effects.last(), Some(Effect::NoiseBegin { .. })), "{effects:?}");
}

#[test]
fn what_newer_versions_add_behind_preamble_and_hello_is_not_read() {
    let plain = |node| Me { security: Security::Plain, ..me(node) };
    let mut later = preamble(&plain("b"));
    let newest = later.split_off(later.len() - 2);
    later.extend([&b"\x81\xa3new\xc3"[..], &newest].concat());
    let hello = [&word(&Word::Hello { node: "b".into(), incarnation: 7 })[..], b"\x01"].concat();
    let mut listener = Hello::new(plain("a"), Side::Listener);
    let mut effects = Vec::new();
    listener.step(Input::Frame(later), &mut effects);
    listener.step(Input::Frame(hello), &mut effects);
    assert_eq!(effects.last(), Some(&Effect::Check(PeerId::new("b", 7))));
}

#[test]
fn a_refusal_for_a_reason_of_the_future_is_passed_on_by_its_name() {
    let future = b"\x81\xa7Refused\x81\xa8Eclipsed\x92\x01\x02".to_vec();
    let effects = listener_hears(vec![preamble(&me("b")), future]);
    assert_eq!(effects.last(), Some(&Effect::Refuse(Refused::Unknown("Eclipsed".into()))));
    let damaged = b"\x81\xa7Refused\x81\xa9WrongNode\x01".to_vec();
    let effects = listener_hears(vec![preamble(&me("b")), damaged]);
    assert!(matches!(effects.last(), Some(Effect::Refuse(Refused::Malformed(_)))), "{effects:?}");
}

#[test]
fn a_stranger_is_not_answered() {
    for garbage in [&b"GET / HTTP/1.1"[..], b"", b"CALLSIG", MAGIC] {
        assert_eq!(listener_hears(vec![garbage.to_vec()]), [Effect::Refuse(Refused::NotCallsign)]);
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
    let honest = listener_hears(vec![preamble(&me("b"))]);
    let Some(Effect::NoiseBegin { prologue: theirs }) = honest.get(1) else { panic!("{honest:?}") };
    assert_ne!(prologue, theirs);
}

#[test]
fn frames_out_of_turn_and_garbage_end_the_handshake_once() {
    let hello = word(&Word::Hello { node: "b".into(), incarnation: 7 });
    for second in [hello, word(&Word::Ready), b"\xc1\xff".to_vec(), vec![]] {
        let effects = listener_hears(vec![preamble(&me("b")), second.clone(), second]);
        let refused = effects.iter().filter(|e| matches!(e, Effect::Refuse(Refused::Malformed(_)))).count();
        assert_eq!(refused, 1, "{effects:?}");
        assert!(!effects.iter().any(|e| matches!(e, Effect::Accept(_) | Effect::Check(_))));
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
        Input::Frame(word(&Word::Hello { node: "b".into(), incarnation: 7 })),
        Input::Welcome,
    ] {
        listener.step(input, &mut effects);
    }
    assert!(!effects.iter().any(|e| matches!(e, Effect::Accept(_))));
    listener.step(Input::Frame(word(&Word::Ready)), &mut effects);
    assert_eq!(effects.last(), Some(&Effect::Accept(PeerId::new("b", 7))));
}
