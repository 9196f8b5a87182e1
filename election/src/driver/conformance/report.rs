//! What was shown, and what was left out.

use std::{collections::BTreeSet, fmt};

use super::{Authority, Promise, Withheld};

/// A check that was not run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct LeftOut {
    /// The check.
    pub check: &'static str,
    /// The promise that it needs, and why it is not made.
    pub withheld: Withheld,
}

impl fmt::Display for LeftOut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Withheld { promise, because } = self.withheld;
        write!(f, "not run: {}: not promised: {promise:?}: {because}", self.check)
    }
}

/// What [`run`](super::run) came to. Prints as a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// The checks that passed.
    pub shown: Vec<&'static str>,
    /// The checks that were not run.
    pub left_out: Vec<LeftOut>,
    /// What is not promised.
    pub withheld: Vec<Withheld>,
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for check in &self.shown {
            writeln!(f, "shown: {check}")?;
        }
        for left_out in &self.left_out {
            writeln!(f, "{left_out}")?;
        }
        for Withheld { promise, because } in &self.withheld {
            writeln!(f, "not promised: {promise:?}: {because}")?;
        }
        Ok(())
    }
}

/// Whether a check is not to be run.
pub fn left_out<A: Authority>(authority: &A, check: &'static str, needs: &[Promise]) -> Option<LeftOut> {
    let withheld = authority.withholds().into_iter().find(|withheld| needs.contains(&withheld.promise))?;
    Some(LeftOut { check, withheld })
}

/// Panics if what is withheld makes no sense.
pub fn judge_withheld<A: Authority>(authority: &A) {
    let withheld = authority.withholds();
    let promises: BTreeSet<_> = withheld.iter().map(|withheld| withheld.promise).collect();
    assert_eq!(promises.len(), withheld.len(), "each is said once: {withheld:?}");
    for Withheld { promise, because } in withheld {
        assert!(!because.trim().is_empty(), "{promise:?} is withheld without a reason");
        println!("not promised: {promise:?}: {because}");
    }
}
