//! Nodes of `callsign hold` beside those of a run: one program that only the holder of a name may run.
//!
//! Each of the first nodes has one beside it, in a registry of its own. What is done to the node as a process, and to its way to the
//! store, is done to that one, too. The program writes down when it starts and acts, and the kernel tells it if another one is there.

use std::{collections::BTreeMap, path::Path, process::Command, time::Duration};

use anyhow::{Context, Result};

use super::{event::At, journal};
use crate::{
    singleton::{Runner, Singleton},
    store::TestStore,
    wait::wait_for,
    witness::{Did, Lines},
};

/// How many nodes have one beside them.
const HOLDERS: usize = 3;
/// How often the program acts.
const EVERY: &str = "20ms";

/// Starts one that is to be where a node is.
#[derive(Debug)]
pub struct HolderStart {
    /// Becomes the command.
    pub command: Command,
    /// How the node reaches the store.
    pub store: String,
    /// More options.
    pub options: Vec<String>,
}

/// See the [module](self).
#[derive(Debug)]
pub struct Holders {
    /// Of each node that has one, what the one beside it is called.
    of: BTreeMap<String, String>,
    singleton: Singleton,
}

/// What the programs did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ran {
    /// How often the program was started.
    pub starts: u64,
    /// Of these, how often by another node than before.
    pub moves: u64,
    /// How often it acted.
    pub acts: u64,
    /// Two ran at once, or a token did not grow.
    pub breach: Option<String>,
}

impl Holders {
    /// Nobody runs yet. All is written below this directory.
    pub fn new(
        directory: &Path,
        callsign: &Path,
        store: &TestStore,
        lease: Duration,
        nodes: &[String],
    ) -> Result<Self> {
        let files = directory.join("holders");
        std::fs::create_dir(&files).context("the directory cannot be written")?;
        let lease = format!("{}ms", lease.as_millis());
        // An outage is no reason to end.
        let options = ["--registry", "held", "--wait", "--lease", &lease, "--join-timeout", "10m"];
        let singleton = Singleton::beside(store.share(), files, callsign, &options, &["--every", EVERY]);
        let of = nodes.iter().take(HOLDERS).map(|node| (node.clone(), format!("{node}-holds"))).collect();
        Ok(Self { of, singleton })
    }

    /// Starts the one beside a node, if that has one.
    pub fn launch(&mut self, node: &str, way: HolderStart) {
        if let Some(name) = self.of.get(node) {
            self.singleton.launch_by(name, way.command, &way.store, &way.options);
        }
    }

    fn runner(&mut self, node: &str) -> Option<&mut Runner> {
        let name = self.of.get(node)?;
        let runner = self.singleton.runners.iter_mut().find(|runner| runner.name == *name)?;
        // A process that has ended takes no signal. `look` reports it.
        runner.has_ended().is_none().then_some(runner)
    }

    /// Kills the one beside a node (SIGKILL), and waits until it is dead.
    pub fn kill(&mut self, node: &str) {
        if let Some(runner) = self.runner(node) {
            runner.kill();
        }
        self.forget(node);
    }

    /// Asks it to end (SIGTERM).
    pub fn ask_to_end(&mut self, node: &str) {
        if let Some(runner) = self.runner(node) {
            runner.ask_to_end();
        }
    }

    /// Waits until it has ended; kills it if that takes longer, which is an error.
    pub fn await_end(&mut self, node: &str, patience: Duration) -> Result<(), String> {
        let Some(runner) = self.runner(node) else {
            self.forget(node);
            return Ok(());
        };
        let has_ended = wait_for(patience, || runner.has_ended()).is_some();
        let why = (!has_ended).then(|| format!("P8: {} did not end within {patience:?}", runner.name));
        self.kill(node);
        why.map_or(Ok(()), Err)
    }

    /// Stops it (SIGSTOP), and waits until none of its threads runs.
    pub fn stop(&mut self, node: &str) {
        if let Some(runner) = self.runner(node) {
            runner.stop();
        }
    }

    /// Lets it go on (SIGCONT).
    pub fn go_on(&mut self, node: &str) {
        if let Some(runner) = self.runner(node) {
            runner.go_on();
        }
    }

