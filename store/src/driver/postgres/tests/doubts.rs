//! What makes a store doubt that its server is the primary still.

use super::{
    super::sql::{BUMP, PUT},
    wire::Said,
    *,
};

/// How often it was doubted by commits, each until its deadline, with this as the first answer to a statement.
async fn doubts(statement: &'static str, said: Said, deadlines: &[Instant]) -> u64 {
    let mut first = Some(said);
    let (line, session) = wire::line(move |asked| {
        let is_it = asked.starts_with(statement);
        match first.take_if(|_| is_it) {
            Some(said) => said,
            None if asked.starts_with(BUMP) => Said::Row(vec![Some(7)]),
            None => Said::Done,
        }
    })
    .await;
    let (all, _answers): (Vec<_>, Vec<_>) =
        deadlines.iter().map(|deadline| waiting::Waiting::new(put("v"), *deadline)).unzip();
    commit::commit(&line, all, &mut Failures::default()).await;
    session.doubts()
}

#[tokio::test(start_paused = true)]
async fn a_server_that_does_not_do_what_it_is_asked_is_doubted_and_one_that_says_no_is_not() {
    let now = Instant::now();
    let later = now + TEST_DEADLINE;
    for (statement, said, deadlines, expected) in [
        ("COMMIT", Said::Done, vec![now], 0),
        // A conflict.
        (BUMP, Said::Done, vec![now], 0),
        ("BEGIN", Said::Refused("55P03"), vec![now], 1),
        (PUT, Said::Refused("53100"), vec![now], 1),
        // With another one that is tried alone, and is done.
        (PUT, Said::Refused("53100"), vec![later, now], 1),
        (PUT, Said::Refused("53100"), vec![later, later], 0),
        ("COMMIT", Said::Refused("40001"), vec![now], 1),
        ("COMMIT", Said::Refused("40001"), vec![later, now], 1),
        ("COMMIT", Said::Refused("40001"), vec![later], 0),
        ("COMMIT", Said::Gone, vec![now], 1),
        // When nothing has come for a while, and when it is given up.
        ("BEGIN", Said::Nothing, vec![now], 2),
    ] {
        let found = doubts(statement, said, &deadlines).await;
        assert_eq!(found, expected, "{statement} {}", deadlines.len());
    }
}
