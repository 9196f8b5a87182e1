//! Commits that wait for a turn which another program has.

use super::*;

#[tokio::test]
async fn commits_that_go_together_wait_once_for_a_turn_that_another_holds_and_are_refused_together() {
    /// Half of what they would wait if each waited for itself.
    const TURN_TIMEOUT: Duration = Duration::from_secs(16);
    let server = server!();
    let address = Address::parse(&server.url("postgres")).unwrap();
    let identity = schema::prepare(&address).await.unwrap();
    let line = Line::start(Arc::new(Place::new(address, identity)), Role::Commits);
    let other = other(&server).await;
    other.batch_execute("BEGIN; LOCK TABLE callsign.turn IN EXCLUSIVE MODE").await.unwrap();
    let deadline = Instant::now() + TEST_DEADLINE;
    let (all, answers): (Vec<_>, Vec<_>) = (0..32).map(|_| waiting::Waiting::new(put("1"), deadline)).unzip();
    let mut failures = Failures::default();
    timeout(TURN_TIMEOUT, commit::commit(&line, all, &mut failures)).await.expect("they wait once");
    for mut answer in answers {
        let outcome = answer.try_recv().unwrap();
        assert!(is_unavailable(&outcome), "{outcome:?}");
    }
    other.batch_execute("ROLLBACK").await.unwrap();
    let outcome = commit_alone(&line, &put("2"), deadline, &mut failures).await;
    assert_eq!(outcome, CommitOutcome::Committed(Version(1)), "nothing of theirs was done");
}
