//! What a run came to, in figures.

use std::{
    collections::BTreeMap,
    fmt, fs,
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::{Context, Result};
use callsign_sim::colour::Colours;

use super::{
    ChaosOptions, Fault,
    event::At,
    failovers, journal,
    judge::{ProcessHistory, Verdict, judge},
    nemesis::Kind,
    sink, timeline,
    world::{LIVES, ProcessLife, RECORDINGS, World},
};
use crate::links::Carried;

/// What a run came to.
#[derive(Debug)]
pub struct ChaosReport {
    /// What must not be, and was. Empty: all is well.
    pub breaches: Vec<String>,
    /// Where everything is.
    pub directory: PathBuf,
    heading: String,
    faults: BTreeMap<Kind, usize>,
    not_done: Vec<String>,
    planned: usize,
    time: Duration,
    verdict: Verdict,
    recordings: String,
    sink: sink::Counts,
    links: Carried,
    longest_gap: Option<(Duration, Duration)>,
    failovers: (Vec<Duration>, usize),
}

/// What the processes of a run wrote.
pub(crate) fn histories(directory: &Path, lives: &[ProcessLife]) -> Result<Vec<ProcessHistory>> {
    let read = |life: &ProcessLife| {
        let path = directory.join(&life.history);
        // One that was killed before it could join left nothing.
        let events = if path.exists() { journal::read(&path) } else { Ok(Vec::new()) };
        let events = events.with_context(|| format!("{} cannot be read", path.display()))?;
        Ok(ProcessHistory::new(&life.node, life.killed, events))
    };
    lives.iter().map(read).collect()
}

/// Judges the histories and the recordings of a run again whose directory was kept.
pub fn again(directory: &Path) -> Result<Verdict> {
    let lives = fs::read(directory.join(LIVES)).context("there is no run in that directory")?;
    let mut verdict = judge(&histories(directory, &serde_json::from_slice::<Vec<ProcessLife>>(&lives)?)?);
    if let Err(error) = callsign_sim::recording::check(&directory.join(RECORDINGS)) {
        verdict.breaches.push(format!("recordings: {error}"));
    }
    Ok(verdict)
}

/// Judges a run that has ended.
pub(super) fn make(
    options: &ChaosOptions,
    world: &World,
    (kinds, done): (&[Kind], &[Fault]),
    planned: usize,
    mut not_done: Vec<String>,
    (from, to): (At, At),
) -> Result<ChaosReport> {
    let processes = histories(&options.directory, &world.lives)?;
    let mut verdict = judge(&processes);
    let mut breaches = world.breaches.clone();
    let held = world.held();
    if let Some(ran) = &held {
        breaches.extend(ran.breach.clone());
        let acts = [("acts of the program of `callsign hold`, alone", ran.acts), (FOLLOWED, ran.moves)];
        verdict.checked.extend(acts.into_iter().filter(|(_, count)| *count > 0));
    }
    breaches.extend(verdict.breaches.iter().cloned());
    let recordings = match callsign_sim::recording::check(&world.recordings()) {
        Ok(report) => report.to_string(),
        Err(error) => {
            breaches.push(format!("recordings: {error}"));
            String::new()
        }
    };
    let mut changed = verdict.changed.clone();
    changed.sort_unstable();
    let failovers = failovers::judge(&world.promotions, &changed, done, from);
    breaches.extend(failovers.breaches);
    if !failovers.took.is_empty() {
        verdict.checked.insert(failovers::JUDGED, failovers.took.len() as u64);
    }
    let sink = world.sink();
    if sink.late_taken > 0 {
        breaches.push(format!("fence: the sink that checks tokens took {} late writes", sink.late_taken));
    }
    if sink.wrongly_refused > 0 {
        breaches.push(format!("fence: {} writes were refused without a reason", sink.wrongly_refused));
    }
    if sink.writes == 0 {
        breaches.push("never exercised: nobody wrote to the sinks".to_owned());
    }
    let moves = held.is_some() && options.kinds.iter().any(|kind| kind.ends_the_process());
    let told = if shows_all(options.time) { &mut breaches } else { &mut not_done };
    told.extend(never_exercised(&verdict.checked, moves));
    not_done.extend(lacking(done));
    if has_room_for_all(options.time) {
        breaches.extend(never_done(kinds, done));
        if failovers.took.is_empty() && kinds.iter().any(|kind| kind.fails_over()) {
            breaches.push(format!("never exercised: {}", failovers::JUDGED));
        }
    }
    let drawn = timeline::draw(&timeline::Run {
        title: &options.heading(),
        nodes: &world.names(),
        lives: &world.lives,
        faults: done,
        processes: &processes,
        acknowledged: &verdict.acknowledged,
        breaches: &breaches,
        from,
        to,
    });
    fs::write(options.directory.join("timeline.svg"), drawn).context("the timeline cannot be written")?;
    let gaps =
        changed.iter().zip(changed.iter().skip(1)).map(|(one, next)| (next - one, one.saturating_sub(from)));
    let longest_gap = gaps.max().map(|(gap, at)| (Duration::from_nanos(at), Duration::from_nanos(gap)));
    let mut faults = BTreeMap::new();
    for fault in done {
        *faults.entry(fault.kind).or_default() += 1;
    }
    Ok(ChaosReport {
        breaches,
        directory: options.directory.clone(),
        heading: options.heading(),
        faults,
        not_done,
        planned,
        time: Duration::from_nanos(to - from),
        verdict,
        recordings,
        sink,
        links: world.links.carried(),
        longest_gap,
        failovers: (failovers.took, failovers.not_judged),
    })
}

impl ChaosOptions {
    fn heading(&self) -> String {
        format!(
            "{} nodes{}, lease {:?}, {:?} of faults, seed {}, store {}",
            self.nodes,
            if self.netns { " in network namespaces" } else { "" },
            self.lease,
            self.time,
            self.seed,
            self.store.split(':').next().unwrap_or_default()
        )
    }
}

/// Without which a run has shown nothing.
const NEEDED: [&str; 17] = [
    "acts after a check that passed",
    "names kept to the end",
    "names kept to the end, and found on a page",
    "own registrations seen by a local read",
    "own registrations found on a page",
    "calls and acts put in order",
    "checks of the singleton that passed",
    "tokens of one actor",
    "moves with the last word of the former holder",
    "what is said at a revision, alike for all",
    "changes that a watch could not miss",
    "changes seen alike by all watches",
    "memberships kept to the end",
    "groups that are alike in the end",
    "holders of a lock behind others",
    "holders of a semaphore beside others",
    "names that went to the node that they were offered to",
];

/// What a run has to come to besides in which nodes hold the name of a program, and end.
const FOLLOWED: &str = "starts of the program of `callsign hold` on another node than before";

/// Whether a run of this length fails if it has not come to something. A shorter one may not, on a machine that does other things as well:
/// it says so.
fn shows_all(time: Duration) -> bool {
    time >= Duration::from_secs(60)
}

/// Whether a run is so long that every kind of fault has to come.
fn has_room_for_all(time: Duration) -> bool {
    time >= Duration::from_secs(600)
}

/// The kinds of which no fault came to what it is there for.
fn never_done(kinds: &[Kind], done: &[Fault]) -> impl Iterator<Item = String> {
    kinds.iter().filter_map(|kind| {
        let mut came = done.iter().filter(|fault| fault.kind == *kind).peekable();
        let why = match came.peek() {
            None => String::new(),
            Some(first) => format!(": {}", first.lacks.as_ref()?),
        };
        let is_missing = came.all(|fault| fault.lacks.is_some());
        is_missing.then(|| format!("never exercised: the fault {}{why}", kind.name()))
    })
}

/// What faults lacked, each in a line.
fn lacking(done: &[Fault]) -> impl Iterator<Item = String> {
    done.iter()
        .filter_map(|fault| Some(format!("{} came to nothing: {}", fault.kind.name(), fault.lacks.as_ref()?)))
}

fn never_exercised(checked: &BTreeMap<&'static str, u64>, moves: bool) -> impl Iterator<Item = String> {
    let needed = NEEDED.into_iter().chain(moves.then_some(FOLLOWED));
    needed.filter(|what| !checked.contains_key(what)).map(|what| format!("never exercised: {what}"))
}

impl fmt::Display for ChaosReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.write(f, Colours::off())
    }
}

