//! A node that may not hold a name gets nothing that goes with it.

use callsign_transport::Permits;

use super::*;

fn shop() -> Permits {
    Permits::read("names=shop/").unwrap()
}

#[test]
fn a_node_that_may_not_hold_a_name_is_refused_before_its_holder_is_flagged_or_asked_for_data() {
    let not_permitted = || TakeRefusal::NotPermitted { allowed: vec!["shop/".to_owned()] };
    let mut holder = Holder::new();
    holder.permitted.linked(&node("b"), shop());
    assert_eq!(holder.is_asked(), [refused(not_permitted())]);
    assert_eq!(holder.host.gives.count(), 0);
    assert_eq!(holder.asks(9, "nobodys", 1, 7), [refuses(9, TakeRefusal::NotHeld)]);
    // With another certificate the next request is heard. What was said to the first one is said again.
    holder.permitted.linked(&node("b"), Permits::read("names=x").unwrap());
    assert_eq!(holder.is_asked(), [refused(not_permitted())]);
    assert_eq!(holder.asks(10, "x", 1, 7), consents(1));
}

#[test]
fn what_a_holder_has_consented_to_is_for_the_leader_to_refuse() {
    let mut holder = Holder::asked();
    holder.permitted.linked(&node("b"), shop());
    assert_eq!(holder.gives("x", 1, Ok(data())), [hands()]);
    assert_eq!(holder.is_asked(), [hands()]);
}
