//! What programs that must not run twice have written about themselves (`callsign witness`).

use std::{fs, path::Path};

use serde::Deserialize;

/// What a witness did.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Did {
    /// It began, alone.
    Start,
    /// It began, and another one was there.
    Overlap,
    /// It did its work.
    Act,
    /// It was asked to end.
    Asked,
    /// It ended by itself.
    End,
}

/// A line of a witness.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Line {
    /// When, in nanoseconds of the machine's boot-time clock.
    pub at: u64,
    /// Which process.
    pub pid: u32,
    /// For which node.
    pub member: String,
    /// In which epoch.
    pub epoch: u64,
    /// What it did.
    pub did: Did,
}

/// All of them, in the order in which they were written.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Lines(pub Vec<Line>);

impl Lines {
    /// What is in a file; nothing, if there is none.
    pub fn read(file: &Path) -> Self {
        let text = fs::read_to_string(file).unwrap_or_default();
        // A last line that is being written is not there yet.
        let whole = text.split_inclusive('\n').filter(|line| line.ends_with('\n'));
        Self(whole.map(|line| serde_json::from_str(line).expect("witnesses write JSON")).collect())
    }

    /// The starts, in order.
    pub fn starts(&self) -> impl Iterator<Item = &Line> {
        self.0.iter().filter(|line| matches!(line.did, Did::Start | Did::Overlap))
    }

    /// The last line of a process.
    pub fn last_of(&self, pid: u32) -> Option<&Line> {
        self.0.iter().rev().find(|line| line.pid == pid)
    }

    /// What is wrong with them, if two ever ran at once, or a token went back.
    pub fn overlap(&self) -> Result<(), String> {
        let mut holder: Option<&Line> = None;
        for line in &self.0 {
            match line.did {
                Did::Overlap => return Err(format!("another one was there: {line:?}")),
                Did::Start => {
                    if let Some(before) = holder {
                        let grows = line.epoch > before.epoch
                            || (line.epoch == before.epoch && line.member == before.member);
                        if !grows {
                            return Err(format!("the token does not grow: {before:?}, {line:?}"));
                        }
                    }
                    holder = Some(line);
                }
                Did::Act | Did::Asked | Did::End => {
                    if holder.is_none_or(|holder| holder.pid != line.pid) {
                        return Err(format!("it acts after another one has started: {line:?}, {holder:?}"));
                    }
                }
            }
            if let Some(holder) = holder
                && line.at < holder.at
            {
                return Err(format!("time went back: {holder:?}, {line:?}"));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(at: u64, pid: u32, epoch: u64, did: Did) -> Line {
        Line { at, pid, member: format!("node-{}", pid / 10), epoch, did }
    }

    fn lines(lines: &[(u64, u32, u64, Did)]) -> Lines {
        Lines(lines.iter().map(|(at, pid, epoch, did)| line(*at, *pid, *epoch, *did)).collect())
    }

    #[test]
    fn one_after_the_other_is_no_overlap() {
        let well =
            [(1, 10, 1, Did::Start), (2, 10, 1, Did::Act), (3, 11, 1, Did::Start), (4, 20, 5, Did::Start)];
        assert_eq!(lines(&well).overlap(), Ok(()), "a restart in place keeps its epoch");
    }

    #[test]
    fn overlaps_are_found() {
        for (at, wrong) in [
            vec![(1, 10, 1, Did::Overlap)],
            vec![(1, 10, 1, Did::Start), (2, 20, 2, Did::Start), (3, 10, 1, Did::Act)],
            vec![(1, 10, 1, Did::Start), (2, 20, 1, Did::Start)],
            vec![(1, 10, 2, Did::Start), (2, 20, 1, Did::Start)],
            vec![(1, 10, 1, Did::Act)],
            vec![(2, 10, 1, Did::Start), (1, 10, 1, Did::Act)],
        ]
        .iter()
        .enumerate()
        {
            assert!(lines(wrong).overlap().is_err(), "{at}");
        }
    }
}
