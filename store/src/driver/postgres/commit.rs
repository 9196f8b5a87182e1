//! Commits a transaction.

use std::{
    collections::BTreeSet,
    time::{Duration, Instant},
};

use futures::FutureExt;
use tokio_postgres::{Client, Error, Row, Statement, types::ToSql};

use super::{
    line::{Line, Session},
    notice::spelled,
    pipeline::Pipeline,
    sql::{CHANNEL, CLEARS_KEPT, seen},
    standbys::CUT_SHORT,
    trouble::{PostgresMeaning, in_words, meaning, meaning_at_commit},
    waiting::Waiting,
};
use crate::{
    core::transaction::{CommitOutcome, Key, Transaction, Write},
    driver::failures::Failures,
};

/// Begins the transaction of this turn, a number of its own. See the module `postgres` for why the lock comes first.
///
/// The statements behind it are sent before it is answered. If it is refused, because a cancellation meets it or because
/// something in between refuses it, each of them would be a transaction of its own. So it says in the transaction whose
/// turn it is, which is forgotten with the transaction, and [`BUMP`](super::sql::BUMP) does nothing where that was not said.
fn begin(turn: i64) -> String {
    format!(
        "BEGIN ISOLATION LEVEL SERIALIZABLE; LOCK TABLE callsign.turn IN EXCLUSIVE MODE; SET LOCAL callsign.turn = '{turn}'"
    )
}

/// The longest pause before a transaction is run again: about the time of some commits.
const LONGEST_RERUN_PAUSE: Duration = Duration::from_millis(20);

/// What came of one attempt.
enum Attempt {
    /// What became of each transaction.
    Done(Vec<CommitOutcome>),
    /// The server refused one of them, for this reason. Nothing was changed, and no other attempt does better.
    Refused(String),
    /// The server did not let the turn begin, for this reason: none of them is to blame. Nothing was changed.
    NotBegun(String),
    /// Nothing was changed, and nothing will be, for this reason; another attempt may do better.
    Again(String),
    /// What became of them is not known, for this reason.
    Unknown(String),
}

/// Commits transactions that write, in this order and in one transaction of the server, where each has a version of its own and sees what
/// those before it have written. Waits, and tries again, until the deadline of each; an attempt that is under way then is waited for.
pub(super) async fn commit(line: &Line, mut all: Vec<Waiting>, failures: &mut Failures) {
    while let Some(deadline) = all.iter().map(|one| one.deadline).min() {
        let session = match line.session(deadline).await {
            Ok(session) => session,
            Err(why) => return answer_all(all, &CommitOutcome::Unavailable(why)),
        };
        let attempt = session.answer(attempt(&session, &all)).await;
        match attempt.unwrap_or_else(|why| Attempt::Unknown(why.to_owned())) {
            Attempt::Done(outcomes) => {
                for (one, outcome) in all.into_iter().zip(outcomes) {
                    failures.answered(&outcome);
                    one.answer(outcome);
                }
                return;
            }
            Attempt::Unknown(why) => {
                session.met_unknown();
                failures.note(&why);
                return answer_all(all, &CommitOutcome::Unknown);
            }
            Attempt::Refused(why) if all.len() == 1 => {
                session.doubt();
                return answer_all(all, &CommitOutcome::Unavailable(why));
            }
            // The others may be well without it.
            Attempt::Refused(why) => {
                for one in all {
                    if Instant::now() >= one.deadline {
                        session.doubt();
                        one.answer(CommitOutcome::Unavailable(why.clone()));
                    } else {
                        Box::pin(commit(line, vec![one], failures)).await;
                    }
                }
                return;
            }
            // Each alone would wait for the turn as long again.
            Attempt::NotBegun(why) => {
                session.doubt();
                return answer_all(all, &CommitOutcome::Unavailable(why));
            }
            Attempt::Again(why) => {
                let now = Instant::now();
                let (late, in_time): (Vec<_>, _) = all.into_iter().partition(|one| now >= one.deadline);
                if !late.is_empty() {
                    session.doubt();
                }
                answer_all(late, &CommitOutcome::Unavailable(why));
                all = in_time;
                if !all.is_empty() {
                    tokio::time::sleep(LONGEST_RERUN_PAUSE.mul_f64(rand::random_range(0.05..1.0))).await;
                }
            }
        }
    }
}

