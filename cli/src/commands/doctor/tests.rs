use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering::Relaxed},
};

use callsign_store::{
    Store, Transaction,
    memory::{Fault, MemoryStore},
};
use futures::future::BoxFuture;

use super::*;

fn of(findings: &[(&'static str, Verdict)]) -> DoctorReport {
    let findings = findings.iter().map(|(check, verdict)| Finding::new(check, *verdict, "said"));
    DoctorReport { findings: findings.collect(), ..DoctorReport::default() }
}

#[test]
fn the_worst_finding_is_the_verdict_and_a_warning_is_no_failure() {
    use Verdict::{No, Ok, Unknown, Warning};
    assert!(!of(&[("a", Ok), ("b", Warning)]).verdict().is_final());
    assert_eq!(of(&[("a", Ok), ("b", No), ("c", Warning)]).verdict(), No);
    assert_eq!(of(&[("a", No), ("b", Unknown)]).verdict(), Unknown);
    assert_eq!(as_json(&of(&[("a", Warning)]))["ok"], true);
    assert!(in_words(&of(&[("a", No)])).contains("FAILED   a"));
}

#[tokio::test(start_paused = true)]
async fn a_store_whose_connections_come_up_late_is_waited_for() {
    let memory = MemoryStore::new();
    let store: SharedStore = std::sync::Arc::new(memory.connect("doctor"));
    memory.outage_for_all();
    let mut report = DoctorReport::default();
    let look = attempt(&store, &mut report);
    let comes_up = async {
        tokio::time::sleep(Duration::from_secs(3)).await;
        memory.heal_all();
    };
    tokio::join!(look, comes_up);
    assert_eq!(report.verdict(), Verdict::Ok, "{:?}", report.findings);
}

#[tokio::test(start_paused = true)]
async fn a_store_that_goes_away_in_the_middle_is_unknown_and_not_well() {
    let memory = MemoryStore::new();
    let store: SharedStore = std::sync::Arc::new(memory.connect("doctor"));
    memory.outage_for_all();
    let mut report = DoctorReport::default();
    attempt(&store, &mut report).await;
    assert_eq!(report.verdict(), Verdict::Unknown, "{:?}", report.findings);
    memory.heal_all();
    let mut report = DoctorReport::default();
    attempt(&store, &mut report).await;
    assert_eq!(report.verdict(), Verdict::Ok, "{:?}", report.findings);
    assert!(report.commit.is_some());
}

fn verdicts(report: &DoctorReport) -> Vec<(&'static str, Verdict)> {
    report.findings.iter().map(|finding| (finding.check, finding.verdict)).collect()
}

#[test]
fn a_file_that_was_taken_away_from_its_nodes_is_a_failure_and_nothing_is_made_in_its_place() {
    let files = tempfile::tempdir().unwrap();
    let at = |name: &str| files.path().join(name);
    let look = |name: &str| {
        let mut report = DoctorReport::default();
        diagnose(&format!("sqlite:{}?synchronous=normal", at(name).display()), &mut report).unwrap();
        report
    };
    std::fs::write(at("a.db-wal"), "").unwrap();
    for directory in ["b.db-lives", "c.db-lives", "d.db-lives"] {
        std::fs::create_dir(at(directory)).unwrap();
    }
    std::fs::write(at("b.db-lives").join("a.1.1"), "").unwrap();
    for (name, found) in [("a.db", "a.db-wal; "), ("b.db", "b.db-lives (entries: 1); ")] {
        let report = look(name);
        assert_eq!(verdicts(&report), [("reach", Verdict::No)]);
        let said = in_words(&report);
        assert!(said.starts_with("FAILED ") && said.contains(found), "{said}");
        assert!(!at(name).exists(), "{name}");
    }
    // Of a directory alone nobody has anything open.
    assert!(!look("c.db").verdict().is_final());
    assert!(at("c.db").exists());
    // One that is there is looked at as it is, whatever lies beside it.
    drop(open_store(&format!("sqlite:{}", at("d.db").display())).unwrap());
    std::fs::write(at("d.db-lives").join("a.1.1"), "").unwrap();
    assert!(!look("d.db").verdict().is_final());
}

/// A store that takes so many commits, and no more.
#[derive(Debug)]
struct Filling {
    memory: MemoryStore,
    room: usize,
    asked: AtomicUsize,
}

impl Store for Filling {
    callsign_store::forward_to_store!(memory: read watch nature);

    fn commit(&self, transaction: Transaction) -> BoxFuture<'static, CommitOutcome> {
        if self.asked.fetch_add(1, Relaxed) >= self.room {
            self.memory.inject(Fault::Unavailable);
        }
        self.memory.commit(transaction)
    }
}

#[tokio::test]
async fn commits_that_fail_in_the_middle_are_said_and_so_is_what_may_be_left() {
    let (memory, asked) = (MemoryStore::new(), AtomicUsize::new(0));
    let store: SharedStore = Arc::new(Filling { memory, room: 5, asked });
    let mut report = DoctorReport::default();
    attempt(&store, &mut report).await;
    let expected = [
        ("reads", Verdict::Ok),
        ("commits", Verdict::Unknown),
        ("cleaned", Verdict::Warning),
        ("deaths", Verdict::Ok),
    ];
    assert_eq!(verdicts(&report), expected, "{:?}", report.findings);
    assert!(report.commit.is_none(), "they were not measured");
}

#[tokio::test(start_paused = true)]
async fn nothing_more_is_tried_with_a_store_that_cannot_be_read() {
    let memory = MemoryStore::new();
    memory.outage_for_all();
    let store: SharedStore = Arc::new(memory);
    let mut report = DoctorReport::default();
    attempt(&store, &mut report).await;
    assert_eq!(verdicts(&report), [("reads", Verdict::Unknown)]);
}

#[test]
fn a_report_names_the_store_and_has_the_figures_and_each_thing_once() {
    let mut report = DoctorReport::default();
    diagnose("memory:", &mut report).unwrap();
    assert_eq!(report.verdict(), Verdict::Warning, "it is of one process: {:?}", report.findings);
    let reached = report.findings.iter().filter(|finding| finding.check == "reach");
    assert_eq!(reached.count(), 1, "{:?}", report.findings);
    let (median, slowest) = report.commit.unwrap();
    assert!(median > 0.0 && slowest >= median, "{median} {slowest}");
    let body = as_json(&report);
    assert_eq!(body["store"], "memory:");
    assert!(body["commit_p50_us"].is_f64() && body["commit_max_us"].is_f64(), "{body}");
    let mut report = DoctorReport::default();
    diagnose("mysql:there", &mut report).unwrap();
    assert_eq!(verdicts(&report), [("url", Verdict::Usage)]);
    assert!(as_json(&report)["store"].is_null());
}

#[test]
fn people_read_what_to_do_where_something_is_wrong_and_what_it_comes_to() {
    let words = |verdict| {
        let finding = Finding::new("fence", verdict, "was\ttried").advise("do it\nnow");
        in_words(&DoctorReport { findings: vec![finding], ..DoctorReport::default() })
    };
    let advice = " ".repeat(21) + " -> do it\\nnow\n";
    assert_eq!(words(Verdict::Ok), "ok       fence        was\\ttried\nAll is well.\n");
    for (verdict, word, comes_to) in [
        (Verdict::Warning, "WARNING ", "It works. Mind the warnings."),
        (Verdict::No, "FAILED  ", "It cannot be used so."),
        (Verdict::Usage, "FAILED  ", "It cannot be used so."),
        (Verdict::Unknown, "UNKNOWN ", "Nobody knows: "),
    ] {
        let said = words(verdict);
        let expected = format!("{word} fence        was\\ttried\n{advice}{comes_to}");
        assert!(said.starts_with(&expected), "{said}");
    }
}
