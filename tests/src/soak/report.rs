//! What a soak came to: a table for people, JSON for programs.

use std::{collections::BTreeMap, fmt};

use serde::Serialize;

use super::{
    flat::Finding,
    measures::{Row, What},
};

/// How long registrations took in a window of time.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Window {
    /// When it ended, in seconds from the begin.
    pub at: f64,
    /// How many were granted.
    pub registrations: usize,
    /// In milliseconds.
    pub p50: f64,
    /// In milliseconds.
    pub p99: f64,
    /// In milliseconds.
    pub p999: f64,
}

/// What a run came to.
#[derive(Clone, Debug, Serialize)]
pub struct SoakReport {
    /// Decided what came when.
    pub seed: u64,
    /// The kind of the store.
    pub store: String,
    /// How many nodes there were at a time.
    pub nodes: usize,
    /// For how many seconds they were measured.
    pub seconds: f64,
    /// How often a node left in good order.
    pub left: usize,
    /// How often one was killed.
    pub killed: usize,
    /// How many node names there were.
    pub names: usize,
    /// How often each thing was done, or failed.
    pub counts: BTreeMap<String, u64>,
    /// How often each thing was looked at in what the nodes wrote down.
    pub checked: BTreeMap<&'static str, u64>,
    /// How long registrations took.
    pub windows: Vec<Window>,
    /// What was measured.
    pub rows: Vec<Row>,
    /// What must not be, and was. Empty: all is well.
    pub breaches: Vec<String>,
}

impl fmt::Display for SoakReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { nodes, store, seed, seconds, left, killed, names, .. } = self;
        writeln!(f, "{nodes} nodes over {store} for {seconds:.0} s, seed {seed}")?;
        writeln!(f, "{left} times a node left, {killed} times one was killed; {names} node names")?;
        writeln!(f, "\ndone in the registry of churn:")?;
        for (what, count) in &self.counts {
            writeln!(f, "{count:>10}  {what}")?;
        }
        writeln!(f, "\nchecked in what the other clients wrote down:")?;
        for (what, count) in &self.checked {
            writeln!(f, "{count:>10}  {what}")?;
        }
        let head = ["first third", "last third", "ratio", "at most"];
        writeln!(f, "\n{:<58} {:>12} {:>12} {:>6} {:>12}", "", head[0], head[1], head[2], head[3])?;
        for row in &self.rows {
            let shown = |value: Option<f64>| value.map_or_else(|| "-".to_owned(), |it| row.what.shown(it));
            let ratio = row.ratio().map_or_else(|| "-".to_owned(), |ratio| format!("{ratio:.2}"));
            let said = match row.judged.finding {
                Finding::Flat if row.counts => "flat",
                Finding::Grew if row.counts => "GREW",
                Finding::TooFew => "too few values",
                Finding::Flat | Finding::Grew => "not judged in a short run",
            };
            writeln!(
                f,
                "{:<58} {:>12} {:>12} {ratio:>6} {:>12}  {said}",
                format!("{}: {}", row.of, row.what),
                shown(row.judged.first),
                shown(row.judged.last),
                shown(row.judged.allowed),
            )?;
        }
        writeln!(f, "\nviolations: {}", self.breaches.len())?;
        for breach in &self.breaches {
            writeln!(f, "  {breach}")?;
        }
        Ok(())
    }
}

impl Window {
    /// What a window came to whose registrations took so many microseconds each, which this puts in order.
    pub fn of(at: f64, took: &mut [u32]) -> Self {
        took.sort_unstable();
        let ms =
            |of_million| super::flat::quantile(took, of_million).map_or(0.0, |us| f64::from(us) / 1000.0);
        Self { at, registrations: took.len(), p50: ms(500_000), p99: ms(990_000), p999: ms(999_000) }
    }

    /// The values of it that are judged: a quantile of which there are too few registrations is none.
    pub fn values(&self) -> Vec<(What, f64)> {
        let mut values = Vec::new();
        if self.registrations >= 20 {
            values.push((What::P50, self.p50));
        }
        if self.registrations >= 1000 {
            values.push((What::P999, self.p999));
        }
        values
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::soak::measures::{Measures, Of};

    #[test]
    fn a_window_has_its_quantiles_and_judges_only_what_it_can() {
        let mut took: Vec<u32> = (1..=2000).rev().map(|n| n * 1000).collect();
        let window = Window::of(3.0, &mut took);
        let expected = Window { at: 3.0, registrations: 2000, p50: 1000.0, p99: 1980.0, p999: 1998.0 };
        assert_eq!(window, expected);
        assert_eq!(window.values(), [(What::P50, 1000.0), (What::P999, 1998.0)]);
        for (count, judged) in [(0, 0), (19, 0), (20, 1), (999, 1), (1000, 2)] {
            assert_eq!(Window::of(0.0, &mut vec![5; count]).values().len(), judged, "{count}");
        }
    }

    #[test]
    fn people_see_what_grew_and_programs_get_all_of_it() {
        let mut measures = Measures::default();
        for second in 0..60_u32 {
            let at = std::time::Duration::from_secs(second.into());
            measures.add(Of::Node("a".into()), What::Anonymous, at, f64::from(second) * 2e6);
            measures.add(Of::Store, What::Rows, at, 30.0);
            measures.add(Of::Registrations, What::P50, at, f64::from(second * 100));
        }
        let rows = measures.judge(std::time::Duration::from_secs(60), false);
        let breaches = rows.iter().filter_map(Row::breach).collect();
        let report = SoakReport {
            seed: 7,
            store: "sqlite".into(),
            nodes: 4,
            seconds: 60.0,
            left: 3,
            killed: 1,
            names: 5,
            counts: BTreeMap::from([("registered".to_owned(), 12)]),
            checked: BTreeMap::from([("names kept to the end", 9)]),
            windows: vec![Window::of(1.0, &mut [1, 2, 3])],
            rows,
            breaches,
        };
        let text = report.to_string();
        for line in ["        12  registered", "         9  names kept to the end", "violations: 1"] {
            assert!(text.contains(line), "{line}: {text}");
        }
        let row = |begin: &str| text.lines().find(|line| line.starts_with(begin)).unwrap();
        assert!(row("node a: memory of its own").ends_with("GREW"), "{text}");
        assert!(row("the store: rows").ends_with("flat"), "{text}");
        assert!(row("registrations: p50").ends_with("not judged in a short run"), "{text}");
        let json = serde_json::to_value(&report).unwrap();
        assert_eq!(json["seed"], 7);
        assert_eq!(json["rows"][0]["what"], "anonymous");
        assert_eq!(json["rows"][0]["finding"], "grew");
        assert_eq!(json["breaches"].as_array().unwrap().len(), 1);
    }
}