fn answer_all(all: Vec<Waiting>, outcome: &CommitOutcome) {
    for one in all {
        one.answer(outcome.clone());
    }
}

/// Commits a transaction without writes: it takes no turn, and changes nothing, whatever breaks.
pub(super) async fn only_check(line: &Line, transaction: &Transaction, deadline: Instant) -> CommitOutcome {
    loop {
        let session = match line.session(deadline).await {
            Ok(session) => session,
            Err(why) => return CommitOutcome::Unavailable(why),
        };
        let (keys, values) = expected(transaction);
        let identity = session.identity();
        let params: [&(dyn ToSql + Sync); 3] = [&keys, &values, &identity];
        let asked = session.client.query_one(&session.sql.check, &params);
        let why = match session.answer(asked).await.map(|row| row.and_then(|row| row.try_get(0))) {
            Ok(Ok(Some(version))) => return CommitOutcome::Committed(seen(version)),
            Ok(Ok(None)) => return CommitOutcome::Conflict,
            Ok(Err(error)) => {
                session.met(&error);
                if meaning(&error) == PostgresMeaning::Refused {
                    return CommitOutcome::Unavailable(in_words(&error));
                }
                in_words(&error)
            }
            Err(why) => why.to_owned(),
        };
        if Instant::now() >= deadline {
            return CommitOutcome::Unavailable(why);
        }
        tokio::time::sleep(LONGEST_RERUN_PAUSE.mul_f64(rand::random_range(0.05..1.0))).await;
    }
}

/// Writes that one statement can do.
#[derive(Debug, PartialEq, Eq)]
enum WriteStage<'a> {
    /// Keys, each once, and values.
    Put(Vec<&'a [u8]>, Vec<&'a [u8]>),
    /// From the first up to, not including, the second; the number of the removal.
    Clear(&'a [u8], Key, i32),
    /// Prefix, value, the number of the entry.
    Append(&'a [u8], &'a [u8], i32),
}

/// The writes in their order, neighbouring puts together.
fn stages(writes: &[Write]) -> Vec<WriteStage<'_>> {
    let mut stages = Vec::new();
    // The keys of the last stage, if it is one of puts.
    let mut together = BTreeSet::new();
    // A transaction is limited to far fewer bytes than 2^31.
    let (mut cleared, mut appended) = (0_i32, 0_i32);
    let mut clear = |first, beyond| {
        cleared += 1;
        WriteStage::Clear(first, beyond, cleared)
    };
    for write in writes {
        let stage = match write {
            Write::Put { key, value } => {
                if let Some(WriteStage::Put(keys, values)) = stages.last_mut()
                    && together.insert(key)
                {
                    keys.push(key);
                    values.push(value);
                    continue;
                }
                together = BTreeSet::from([key]);
                WriteStage::Put(vec![key], vec![value])
            }
            Write::Clear(key) => clear(key, [key.as_slice(), &[0]].concat()),
            Write::ClearRange(range) => clear(&range.start, range.end.clone()),
            Write::Append { prefix, value } => {
                appended += 1;
                WriteStage::Append(prefix, value, appended - 1)
            }
        };
        stages.push(stage);
    }
    stages
}

fn expected(transaction: &Transaction) -> (Vec<&[u8]>, Vec<Option<&[u8]>>) {
    transaction.checks.iter().map(|check| (check.key.as_slice(), check.expected.as_deref())).unzip()
}

/// A statement that is answered with a number, or with none.
async fn ask(client: &Client, sql: &Statement, params: &[&(dyn ToSql + Sync)]) -> Result<Option<i64>, Error> {
    let row = client.query_opt(sql, params).await?;
    row.map(|row: Row| row.try_get(0)).transpose()
}

