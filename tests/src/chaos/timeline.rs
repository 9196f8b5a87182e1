//! A run as a picture: a row for each node with its lives, its stops, who leads, and the faults; below, what was acknowledged
//! in each second.

use std::fmt::Display;

use callsign_sim::drawing::Drawing;

use super::{
    Fault,
    event::{At, Event},
    judge::ProcessHistory,
    world::{ProcessLife, Stretch},
};

/// What is drawn.
#[derive(Debug)]
pub struct Run<'a> {
    /// Above it all.
    pub title: &'a str,
    /// The nodes.
    pub nodes: &'a [String],
    /// Their processes.
    pub lives: &'a [ProcessLife],
    /// What was done to them.
    pub faults: &'a [Fault],
    /// What they wrote.
    pub processes: &'a [ProcessHistory],
    /// When calls were answered.
    pub acknowledged: &'a [At],
    /// What must not be.
    pub breaches: &'a [String],
    /// When it began.
    pub from: At,
    /// When it ended.
    pub to: At,
}

const LEFT: f64 = 84.0;
const ROW: f64 = 74.0;
const TOP: f64 = 70.0;
const BARS: f64 = 90.0;

/// Where things are.
struct Scale {
    from: At,
    second: f64,
}

impl Scale {
    #[allow(clippy::cast_precision_loss)] // a picture
    fn x(&self, at: At) -> f64 {
        LEFT + at.saturating_sub(self.from) as f64 / 1e9 * self.second
    }
}

/// The picture, as SVG.
pub fn draw(run: &Run<'_>) -> String {
    let seconds = (run.to - run.from) / 1_000_000_000 + 1;
    let scale = Scale { from: run.from, second: if seconds > 200 { 8.0 } else { 20.0 } };
    #[allow(clippy::cast_precision_loss)]
    let (width, rows) = ((scale.x(run.to) + 40.0).max(1060.0), run.nodes.len() as f64 * ROW);
    let height = TOP + rows + BARS + 60.0;
    let mut drawing = Drawing::new(&[
        ("width", &format_args!("{width:.0}")),
        ("height", &format_args!("{height:.0}")),
        ("font-family", &"sans-serif"),
        ("font-size", &10),
    ]);
    drawing.rect(&[("width", &"100%"), ("height", &"100%"), ("fill", &"white")], None);
    let title = format!("{}: {} violations", run.title, run.breaches.len());
    drawing.text(&[("x", &LEFT), ("y", &20), ("font-size", &15)], &title, None);
    legend(&mut drawing);
    let bottom = TOP + rows + BARS;
    for second in (0..seconds).step_by(if seconds > 200 { 10 } else { 5 }) {
        let x = scale.x(run.from + second * 1_000_000_000);
        let x = format_args!("{x:.1}");
        drawing.line(&[("x1", &x), ("x2", &x), ("y1", &TOP), ("y2", &bottom), ("stroke", &"#e8e8e8")]);
        let y = format_args!("{:.1}", bottom + 14.0);
        drawing.text(&[("x", &x), ("y", &y), ("fill", &"#666")], &format!("{second} s"), None);
    }
    let mut top = TOP;
    for node in run.nodes {
        row(&mut drawing, run, &scale, node, top);
        top += ROW;
    }
    bars(&mut drawing, run, &scale, top);
    drawing.svg()
}

fn legend(drawing: &mut Drawing) {
    let all = [
        ("#bfe3c6", "runs"),
        ("#9a9a9a", "stopped"),
        ("#e0a100", "leads and serves, as it knows"),
        ("#3b6fd4", "singleton works here"),
        ("#d2493a", "fault"),
    ];
    let mut x = LEFT;
    for (colour, text) in all {
        let box_of =
            [("x", &x as &dyn Display), ("y", &34), ("width", &12), ("height", &10), ("fill", &colour)];
        drawing.rect(&box_of, None);
        drawing.text(&[("x", &(x + 16.0)), ("y", &43)], text, None);
        x += 190.0;
    }
}