impl ChaosReport {
    /// With these colours.
    pub fn painted(&self, colours: Colours) -> impl fmt::Display {
        fmt::from_fn(move |f| self.write(f, colours))
    }

    fn write(&self, f: &mut fmt::Formatter<'_>, colours: Colours) -> fmt::Result {
        let heading = format_args!("{}; {:.0} s in all", self.heading, self.time.as_secs_f64());
        writeln!(f, "{}", colours.heading(heading))?;
        let came: usize = self.faults.values().sum();
        writeln!(f, "\n{} {came}, of {} planned", colours.heading("faults:"), self.planned)?;
        for (kind, count) in &self.faults {
            writeln!(f, "{count:>10}  {}: {}", kind.name(), kind.text())?;
        }
        for why in &self.not_done {
            writeln!(f, "            {}", colours.warning(why))?;
        }
        writeln!(f, "            {}", self.links)?;
        if self.faults.contains_key(&Kind::Clock) {
            writeln!(f, "            {} times a process found its wall clock set", self.verdict.clocks_set)?;
        }
        let calls = colours.heading("calls:");
        writeln!(f, "\n{calls} {}", self.verdict.answers.values().sum::<u64>())?;
        for ((ask, answer), count) in &self.verdict.answers {
            writeln!(f, "{count:>10}  {}: {answer}", ask.to_lowercase())?;
        }
        let verdict = &self.verdict;
        writeln!(
            f,
            "\n{} {} of the registry, {} of the singleton",
            colours.heading("elections:"),
            verdict.elections.len(),
            verdict.terms.len()
        )?;
        if let Some((at, gap)) = self.longest_gap {
            let (at, gap) = (at.as_secs_f64(), gap.as_secs_f64());
            writeln!(
                f,
                "longest time without a name granted or freed anywhere: {gap:.1} s, from {at:.1} s on"
            )?;
        }
        let (took, not_judged) = &self.failovers;
        if let Some((least, most)) = took.iter().min().zip(took.iter().max()) {
            let (least, most) = (least.as_secs_f64(), most.as_secs_f64());
            writeln!(
                f,
                "from a promotion to the next name granted: {least:.1} to {most:.1} s, {} times",
                took.len()
            )?;
        }
        if *not_judged > 0 {
            writeln!(f, "promotions beside which something else was, and it took longer: {not_judged}")?;
        }
        writeln!(f, "sessions lost by processes that lived: {}", verdict.sessions_lost)?;
        let sink = &self.sink;
        writeln!(f, "\nthe singleton's sinks: {} writes in {} beginnings of terms", sink.writes, sink.seals)?;
        writeln!(f, "{:>10}  late ones taken without a check of the token", sink.late)?;
        writeln!(f, "{:>10}  late ones taken with it; it refused {}", sink.late_taken, sink.refused)?;
        writeln!(f, "\n{}", colours.heading("checked:"))?;
        for (what, count) in &verdict.checked {
            writeln!(f, "{count:>10}  {what}")?;
        }
        if !verdict.not_ordered.is_empty() {
            writeln!(
                f,
                "{:>10}  names with too many calls at a time to be put in order",
                verdict.not_ordered.len()
            )?;
        }
        writeln!(f, "\n{}", self.recordings)?;
        write_breaches(f, &self.breaches, colours)
    }
}