async fn attempt(session: &Session, all: &[Waiting]) -> Attempt {
    let client = &session.client;
    let turn: i64 = rand::random();
    let begin = begin(turn);
    let mut pipeline = Pipeline::new();
    pipeline.push(client.batch_execute(&begin).map(|done| done.map(|()| None)));
    let bumps: Vec<_> = all.iter().map(|one| push(&mut pipeline, session, turn, &one.transaction)).collect();
    // If a part could not even be sent, the rest must not be committed without it.
    let is_whole = pipeline.is_sent();
    let last = if is_whole { "COMMIT" } else { "ROLLBACK" };
    pipeline.push(client.batch_execute(last).map(|done| done.map(|()| None)));

    let answers = pipeline.finish().await;
    answers.iter().filter_map(|answer| answer.as_ref().err()).for_each(|error| session.met(error));
    let attempt = judge(&answers, &bumps, is_whole);
    if let Attempt::Done(outcomes) = &attempt {
        let mut committed = outcomes.iter().filter_map(|outcome| match outcome {
            CommitOutcome::Committed(version) => Some(*version),
            _ => None,
        });
        if let Some(newest) = committed.next_back() {
            session.saw(newest);
            if session.standing.is_cut_short() {
                session.give_up();
                return Attempt::Unknown(CUT_SHORT.to_owned());
            }
        }
    }
    attempt
}

/// Sends what one transaction does in this turn. Returns which of the statements raises the version.
fn push<'a>(
    pipeline: &mut Pipeline<'a, Option<i64>>,
    session: &'a Session,
    turn: i64,
    transaction: &'a Transaction,
) -> usize {
    let (client, sql) = (&session.client, &session.sql);
    let (identity, nonce): (i64, i64) = (session.identity(), rand::random());
    let (keys, values) = expected(transaction);
    let bump = pipeline.push(async move {
        let params: [&(dyn ToSql + Sync); 5] = [&keys, &values, &nonce, &identity, &turn];
        ask(client, &sql.bump, &params).await
    });
    let mut clears = false;
    for stage in stages(&transaction.writes) {
        clears |= matches!(stage, WriteStage::Clear(..));
        // Each future owns what it sends: it is polled again after this.
        pipeline.push(async move {
            match &stage {
                WriteStage::Put(keys, values) => client.execute(&sql.put, &[keys, values, &nonce]).await,
                WriteStage::Clear(first, beyond, nth) => {
                    client.execute(&sql.clear, &[first, beyond, nth, &nonce]).await
                }
                WriteStage::Append(prefix, value, nth) => {
                    client.execute(&sql.append, &[prefix, value, nth, &nonce]).await
                }
            }
            .map(|_| None)
        });
    }
    if clears {
        let kept = CLEARS_KEPT.cast_signed();
        pipeline.push(async move { client.execute(&sql.forget, &[&kept, &nonce]).await.map(|_| None) });
    }
    let said = spelled(&transaction.writes);
    pipeline.push(async move { client.execute(&sql.notify, &[&CHANNEL, &said, &nonce]).await.map(|_| None) });
    bump
}