fn bar(
    drawing: &mut Drawing,
    scale: &Scale,
    (from, to): (At, At),
    (y, height): (f64, f64),
    (colour, title): (&str, &str),
) {
    let (x, width) = (scale.x(from), (scale.x(to) - scale.x(from)).max(0.8));
    drawing.rect(
        &[
            ("x", &format_args!("{x:.1}")),
            ("y", &format_args!("{y:.1}")),
            ("width", &format_args!("{width:.1}")),
            ("height", &format_args!("{height:.1}")),
            ("fill", &colour),
        ],
        Some(title),
    );
}

fn row(drawing: &mut Drawing, run: &Run<'_>, scale: &Scale, node: &str, top: f64) {
    let y = format_args!("{:.1}", top + 22.0);
    drawing.text(&[("x", &20), ("y", &y), ("font-size", &14)], node, None);
    let until = |stretch: &Stretch| stretch.to.unwrap_or(run.to);
    for life in run.lives.iter().filter(|life| life.node == node) {
        bar(drawing, scale, (life.lived.from, until(&life.lived)), (top + 10.0, 16.0), ("#bfe3c6", "runs"));
        for stop in &life.stopped {
            bar(drawing, scale, (stop.from, until(stop)), (top + 10.0, 16.0), ("#9a9a9a", "stopped"));
        }
    }
    for process in run.processes.iter().filter(|process| process.node == node) {
        let end = process.events.iter().rev().find_map(moment).unwrap_or(run.from);
        let (mut leads, mut works): (Option<At>, Option<(At, At, u64)>) = (None, None);
        for event in &process.events {
            match event {
                Event::Seen { at, leader, .. } => {
                    let is = leader.as_deref() == Some(node);
                    if let (Some(from), false) = (leads, is) {
                        bar(drawing, scale, (from, *at), (top + 5.0, 5.0), ("#e0a100", "leads"));
                        leads = None;
                    }
                    if is {
                        leads.get_or_insert(*at);
                    }
                }
                Event::Led { from, to, epoch } => {
                    // One bar for what has no gap of a second.
                    works = match works {
                        Some((first, last, of)) if of == *epoch && *from < last + 1_000_000_000 => {
                            Some((first, *to, of))
                        }
                        before => {
                            singleton(drawing, scale, before, top);
                            Some((*from, *to, *epoch))
                        }
                    };
                }
                _ => {}
            }
        }
        singleton(drawing, scale, works, top);
        if let Some(from) = leads {
            bar(drawing, scale, (from, end), (top + 5.0, 5.0), ("#e0a100", "leads"));
        }
    }
    let mine = run.faults.iter().filter(|fault| fault.node == node && !fault.kind.hits_all());
    for (index, fault) in mine.enumerate() {
        draw_fault(drawing, scale, fault, top + 42.0 + if index % 2 == 0 { 0.0 } else { 14.0 });
    }
}

fn singleton(drawing: &mut Drawing, scale: &Scale, works: Option<(At, At, u64)>, top: f64) {
    let Some((from, to, epoch)) = works else { return };
    bar(drawing, scale, (from, to), (top + 26.0, 4.0), ("#3b6fd4", &format!("singleton, epoch {epoch}")));
}

fn draw_fault(drawing: &mut Drawing, scale: &Scale, fault: &Fault, y: f64) {
    let title = format!("{}: {} ({})", fault.kind.name(), fault.how, fault.kind.text());
    bar(drawing, scale, (fault.from, fault.to), (y, 4.0), ("#d2493a", &title));
    let (x, y) = (format_args!("{:.1}", scale.x(fault.from)), format_args!("{:.1}", y - 1.0));
    let colour = [("x", &x as &dyn Display), ("y", &y), ("fill", &"#a03020"), ("font-size", &9)];
    drawing.text(&colour, fault.kind.name(), None);
}

fn moment(event: &Event) -> Option<At> {
    match event {
        Event::Told { at, .. } | Event::Asked { at, .. } | Event::Seen { at, .. } => Some(*at),
        Event::Acted { to, .. } => Some(*to),
        _ => None,
    }
}

