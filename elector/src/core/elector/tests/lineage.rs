//! An elector that begins anew, in another lineage or in the same one.

use callsign_store::Read;

use super::*;
use crate::core::lineage::LineageId;

/// Steps an elector, and says what it reads then.
fn asks(sim: &Sim, elector: &mut Elector, input: Input) -> Option<(OpId, Vec<Read>)> {
    let mut effects = Vec::new();
    elector.step(sim.now, input, &mut effects);
    effects.into_iter().find_map(|effect| match effect {
        Effect::Read { id, reads } => Some((id, reads)),
        _ => None,
    })
}

fn answer(sim: &Sim, (id, reads): (OpId, Vec<Read>)) -> Input {
    Input::ReadDone { id, result: Ok(sim.store.read(&reads, None).unwrap()) }
}

#[test]
fn what_was_asked_for_before_the_lineage_began_is_no_answer_to_what_is_asked_for_since() {
    let mut sim = Sim::new(27, &["a", "b"]);
    sim.close_session("a");
    let host = sim.host("b");
    let (mut elector, session) = (host.elector.clone(), host.session.clone());
    let nodes = BTreeSet::from([node("a")]);
    let concerned = Input::Notice(Notice::Concerned { nodes });
    let first = asks(&sim, &mut elector, concerned).expect("it reads");
    let of_both = asks(&sim, &mut elector, answer(&sim, first)).expect("it lacks the other session");

    let (lineage, since) = (LineageId::default(), sim.now);
    let anew = asks(&sim, &mut elector, Input::Notice(Notice::Lineage { lineage, since }));
    asks(&sim, &mut elector, answer(&sim, of_both));
    assert!(elector.view().is_none(), "the other session was taken for its own: {:?}", elector.view());
    asks(&sim, &mut elector, answer(&sim, anew.expect("it reads anew")));
    assert!(elector.view().is_some_and(|view| view.sessions.is_open(&session)));
}