/// What became of transactions, by the answers to all statements. Those at `bumps`, one for each transaction, are its version, or "no"; the
/// last is that to the COMMIT.
fn judge(answers: &[Result<Option<i64>, Error>], bumps: &[usize], is_whole: bool) -> Attempt {
    let failed = answers.iter().enumerate().find_map(|(index, answer)| Some((index, answer.as_ref().err()?)));
    let Some((index, error)) = failed else {
        let outcome = |bump: &usize| match answers.get(*bump) {
            Some(Ok(Some(version))) => Some(CommitOutcome::Committed(seen(*version))),
            Some(Ok(None)) => Some(CommitOutcome::Conflict),
            _ => None,
        };
        let outcomes: Option<Vec<_>> = bumps.iter().map(outcome).collect();
        let unsaid = || Attempt::Unknown("the server did not say at which version".to_owned());
        return outcomes.map_or_else(unsaid, Attempt::Done);
    };
    if !is_whole {
        return Attempt::Again(in_words(error));
    }
    // Nothing behind it does anything, whatever broke later. Among several, it may have been refused for what another one wrote, and
    // which is gone.
    if let [only] = bumps
        && index > *only
        && matches!(answers.get(*only), Some(Ok(None)))
    {
        return Attempt::Done(vec![CommitOutcome::Conflict]);
    }
    let at_commit = index + 1 == answers.len();
    match if at_commit { meaning_at_commit(error) } else { meaning(error) } {
        PostgresMeaning::Again => Attempt::Again(in_words(error)),
        PostgresMeaning::Refused if index == 0 => Attempt::NotBegun(in_words(error)),
        PostgresMeaning::Refused => Attempt::Refused(in_words(error)),
        PostgresMeaning::Broken => Attempt::Unknown(in_words(error)),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use super::{
        super::{
            line::SILENT,
            sql::{BUMP, CHECK, NOTIFY, PUT},
            tests::{
                commit_alone,
                said::*,
                wire::{self, Said},
            },
        },
        *,
    };
    use crate::{
        core::transaction::Version,
        testing::{TEST_DEADLINE, log::Listening},
    };

    /// A connection to a server that says this to each of the statements of the next, and then says that all is well, at
    /// version 7; and what it heard, the nonce left out.
    async fn server(
        mut said: Vec<(&'static str, Said)>,
    ) -> (Line, Arc<Session>, Arc<Mutex<Vec<&'static str>>>) {
        let heard = Arc::<Mutex<Vec<_>>>::default();
        let log = heard.clone();
        let (line, session) = wire::line(move |statement| {
            let known = [BUMP, CHECK, PUT, NOTIFY, "COMMIT", "ROLLBACK", "BEGIN"];
            let statement = known.into_iter().find(|known| statement.starts_with(known)).unwrap();
            log.lock().unwrap().push(statement);
            match said.iter().position(|(to, _)| *to == statement) {
                Some(nth) => said.remove(nth).1,
                None if [BUMP, CHECK].contains(&statement) => Said::Row(vec![Some(7)]),
                None => Said::Done,
            }
        })
        .await;
        (line, session, heard)
    }

    fn put() -> Transaction {
        Transaction::new().put(b"k".to_vec(), b"v".to_vec())
    }

    fn only_check_of_k() -> Transaction {
        Transaction::new().check(b"k".to_vec(), None)
    }

    fn later() -> Instant {
        Instant::now() + TEST_DEADLINE
    }

    const DONE: CommitOutcome = CommitOutcome::Committed(Version(7));

    /// How many transactions of the server were begun.
    fn begun(heard: &Mutex<Vec<&'static str>>) -> usize {
        heard.lock().unwrap().iter().filter(|said| **said == "BEGIN").count()
    }

    /// Commits these together, each until its deadline.
    async fn together(line: &Line, all: Vec<(Transaction, Instant)>) -> Vec<CommitOutcome> {
        let (all, answers): (Vec<_>, Vec<_>) =
            all.into_iter().map(|(transaction, deadline)| Waiting::new(transaction, deadline)).unzip();
        commit(line, all, &mut Failures::default()).await;
        answers.into_iter().map(|mut answer| answer.try_recv().unwrap()).collect()
    }

    #[tokio::test(start_paused = true)]
    async fn what_goes_together_has_one_commit_and_an_outcome_each() {
        let (line, _, heard) = server(vec![(BUMP, Said::Row(vec![Some(6)])), (BUMP, Said::Done)]).await;
        let outcomes = together(&line, vec![(put(), later()); 3]).await;
        assert_eq!(outcomes, [CommitOutcome::Committed(Version(6)), CommitOutcome::Conflict, DONE]);
        let each = [BUMP, PUT, NOTIFY];
        assert_eq!(*heard.lock().unwrap(), [&["BEGIN"][..], &each, &each, &each, &["COMMIT"]].concat());
    }

    /// What it was refused for may never have been.
    #[tokio::test(start_paused = true)]
    async fn nothing_is_known_of_any_of_them_if_nothing_is_known_of_the_commit() {
        let refused = (BUMP, Said::Done);
        let (line, ..) =
            server(vec![(BUMP, Said::Row(vec![Some(6)])), refused, ("COMMIT", Said::Gone)]).await;
        assert_eq!(
            together(&line, vec![(put(), later()); 2]).await,
            [CommitOutcome::Unknown, CommitOutcome::Unknown]
        );
    }

    #[tokio::test(start_paused = true)]
    async fn one_that_the_server_refuses_costs_the_others_nothing_but_time() {
        let full = || (PUT, Said::Refused("53100"));
        let (line, _, heard) = server(vec![full(), (PUT, Said::Done), full()]).await;
        let outcomes = together(&line, vec![(put(), later()); 2]).await;
        assert!(
            matches!(&outcomes[0], CommitOutcome::Unavailable(why) if why.contains("53100")),
            "{outcomes:?}"
        );
        assert_eq!(outcomes[1], DONE);
        assert_eq!(begun(&heard), 3, "together, and each alone");
    }

    #[tokio::test(start_paused = true)]
    async fn those_that_are_late_when_another_is_refused_are_not_tried_alone() {
        let (line, _, heard) = server(vec![(PUT, Said::Refused("53100"))]).await;
        let outcomes = together(&line, vec![(put(), later()), (put(), Instant::now())]).await;
        assert_eq!(outcomes[0], DONE);
        assert!(
            matches!(&outcomes[1], CommitOutcome::Unavailable(why) if why.contains("53100")),
            "{outcomes:?}"
        );
        assert_eq!(begun(&heard), 2, "together, and the one that has time");
    }

    #[tokio::test(start_paused = true)]
    async fn where_their_turn_does_not_begin_none_of_them_is_tried_alone() {
        for code in ["55P03", "57014"] {
            let (line, _, heard) = server(vec![("BEGIN", Said::Refused(code))]).await;
            let outcomes = together(&line, vec![(put(), later()); 3]).await;
            let is_refused =
                |of: &CommitOutcome| matches!(of, CommitOutcome::Unavailable(why) if why.contains(code));
            assert!(outcomes.iter().all(is_refused), "{outcomes:?}");
            assert_eq!(begun(&heard), 1, "{code}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn those_that_are_late_are_not_tried_again_with_the_others() {
        let (line, ..) = server(vec![("COMMIT", Said::Refused("40001"))]).await;
        let outcomes = together(&line, vec![(put(), later()), (put(), Instant::now())]).await;
        assert_eq!(outcomes[0], DONE);
        assert!(
            matches!(&outcomes[1], CommitOutcome::Unavailable(why) if why.contains("40001")),
            "{outcomes:?}"
        );
    }

    #[tokio::test(start_paused = true)]
    async fn all_of_a_transaction_is_on_its_way_before_anything_is_answered() {
        let (line, session, heard) = server(vec![("BEGIN", Said::Nothing)]).await;
        let log = Listening::to("callsign_store");
        let outcome = commit_alone(&line, &put(), later(), &mut Failures::default()).await;
        assert_eq!(outcome, CommitOutcome::Unknown);
        assert_eq!(*heard.lock().unwrap(), ["BEGIN", BUMP, PUT, NOTIFY, "COMMIT"]);
        assert!(session.was_given_up());
        let said = log.all();
        assert!(said.iter().any(|line| line["error"] == SILENT), "{said:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn what_lost_against_another_is_tried_again_after_a_pause_until_the_deadline() {
        let lost = || ("COMMIT", Said::Refused("40001"));
        let (line, session, _) = server(vec![lost(), lost()]).await;
        let begun = tokio::time::Instant::now();
        let outcome = commit_alone(&line, &put(), Instant::now(), &mut Failures::default()).await;
        assert!(matches!(&outcome, CommitOutcome::Unavailable(why) if why.contains("40001")), "{outcome:?}");
        assert_eq!(begun.elapsed(), Duration::ZERO);
        assert_eq!(commit_alone(&line, &put(), later(), &mut Failures::default()).await, DONE);
        assert!(begun.elapsed() > Duration::ZERO, "others do their work meanwhile");
        assert!(!session.was_given_up());
    }

    #[tokio::test(start_paused = true)]
    async fn what_could_not_be_sent_was_not_done() {
        let (line, session, heard) = server(vec![("BEGIN", Said::Gone)]).await;
        let mut failures = Failures::default();
        let outcome = commit_alone(&line, &put(), Instant::now(), &mut failures).await;
        assert_eq!(outcome, CommitOutcome::Unknown, "it was sent");
        assert!(session.client.is_closed());
        let outcome = commit_alone(&line, &put(), Instant::now(), &mut failures).await;
        assert!(matches!(outcome, CommitOutcome::Unavailable(_)), "{outcome:?}");
        assert_eq!(*heard.lock().unwrap(), ["BEGIN"]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_check_has_nothing_to_lose_and_is_asked_again() {
        let again = || (CHECK, Said::Refused("57P01"));
        let (line, session, _) = server(vec![again(), again()]).await;
        let begun = tokio::time::Instant::now();
        assert_eq!(only_check(&line, &only_check_of_k(), later()).await, DONE);
        assert!(begun.elapsed() > Duration::ZERO, "a server in trouble is left alone for a moment");
        assert!(session.was_given_up(), "it goes");
    }

    #[tokio::test(start_paused = true)]
    async fn a_check_is_asked_once_where_its_deadline_has_come_or_asking_is_in_vain() {
        let (unanswered, later_refused, now) = (Said::Nothing, Said::Refused("42501"), Instant::now());
        for (said, until, expected, is_given_up) in [
            (Said::Refused("40001"), now, "40001", false),
            (later_refused, later(), "42501", false),
            (unanswered, now, SILENT, true),
        ] {
            let (line, session, heard) = server(vec![(CHECK, said)]).await;
            let outcome = only_check(&line, &only_check_of_k(), until).await;
            assert!(
                matches!(&outcome, CommitOutcome::Unavailable(why) if why.contains(expected)),
                "{outcome:?}"
            );
            assert_eq!(*heard.lock().unwrap(), [CHECK], "{expected}");
            assert_eq!(session.was_given_up(), is_given_up, "{expected}");
        }
        let (line, ..) = server(vec![(CHECK, Said::Row(vec![None]))]).await;
        assert_eq!(only_check(&line, &only_check_of_k(), later()).await, CommitOutcome::Conflict);
    }

    #[test]
    fn neighbouring_puts_go_together_and_nothing_changes_its_order() {
        let (k, l, v, w) = (b"k".as_slice(), b"l".as_slice(), b"v".as_slice(), b"w".as_slice());
        let put =
            |transaction: Transaction, key: &[u8], value: &[u8]| transaction.put(key.into(), value.into());
        let writes = put(put(put(Transaction::new(), k, v), l, v), k, w).clear(k.into());
        let writes = put(writes.append(l.into(), v.into()), k, v).clear_range(k.into()..l.into());
        let expected = [
            WriteStage::Put(vec![k, l], vec![v, v]),
            WriteStage::Put(vec![k], vec![w]),
            WriteStage::Clear(k, b"k\0".to_vec(), 1),
            WriteStage::Append(l, v, 0),
            WriteStage::Put(vec![k], vec![v]),
            WriteStage::Clear(k, l.to_vec(), 2),
        ];
        assert_eq!(stages(&writes.writes), expected);
    }

    /// What an attempt comes to whose version is 7, with an error as the answer to one of its statements.
    async fn failed(code: Option<&str>, at: usize, version: Option<i64>) -> Attempt {
        let mut answers = vec![Ok(None), Ok(version), Ok(None), Ok(None)];
        answers[at] = Err(match code {
            Some(code) => said(code).await,
            None => unsaid().await,
        });
        judge(&answers, &[1], true)
    }

    #[tokio::test]
    async fn only_what_certainly_was_not_done_is_said_to_be_so() {
        let last = 3;
        // A server that goes, a full disk, a standby, a proxy, a cancellation: at the COMMIT it may have happened.
        for code in ["57P01", "53100", "25006", "08006", "57014", "XX000"] {
            let outcome = failed(Some(code), last, Some(7)).await;
            assert!(matches!(outcome, Attempt::Unknown(_)), "{code} at the COMMIT");
        }
        for at in 0..=last {
            assert!(matches!(failed(None, at, Some(7)).await, Attempt::Unknown(_)));
            assert!(matches!(failed(Some("08006"), at, Some(7)).await, Attempt::Unknown(_)));
            assert!(matches!(failed(Some("40001"), at, Some(7)).await, Attempt::Again(_)));
        }
        // Before it, what the server says is so.
        for at in 0..last {
            assert!(matches!(failed(Some("57P01"), at, Some(7)).await, Attempt::Again(_)));
            let outcome = failed(Some("53100"), at, Some(7)).await;
            assert_eq!(matches!(outcome, Attempt::NotBegun(_)), at == 0, "it is none of theirs");
            assert_eq!(matches!(outcome, Attempt::Refused(_)), at > 0);
        }
        // The checks did not hold: there is nothing that anybody could have done.
        let outcome = failed(Some("57P01"), 0, None).await;
        assert!(matches!(outcome, Attempt::Again(_)), "what was not begun had no checks");
        for at in 2..=last {
            let outcome = failed(Some("57P01"), at, None).await;
            assert!(matches!(outcome, Attempt::Done(of) if of == [CommitOutcome::Conflict]));
        }
    }
}