    fn forget(&mut self, node: &str) {
        if let Some(name) = self.of.get(node) {
            self.singleton.runners.retain(|runner| runner.name != *name);
        }
    }

    /// The nodes beside which one has ended by itself, with what it has said last.
    pub fn ended(&mut self) -> Vec<(String, String)> {
        let of =
            |runner: &Runner| self.of.iter().find(|(_, name)| **name == runner.name).map(|(node, _)| node);
        let mut ended = Vec::new();
        for runner in &mut self.singleton.runners {
            if let (Some(status), Some(node)) = (runner.has_ended(), of(runner)) {
                ended.push((
                    node.clone(),
                    format!("{} has ended by itself: {status}\n{}", runner.name, runner.log()),
                ));
            }
        }
        ended
    }

    fn lines(&self) -> Lines {
        self.singleton.lines()
    }

    /// Waits until a program acts after now.
    pub fn await_act(&self, patience: Duration) -> Result<(), String> {
        let now = journal::now();
        let acts = || acts_after(&self.lines(), now).then_some(());
        let why = || {
            format!(
                "P8: nobody runs the program of `callsign hold` within {patience:?}\n{}",
                self.singleton.logs()
            )
        };
        wait_for(patience, acts).ok_or_else(why)
    }

    /// The node beside which the program was started last.
    pub fn holder(&self) -> Option<String> {
        holder(&self.lines(), &self.of)
    }

    /// What the programs did.
    pub fn ran(&self) -> Ran {
        ran(&self.lines())
    }
}

fn holder(lines: &Lines, of: &BTreeMap<String, String>) -> Option<String> {
    let member = &lines.starts().last()?.member;
    of.iter().find(|(_, name)| *name == member).map(|(node, _)| node.clone())
}

fn acts_after(lines: &Lines, at: At) -> bool {
    lines.0.iter().rev().any(|line| line.did == Did::Act && line.at > at)
}

fn ran(lines: &Lines) -> Ran {
    let count = |did| lines.0.iter().filter(|line| line.did == did).count() as u64;
    let starts: Vec<_> = lines.starts().collect();
    let moves = starts.windows(2).filter(|two| two[0].member != two[1].member).count() as u64;
    let breach = lines.overlap().err().map(|why| format!("P1: the program of `callsign hold`: {why}"));
    Ran { starts: starts.len() as u64, moves, acts: count(Did::Act), breach }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::witness::Line;

    fn lines(lines: &[(u64, &str, u64, Did)]) -> Lines {
        let line = |(at, member, epoch, did): &(u64, &str, u64, Did)| {
            let (member, pid) = ((*member).to_owned(), u32::from(member.as_bytes()[0]));
            Line { at: *at, pid, member, epoch: *epoch, did: *did }
        };
        Lines(lines.iter().map(line).collect())
    }

    #[test]
    fn starts_on_other_nodes_and_acts_are_counted() {
        let well = lines(&[
            (1, "a", 1, Did::Start),
            (2, "a", 1, Did::Act),
            (3, "a", 1, Did::Start),
            (4, "b", 5, Did::Start),
            (5, "b", 5, Did::Act),
            (6, "b", 5, Did::Asked),
        ]);
        assert_eq!(ran(&well), Ran { starts: 3, moves: 1, acts: 2, breach: None });
        assert!(acts_after(&well, 4) && !acts_after(&well, 5));
        let of =
            BTreeMap::from([("x", "a"), ("y", "b")].map(|(node, name)| (node.to_owned(), name.to_owned())));
        assert_eq!(holder(&well, &of).as_deref(), Some("y"), "beside it the program was started last");
        assert_eq!(holder(&Lines::default(), &of), None);
    }

    #[test]
    fn two_at_once_are_a_breach() {
        let wrong = lines(&[(1, "a", 1, Did::Start), (2, "b", 2, Did::Start), (3, "a", 1, Did::Act)]);
        assert!(ran(&wrong).breach.is_some_and(|why| why.contains("callsign hold")));
    }
}
