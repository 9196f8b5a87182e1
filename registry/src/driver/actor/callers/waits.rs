//! Callers that are dropped while they wait.

use super::{Shared, lock};
use crate::core::input::{CallId, Input};

/// A caller that waits. If it is dropped before it has its answer, the member is told that nobody waits any more.
pub(super) struct Waits<'a> {
    shared: &'a Shared,
    /// `None`: the call does something, also if nobody waits for it.
    call: Option<CallId>,
}

impl<'a> Waits<'a> {
    pub(super) fn new(shared: &'a Shared, call: Option<CallId>) -> Self {
        Self { shared, call }
    }

    pub(super) fn shared(&self) -> &'a Shared {
        self.shared
    }
}

impl Drop for Waits<'_> {
    fn drop(&mut self) {
        let Some(call) = self.call else { return };
        // What has been answered is not there any more, neither here nor in the member.
        let is_open = lock(&self.shared.answers).remove(&call).is_some();
        if is_open {
            self.shared.push(Input::GiveUp { call });
        }
    }
}

#[cfg(test)]
mod tests {
    use callsign_store::ids::Position;
    use futures::FutureExt;

    use super::*;
    use crate::{
        core::{input::Call, registry::Told},
        tests::driver::{Cluster, TEST_DEADLINE},
    };

    /// How many of the calls of a node the member has not answered.
    fn open(shared: &Shared) -> usize {
        lock(&shared.answers).len()
    }

    #[tokio::test(start_paused = true)]
    async fn a_wait_that_is_dropped_is_ended_in_the_member_too() {
        let cluster = Cluster::new();
        let node = cluster.node("a").await;
        let far = Position(node.status().position.0 + 1000);
        for _ in 0..100 {
            assert!(node.wait_for(far, TEST_DEADLINE).now_or_never().is_none());
            assert_eq!(open(&node.shared), 0);
        }
        // The member has taken the last of it when it answers this.
        assert!(node.ready(TEST_DEADLINE).await.is_ok());
        assert_eq!(open(&node.shared), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn a_member_is_told_of_no_call_that_was_answered_or_that_does_something() {
        let node = Cluster::new().node("a").await;
        assert!(node.ready(TEST_DEADLINE).await.is_ok());
        // From here on the member takes nothing from its inbox.
        *lock(&node.shared.actor) = None;
        assert!(
            node.shared.call(Call::Unregister { name: "x".into() }, TEST_DEADLINE).now_or_never().is_none()
        );
        assert_eq!(open(&node.shared), 1, "it is answered though nobody listens");
        assert!(node.shared.call(Call::Ready, TEST_DEADLINE).now_or_never().is_none());
        assert_eq!(open(&node.shared), 1);
        let told = node.shared.inbox.take(Vec::new()).0;
        let given_up = |told: &&Told| matches!(told, Told::Member(Input::GiveUp { .. }));
        assert_eq!(told.iter().filter(given_up).count(), 1, "{told:?}");
    }
}
