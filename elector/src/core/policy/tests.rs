use super::*;

fn node(name: &str) -> NodeName {
    NodeName::new(name).unwrap()
}

/// `a` to `d`, each described by letters: `s`ynced, `l`ive, `d`raining, `u`nlinked, a digit for a priority other than 1.
fn candidates(described: &[(&str, &str)]) -> BTreeMap<NodeName, Candidate> {
    described
        .iter()
        .map(|(name, what)| {
            let candidate = Candidate {
                synced: what.contains('s'),
                alive: what.contains('l'),
                priority: what.chars().find_map(|digit| digit.to_digit(10)).unwrap_or(1),
                draining: what.contains('d'),
            };
            (node(name), candidate)
        })
        .collect()
}

struct Case<'a> {
    members: &'a [(&'a str, &'a str)],
    incumbent: Option<&'a str>,
    proposer: &'a str,
    accuser: Option<&'a str>,
    deposed: Option<&'a str>,
    opening: Option<Opening>,
}

impl Case<'_> {
    fn is_unlinked(&self, node: &NodeName) -> bool {
        self.members.iter().any(|(name, what)| *name == node.as_str() && what.contains('u'))
    }
}

fn vacant<'a>(members: &'a [(&'a str, &'a str)], proposer: &'a str) -> Case<'a> {
    Case { members, incumbent: None, proposer, accuser: None, deposed: None, opening: None }
}

fn decided(case: &Case<'_>) -> String {
    decided_by(Preset::Sticky, case)
}

fn decided_by(preset: Preset, case: &Case<'_>) -> String {
    let candidates = candidates(case.members);
    let (incumbent, accuser, deposed) =
        (case.incumbent.map(node), case.accuser.map(node), case.deposed.map(node));
    let decision = decide(&Election {
        preset,
        candidates: &candidates,
        incumbent: incumbent.as_ref(),
        proposer: &node(case.proposer),
        accuser: accuser.as_ref(),
        deposed: deposed.as_ref(),
        unlinked: &candidates.keys().filter(|node| case.is_unlinked(node)).cloned().collect(),
        opening: case.opening,
    });
    match decision {
        Decision::Keep => "keep".into(),
        Decision::Vacant => "vacant".into(),
        Decision::Elect { node, opening: None } => node.to_string(),
        Decision::Elect { node, opening: Some(opening) } => format!("{node} {opening:?}"),
    }
}

#[test]
fn e14_the_incumbent_stays_whoever_proposes() {
    for proposer in ["a", "b", "x"] {
        let members = [("a", "sl"), ("b", ""), ("c", "sl")];
        assert_eq!(decided(&Case { incumbent: Some("b"), ..vacant(&members, proposer) }), "keep");
    }
}

#[test]
fn e14_an_incumbent_that_is_no_member_does_not_stay() {
    let members = [("a", "sl")];
    assert_eq!(decided(&Case { incumbent: Some("b"), ..vacant(&members, "a") }), "a");
}

#[test]
fn e15_the_proposer_takes_a_vacant_seat() {
    assert_eq!(decided(&vacant(&[("a", "sl"), ("b", "sl")], "b")), "b");
}

#[test]
fn e15_a_proposer_that_is_no_member_gives_it_to_the_smallest_id() {
    assert_eq!(decided(&vacant(&[("a", "l"), ("b", "sl"), ("c", "sl")], "x")), "b");
    assert_eq!(decided(&vacant(&[("a", "l"), ("b", "s")], "x")), "vacant");
    assert_eq!(decided(&vacant(&[], "x")), "vacant");
}

#[test]
fn e15_a_member_that_is_not_eligible_leaves_the_seat_vacant() {
    for what in ["l", "s", "sl0", "0"] {
        assert_eq!(decided(&vacant(&[("a", "sl"), ("b", what)], "b")), "vacant", "{what}");
    }
}

#[test]
fn the_synced_accuser_comes_before_the_proposer() {
    let members = [("a", "sl"), ("b", "sl"), ("c", "l")];
    assert_eq!(decided(&Case { accuser: Some("b"), ..vacant(&members, "a") }), "b");
    assert_eq!(decided(&Case { accuser: Some("c"), ..vacant(&members, "a") }), "a");
    assert_eq!(decided(&Case { accuser: Some("b"), ..vacant(&members, "c") }), "b");
}

