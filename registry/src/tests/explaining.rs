//! What nodes say of one name.

use std::time::Duration;

use crate::{
    ExplainError, Explanation, NameState, Registry, Select, WhyFree,
    tests::driver::{Cluster, TEST_DEADLINE, counter},
};

async fn explain(node: &Registry, name: &str) -> Explanation {
    node.explain(name).await.unwrap()
}

/// Asks until this is said.
async fn said(node: &Registry, name: &str, expected: &str) -> Explanation {
    for _ in 0..6000 {
        let explained = explain(node, name).await;
        if explained.to_string().contains(expected) {
            return explained;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("{name} is never explained so: {expected}, but: {}", explain(node, name).await);
}

#[tokio::test(start_paused = true)]
async fn a_name_is_explained_on_its_own_node_and_on_another() {
    let cluster = Cluster::new();
    let [a, b, _c] = cluster.three().await;
    let held = b.register("shop", &counter().await).await.unwrap();
    let token = held.token();
    a.wait_for(token, TEST_DEADLINE).await.unwrap();
    tokio::time::sleep(Duration::from_secs(5)).await;
    let (here, there) = (explain(&b, "shop").await, explain(&a, "shop").await);
    for explained in [&here, &there] {
        let text = explained.to_string();
        let expected = format!("shop is held on b: registered at position {token} (");
        assert!(text.starts_with(&expected) && text.ends_with("s ago), which is its token"), "{text}");
        let NameState::Held { entry, ago, .. } = &explained.state else { panic!("{text}") };
        assert_eq!(entry.token(), token);
        let (least, most) = (Some(Duration::from_secs(5)), Some(Duration::from_secs(7)));
        assert!(*ago >= least && *ago < most, "{ago:?}");
        assert!(explained.trusted && explained.position >= token);
        assert_eq!(explained.status.members.len(), 3);
    }
    let session = |explained: &Explanation| explained.session.clone().unwrap();
    let lease = Some(crate::SessionTiming::default().lease);
    let (own, other) = (session(&here), session(&there));
    assert_eq!((own.open, own.trusted, own.lease), (Some(true), Some(true), lease));
    assert_eq!((other.open, other.trusted, other.lease), (Some(true), None, lease));
    assert_eq!((own.node.as_str(), own.number), ("b", other.number));
    for session in [own, other] {
        assert!(session.last_beat < Some(Duration::from_secs(5)), "{session}");
        assert!(session.to_string().ends_with("; its lease is 10s"), "{session}");
    }
    b.unregister("shop").await.unwrap();
    let freed = said(&a, "shop", "nobody holds shop: it was unregistered on b at position").await;
    assert_eq!(freed.session, None);
    assert_eq!(freed.changes.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn why_a_name_is_free_is_told_also_where_nobody_watches() {
    let cluster = Cluster::new();
    let [a, b, c] = cluster.three().await;
    let never = explain(&a, "shop").await;
    let expected = "nobody holds shop: the registry began with no names at position 1 (";
    assert!(never.to_string().starts_with(expected), "{never}");
    assert!(matches!(never.state, NameState::Free(WhyFree::Reset { .. })));
    let actor = counter().await;
    b.register("shop", &actor).await.unwrap();
    actor.stop(None);
    said(&c, "shop", "its actor on b ended at position").await;
    c.register("desk", &counter().await).await.unwrap();
    c.leave().await.unwrap();
    said(&a, "desk", "nobody holds desk: the session of its node, c, was closed at position").await;
    assert_eq!(c.explain("desk").await, Err(ExplainError::Left));
    assert!(matches!(a.explain("").await, Err(ExplainError::BadName(_))));
    // One that comes later has read the log from its beginning. It was not there when that was written.
    let d = cluster.node("d").await;
    let late = explain(&d, "shop").await;
    let NameState::Free(WhyFree::Ended(last)) = &late.state else { panic!("{late}") };
    assert_eq!((last.change.why.as_str(), last.ago), ("actor_ended", None), "{late}");
}

#[tokio::test(start_paused = true)]
async fn where_somebody_watches_each_change_is_told() {
    let cluster = Cluster::new();
    let node = cluster.node("a").await;
    let _watch = node.watch(Select::all()).unwrap();
    let held = node.register("shop", &counter().await).await.unwrap();
    held.update(None, Some(crate::Meta::new("eu").unwrap())).await.unwrap();
    let whys = |explained: &Explanation| {
        explained.changes.iter().map(|told| told.change.why.to_string()).collect::<Vec<_>>()
    };
    let explained = explain(&node, "shop").await;
    assert_eq!(whys(&explained), ["registered", "updated"]);
    assert!(explained.to_string().contains(", and changed at "), "{explained}");
    node.unregister("shop").await.unwrap();
    assert_eq!(whys(&explain(&node, "shop").await), ["registered", "updated", "unregistered"]);
}

#[tokio::test(start_paused = true)]
async fn a_node_that_lost_the_store_says_that_its_answer_may_be_old() {
    let cluster = Cluster::new();
    let node = cluster.node("a").await;
    let options = crate::RegisterOptions::default().tell(|_| {});
    node.register_with("shop", &counter().await, options).await.unwrap();
    cluster.store.outage_for_all();
    let lapsed = said(&node, "shop", "the session of this node is not trusted").await;
    assert!(!lapsed.trusted);
    let session = lapsed.session.unwrap();
    assert_eq!((session.trusted, session.last_beat), (Some(false), None));
}
