//! Nodes that may not hold every name.

use callsign_transport::Permits;

use super::*;

#[test]
fn a_drain_offers_no_name_to_a_node_that_may_not_hold_it() {
    let only = |names: &str| Permits::read(names).unwrap();
    let mut holder = Holder::draining(4);
    holder.permitted.linked(&node("b"), only("names=n001"));
    let all = [offer("c", 1, 0), offer("b", 2, 1), offer("c", 3, 2), offer("c", 4, 3)];
    assert_eq!(holder.offers(), all);
    // Nor when another one has declined it.
    holder.declines("c", 1, Decline::NotReady);
    assert_eq!(holder.offers(), []);
    // A name that nobody may hold stays, and is not waited for.
    let mut holder = Holder::draining(2);
    holder.targets.pop();
    holder.permitted.linked(&node("b"), only("names=shop/"));
    assert_eq!(holder.offers(), []);
    assert!(!holder.host.is_offering());
}
