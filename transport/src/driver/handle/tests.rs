use futures::FutureExt;

use super::*;
use crate::tuning::{LinkLimits, LinkTiming};

/// A link that is up, and that no task runs.
pub(crate) async fn idle(id: u64, now: Duration) -> Arc<LinkHandle> {
    let id = LinkId(id);
    let remote = RemoteSide::new(crate::Tasks::default(), 10).await.unwrap();
    let mut core = Link::new(now, LinkTiming::default());
    core.step(now, Input::Established, &mut Vec::new());
    let of = (PeerId::new("z", 7), Permits::default(), SocketAddr::from(([127, 0, 0, 1], 1)));
    Arc::new(LinkHandle::new(id, of, remote, Outbox::new(id, LinkLimits::default()), core))
}

fn is_told_to_write(link: &LinkHandle) -> bool {
    link.written.notified().now_or_never().is_some()
}

#[tokio::test]
async fn what_there_is_to_say_of_actors_is_taken_once() {
    let link = idle(1, Duration::ZERO).await;
    assert!(!link.take_to_say());
    link.has_to_say();
    assert!(is_told_to_write(&link));
    assert_eq!([(); 2].map(|()| link.take_to_say()), [true, false]);
    link.has_more_to_say();
    assert_eq!([(); 2].map(|()| link.take_to_say()), [true, false]);
}

#[tokio::test]
async fn a_link_after_which_others_write_is_told_to_write_itself() {
    let (first, next) = (idle(1, Duration::ZERO).await, idle(2, Duration::ZERO).await);
    first.write_before([next.clone()].into_iter());
    assert!(is_told_to_write(&first) && !is_told_to_write(&next));
    first.has_written(false);
    assert!(is_told_to_write(&next) && !is_told_to_write(&first));
    // It reads, and is to write all the same.
    first.write_before([next.clone()].into_iter());
    assert!(is_told_to_write(&first) && is_told_to_write(&next));
}