fn bars(drawing: &mut Drawing, run: &Run<'_>, scale: &Scale, top: f64) {
    for fault in run.faults.iter().filter(|fault| fault.kind.hits_all()) {
        draw_fault(drawing, scale, fault, top + 8.0);
    }
    let mut counts = std::collections::BTreeMap::new();
    for at in run.acknowledged {
        *counts.entry(at.saturating_sub(run.from) / 1_000_000_000).or_insert(0_u32) += 1;
    }
    let most = counts.values().copied().max().unwrap_or(1);
    for (below, text) in [(40.0, "acknowledged".to_owned()), (52.0, format!("per s, \u{2264} {most}"))] {
        drawing.text(&[("x", &4), ("y", &format_args!("{:.1}", top + below))], &text, None);
    }
    for (second, count) in counts {
        let height = f64::from(count) / f64::from(most) * (BARS - 20.0);
        let from = run.from + second * 1_000_000_000;
        let to = from + 900_000_000;
        bar(drawing, scale, (from, to), (top + BARS - height, height), ("#7a9cc6", &format!("{count}")));
    }
}

#[cfg(test)]
mod tests {
    use super::{super::nemesis::Kind, *};

    const S: At = 1_000_000_000;

    #[test]
    fn the_picture_has_each_node_with_what_it_did_and_what_was_done_to_it_and_nothing_of_it_is_markup() {
        let stretch = |from, to| Stretch { from: from * S, to };
        let life = |node: &str, from, to, stopped| ProcessLife {
            node: node.to_owned(),
            history: "x".into(),
            lived: stretch(from, to),
            killed: None,
            stopped,
        };
        let lives = [
            life("a", 100, Some(130 * S), vec![stretch(110, Some(113 * S)), stretch(120, None)]),
            life("a", 131, None, Vec::new()),
            life("b<", 101, None, Vec::new()),
        ];
        let fault = |kind, node: &str, from: u64, to: u64| Fault {
            kind,
            node: node.to_owned(),
            how: "for <b>\"3\"</b> & 4".to_owned(),
            from: from * S,
            to: to * S,
            lacks: None,
        };
        let faults = [
            fault(Kind::Kill, "a", 130, 131),
            fault(Kind::Pause, "a", 110, 113),
            fault(Kind::Kill, "b<", 110, 113),
            fault(Kind::StoreStop, "a", 112, 114),
        ];
        let seen = |at: u64, leader: Option<&str>| Event::Seen {
            at: at * S,
            leader: leader.map(str::to_owned),
            epoch: 1,
            wall: 0,
            synced: true,
        };
        let events = vec![
            seen(101, Some("a")),
            Event::Led { from: 102 * S, to: 103 * S, epoch: 4 },
            Event::Led { from: 103 * S, to: 104 * S, epoch: 4 },
            Event::Led { from: 107 * S, to: 108 * S, epoch: 5 },
            seen(109, None),
            seen(111, Some("a")),
            seen(112, Some("b")),
            seen(116, Some("a")),
            seen(118, Some("a")),
        ];
        let process = ProcessHistory::new("a", None, events);
        let run = Run {
            title: "seed <7> & so on",
            nodes: &["a".to_owned(), "b<".to_owned()],
            lives: &lives,
            faults: &faults,
            processes: &[process],
            acknowledged: &[101 * S, 101 * S + 5, 104 * S],
            breaches: &["x".to_owned()],
            from: 100 * S,
            to: 140 * S,
        };
        let drawn = draw(&run);
        assert!(
            !drawn.contains("<b>") && drawn.contains("seed &lt;7&gt; &amp; so on: 1 violations"),
            "{drawn}"
        );
        let count = |what: &str| drawn.matches(what).count();
        // One of each colour is in the legend.
        for (colour, bars) in [("#bfe3c6", 3), ("#9a9a9a", 2), ("#e0a100", 3), ("#3b6fd4", 2), ("#d2493a", 4)]
        {
            assert_eq!(count(&format!("fill=\"{colour}\"")), 1 + bars, "{colour}: {drawn}");
        }
        for title in
            ["<title>singleton, epoch 4</title>", "<title>singleton, epoch 5</title>", "<title>2</title>"]
        {
            assert_eq!(count(title), 1, "{title}: {drawn}");
        }
        assert_eq!(
            count("<title>pause: for &lt;b&gt;&quot;3&quot;&lt;/b&gt; &amp; 4 (SIGSTOP"),
            1,
            "{drawn}"
        );
        // At 10 s of 40, for 3 s.
        assert!(
            drawn.contains("<rect x=\"284.0\" y=\"80.0\" width=\"60.0\" height=\"16.0\" fill=\"#9a9a9a\">")
        );
    }
}
