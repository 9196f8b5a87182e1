//! Takes from an actor of the same node.

use super::*;

#[test]
fn what_comes_from_an_actor_of_this_node_by_a_snapshot_ends_the_former_claim_first() {
    let mut alone = Alone::taking(&["x"]);
    alone.hears("b", data(1, 4, "data"));
    alone.apply(vec![moved("x", 0, 1)]);
    // Actor 5 has it, and actor 6 takes it.
    assert_eq!(alone.take(2, "x", 2).len(), 2);
    let from_here =
        |consent| Taking::Data { taker: taker(2), holder: session("a"), consent, data: "more".into() };
    alone.hears("a", from_here(9));
    alone.sync(false);
    let position = Position(2);
    let (request, kind) = (RequestNumber(2), Kind(7));
    let op = Op::Transfer { name: "x".into(), position, session: 0, request, actor: 6, kind };
    // The replica has it, and nobody said what was applied: so it is with a snapshot.
    alone.comes_to(vec![op]);
    alone.sync(true);
    let effects = alone.settle();
    let (former, notice) = (CallId(1), Notice::Transferred);
    let told = Effect::Notify { actor: 5, claims: vec![former], notice };
    for effect in [Effect::Flag { claim: former }, told, Effect::Forget { claim: former }] {
        assert!(effects.contains(&effect), "{effect:?} of {effects:?}");
    }
    let claim = &alone.host.claims()["x"];
    assert_eq!((claim.actor, claim.position), (Some(6), Position(3)));
    // The end of the former actor is nothing to it.
    assert_eq!(alone.end_of_actor(5), []);
    assert_eq!(alone.host.claims()["x"].actor, Some(6));
}