/// Says how many promises were broken, and which.
///
/// # Errors
/// Those of what it is written to.
pub fn write_breaches(f: &mut impl fmt::Write, breaches: &[String], colours: Colours) -> fmt::Result {
    let count = format_args!("violations: {}", breaches.len());
    writeln!(f, "{}", colours.verdict(breaches.is_empty(), count))?;
    breaches.iter().try_for_each(|breach| writeln!(f, "  {}", colours.bad(breach)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn violations_have_colour_where_it_is_asked_for_and_no_escape_elsewhere() {
        let told = |breaches: &[String], colours| {
            let mut text = String::new();
            write_breaches(&mut text, breaches, colours).unwrap();
            text
        };
        let breach = ["two held desk".to_owned()];
        assert_eq!(told(&breach, Colours::off()), "violations: 1\n  two held desk\n");
        assert_eq!(told(&[], Colours::off()), "violations: 0\n");
        let red = told(&breach, Colours::on());
        assert!(
            red.contains("\u{1b}[31mviolations: 1\u{1b}[0m\n")
                && red.ends_with("[31mtwo held desk\u{1b}[0m\n")
        );
        assert_eq!(told(&[], Colours::on()), "\u{1b}[32mviolations: 0\u{1b}[0m\n");
    }

    #[test]
    fn a_run_of_ten_minutes_fails_for_a_kind_of_fault_that_never_came() {
        assert!(has_room_for_all(Duration::from_secs(600)) && !has_room_for_all(Duration::from_secs(599)));
        let missing: Vec<_> =
            never_done(&[Kind::Kill, Kind::EtcdFull], &[fault(Kind::EtcdFull, None)]).collect();
        assert_eq!(missing, ["never exercised: the fault kill"]);
    }

    fn fault(kind: Kind, lacks: Option<&str>) -> Fault {
        let (node, how, lacks) = ("a".to_owned(), String::new(), lacks.map(str::to_owned));
        Fault { kind, node, how, from: 0, to: 0, lacks }
    }

    #[test]
    fn a_fault_that_came_to_nothing_exercised_nothing_and_the_report_says_so() {
        let kinds = [Kind::EtcdCompact, Kind::EtcdFull];
        let compacted = fault(Kind::EtcdCompact, None);
        let not_all = fault(Kind::EtcdCompact, Some("not all"));
        let not_raised = fault(Kind::EtcdFull, Some("no alarm"));
        let done = [not_all.clone(), compacted, not_raised.clone()];
        let missing = |done: &[Fault]| never_done(&kinds, done).collect::<Vec<_>>();
        let full = "never exercised: the fault etcd-full: no alarm";
        assert_eq!(missing(&done), [full]);
        assert_eq!(
            missing(&[not_all, not_raised]),
            ["never exercised: the fault etcd-compact: not all", full]
        );
        let lines: Vec<_> = lacking(&done).collect();
        assert_eq!(lines, ["etcd-compact came to nothing: not all", "etcd-full came to nothing: no alarm"]);
    }

    #[test]
    fn a_run_of_a_minute_fails_for_what_it_never_exercised_and_a_shorter_one_does_not() {
        assert!(shows_all(Duration::from_secs(60)) && !shows_all(Duration::from_secs(59)));
        let checked = NEEDED.iter().skip(1).map(|what| (*what, 1)).collect();
        let missing = |moves| never_exercised(&checked, moves).collect::<Vec<_>>();
        let first = format!("never exercised: {}", NEEDED[0]);
        assert_eq!(missing(false), std::slice::from_ref(&first));
        assert_eq!(missing(true), [first, format!("never exercised: {FOLLOWED}")]);
    }
}