#[test]
fn who_gave_up_the_seat_takes_it_only_if_nobody_else_is_eligible() {
    let members = [("a", "sl"), ("b", "sl")];
    assert_eq!(decided(&Case { deposed: Some("a"), ..vacant(&members, "a") }), "b");
    assert_eq!(decided(&Case { deposed: Some("a"), ..vacant(&members, "x") }), "b");
    let members = [("a", "sl"), ("b", "l")];
    assert_eq!(decided(&Case { deposed: Some("a"), ..vacant(&members, "a") }), "a");
    assert_eq!(decided(&Case { deposed: Some("a"), ..vacant(&members, "b") }), "vacant");
}

#[test]
fn an_unsynced_proposer_opens_a_seat_that_nobody_can_lead_otherwise() {
    for opening in [Opening::First, Opening::Reset] {
        let open = |members, proposer| decided(&Case { opening: Some(opening), ..vacant(members, proposer) });
        assert_eq!(open(&[("a", "l"), ("b", "l")], "b"), format!("b {opening:?}"));
        assert_eq!(open(&[("a", "l"), ("b", "")], "b"), "vacant", "it must prove that it lives");
        assert_eq!(open(&[("a", "l"), ("b", "l0")], "b"), "vacant");
        assert_eq!(open(&[("a", "sl"), ("b", "l")], "b"), "vacant", "a synced member can lead");
        assert_eq!(open(&[("a", "l")], "x"), "vacant");
    }
    assert_eq!(decided(&vacant(&[("a", "l")], "a")), "vacant");
}

#[test]
fn who_drains_is_elected_only_if_nobody_is_eligible_who_stays() {
    let members = [("a", "sld"), ("b", "sl")];
    assert_eq!(decided(&vacant(&members, "a")), "b");
    assert_eq!(decided(&Case { accuser: Some("a"), ..vacant(&members, "x") }), "b");
    let members = [("a", "sld"), ("b", "l")];
    assert_eq!(decided(&vacant(&members, "a")), "a");
    let members = [("a", "sld"), ("b", "sld")];
    assert_eq!(decided(&Case { deposed: Some("a"), ..vacant(&members, "a") }), "b");
    let members = [("a", "sld"), ("b", "sl")];
    assert_eq!(
        decided(&Case { deposed: Some("b"), ..vacant(&members, "b") }),
        "a",
        "b was not heard, or resigned"
    );
}

#[test]
fn of_those_that_could_have_a_given_up_seat_one_gets_it_that_is_linked() {
    let given_up = |members| decided(&Case { deposed: Some("c"), ..vacant(members, "c") });
    assert_eq!(given_up(&[("a", "sl"), ("b", "sl"), ("c", "sld")]), "a");
    assert_eq!(given_up(&[("a", "slu"), ("b", "sl"), ("c", "sld")]), "b");
    assert_eq!(given_up(&[("a", "slu"), ("b", "slu"), ("c", "sld")]), "a", "rather than nobody");
    assert_eq!(decided(&vacant(&[("a", "slu"), ("b", "sl")], "a")), "a", "who proposes itself lives");
}

#[test]
fn by_rank_a_vacant_seat_goes_to_the_greatest_priority_whoever_proposes() {
    let ranked = |case: &Case<'_>| decided_by(Preset::Ranked, case);
    let members = [("a", "sl2"), ("b", "sl7"), ("c", "sl7"), ("d", "sl")];
    for proposer in ["a", "b", "c", "d", "stranger"] {
        let case = vacant(&members, proposer);
        assert_eq!(ranked(&case), "b", "proposed by {proposer}");
        assert_eq!(ranked(&Case { accuser: Some("d"), ..case }), "b", "accused by d");
        assert_ne!(decided(&vacant(&members, "a")), "b", "whoever lives, by the other preset");
        // Who gave it up, or is accused, does not get it back.
        assert_eq!(ranked(&Case { deposed: Some("b"), ..vacant(&members, proposer) }), "c");
        assert_eq!(ranked(&Case { incumbent: Some("d"), ..vacant(&members, proposer) }), "keep");
    }
    // Rank is nothing without the log's end and an open session, and 0 is never elected.
    let lacking = [("a", "sl2"), ("b", "l9"), ("c", "s8"), ("d", "sl0")];
    assert_eq!(ranked(&vacant(&lacking, "b")), "a", "also by a proposer that is not eligible");
    assert_eq!(ranked(&vacant(&[("a", "sl2"), ("b", "sld9")], "b")), "a", "b is about to leave");
    assert_eq!(ranked(&vacant(&[("b", "sld9")], "b")), "b");
    // Where nobody has it, somebody begins anew, as by the other preset.
    let empty = [("a", "l2"), ("b", "l9")];
    assert_eq!(ranked(&vacant(&empty, "a")), "vacant");
    let first = Case { opening: Some(Opening::First), ..vacant(&empty, "a") };
    assert_eq!(ranked(&first), "a First");
}
