//! What was counted.

use metrics_exporter_prometheus::PrometheusHandle;

/// What was counted so far, as Prometheus is told it.
#[derive(Debug)]
pub struct Seen(Vec<(String, String, u64)>);

impl Seen {
    /// What a recorder has. Of distributions only how often something was measured, as `..._count`.
    pub fn by(prometheus: &PrometheusHandle) -> Self {
        let text = prometheus.render();
        let lines = text.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
        let counts = lines.filter(|line| !line.contains("_sum") && !line.contains("quantile="));
        let seen = counts.map(|line| {
            let (what, value) = line.rsplit_once(' ').unwrap();
            let (name, labels) = what.split_once('{').unwrap_or((what, ""));
            let labels = labels.trim_end_matches('}').replace('"', "");
            (name.to_owned(), labels, value.parse().unwrap())
        });
        Self(seen.collect())
    }

    /// The value of a metric with these labels, `a=1,b=2`; 0 if there is none.
    pub fn get(&self, name: &str, labels: &str) -> u64 {
        let found = self.0.iter().find(|(n, l, _)| n == name && l == labels);
        found.map_or(0, |(_, _, value)| *value)
    }

    /// The names of all metrics, once for each of their labels.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(|(name, ..)| name.as_str())
    }

    /// All labels, and what they say.
    pub fn labels(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().flat_map(|(_, labels, _)| split(labels))
    }

    /// Each metric is in the table, with just its labels. `table` is asked for those of a name.
    ///
    /// # Panics
    /// If not.
    pub fn assert_described(&self, table: impl Fn(&str) -> Option<&'static [&'static str]>) {
        for (name, labels, _) in &self.0 {
            let described = table(name.trim_end_matches("_count"));
            let described = described.unwrap_or_else(|| panic!("{name} is not in the table"));
            let has: Vec<_> = split(labels).map(|(label, _)| label).collect();
            assert_eq!(has, described, "{name}");
        }
    }
}

fn split(labels: &str) -> impl Iterator<Item = (&str, &str)> {
    labels.split(',').filter(|label| !label.is_empty()).map(|label| label.split_once('=').unwrap())
}
