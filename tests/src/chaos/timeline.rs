//! A run as a picture: a row for each node with its lives, its stops, who leads, and the faults; below, what was acknowledged
//! in each second.

use std::fmt::Write;

use super::{
    Fault,
    event::{At, Event},
    judge::Process,
    world::{Life, Stretch},
};

/// What is drawn.
#[derive(Debug)]
pub struct Run<'a> {
    /// Above it all.
    pub title: &'a str,
    /// The nodes.
    pub nodes: &'a [String],
    /// Their processes.
    pub lives: &'a [Life],
    /// What was done to them.
    pub faults: &'a [Fault],
    /// What they wrote.
    pub processes: &'a [Process],
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
    let mut svg = String::new();
    let height = TOP + rows + BARS + 60.0;
    line(
        &mut svg,
        format_args!(
            r#"<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0}" height="{height:.0}" font-family="sans-serif" font-size="10">"#
        ),
    );
    line(&mut svg, format_args!(r#"<rect width="100%" height="100%" fill="white"/>"#));
    let breaches = run.breaches.len();
    line(
        &mut svg,
        format_args!(
            r#"<text x="{LEFT}" y="20" font-size="15">{}: {breaches} violations</text>"#,
            escaped(run.title)
        ),
    );
    legend(&mut svg);
    for second in (0..seconds).step_by(if seconds > 200 { 10 } else { 5 }) {
        let x = scale.x(run.from + second * 1_000_000_000);
        let bottom = TOP + rows + BARS;
        line(
            &mut svg,
            format_args!(r##"<line x1="{x:.1}" x2="{x:.1}" y1="{TOP}" y2="{bottom}" stroke="#e8e8e8"/>"##),
        );
        line(
            &mut svg,
            format_args!(r##"<text x="{x:.1}" y="{:.1}" fill="#666">{second} s</text>"##, bottom + 14.0),
        );
    }
    let mut top = TOP;
    for node in run.nodes {
        row(&mut svg, run, &scale, node, top);
        top += ROW;
    }
    bars(&mut svg, run, &scale, top);
    svg.push_str("</svg>\n");
    svg
}

fn line(svg: &mut String, what: std::fmt::Arguments<'_>) {
    // A string takes everything.
    let _ = writeln!(svg, "{what}");
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

fn legend(svg: &mut String) {
    let all = [
        ("#bfe3c6", "runs"),
        ("#9a9a9a", "stopped"),
        ("#e0a100", "leads and serves, as it knows"),
        ("#3b6fd4", "singleton works here"),
        ("#d2493a", "fault"),
    ];
    let mut x = LEFT;
    for (colour, text) in all {
        line(svg, format_args!(r#"<rect x="{x}" y="34" width="12" height="10" fill="{colour}"/>"#));
        line(svg, format_args!(r#"<text x="{}" y="43">{text}</text>"#, x + 16.0));
        x += 190.0;
    }
}

fn bar(
    svg: &mut String,
    scale: &Scale,
    (from, to): (At, At),
    (y, height): (f64, f64),
    (colour, title): (&str, &str),
) {
    let (x, width) = (scale.x(from), (scale.x(to) - scale.x(from)).max(0.8));
    line(
        svg,
        format_args!(
            r#"<rect x="{x:.1}" y="{y:.1}" width="{width:.1}" height="{height:.1}" fill="{colour}"><title>{}</title></rect>"#,
            escaped(title)
        ),
    );
}

fn row(svg: &mut String, run: &Run<'_>, scale: &Scale, node: &str, top: f64) {
    line(svg, format_args!(r#"<text x="20" y="{:.1}" font-size="14">{}</text>"#, top + 22.0, escaped(node)));
    let until = |stretch: &Stretch| stretch.to.unwrap_or(run.to);
    for life in run.lives.iter().filter(|life| life.node == node) {
        bar(svg, scale, (life.lived.from, until(&life.lived)), (top + 10.0, 16.0), ("#bfe3c6", "runs"));
        for stop in &life.stopped {
            bar(svg, scale, (stop.from, until(stop)), (top + 10.0, 16.0), ("#9a9a9a", "stopped"));
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
                        bar(svg, scale, (from, *at), (top + 5.0, 5.0), ("#e0a100", "leads"));
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
                            singleton(svg, scale, before, top);
                            Some((*from, *to, *epoch))
                        }
                    };
                }
                _ => {}
            }
        }
        singleton(svg, scale, works, top);
        if let Some(from) = leads {
            bar(svg, scale, (from, end), (top + 5.0, 5.0), ("#e0a100", "leads"));
        }
    }
    let mine = run.faults.iter().filter(|fault| fault.node == node && !fault.kind.hits_all());
    for (index, fault) in mine.enumerate() {
        draw_fault(svg, scale, fault, top + 42.0 + if index % 2 == 0 { 0.0 } else { 14.0 });
    }
}

fn singleton(svg: &mut String, scale: &Scale, works: Option<(At, At, u64)>, top: f64) {
    let Some((from, to, epoch)) = works else { return };
    bar(svg, scale, (from, to), (top + 26.0, 4.0), ("#3b6fd4", &format!("singleton, epoch {epoch}")));
}

fn draw_fault(svg: &mut String, scale: &Scale, fault: &Fault, y: f64) {
    let title = format!("{}: {} ({})", fault.kind.name(), fault.how, fault.kind.text());
    bar(svg, scale, (fault.from, fault.to), (y, 4.0), ("#d2493a", &title));
    line(
        svg,
        format_args!(
            r##"<text x="{:.1}" y="{:.1}" fill="#a03020" font-size="9">{}</text>"##,
            scale.x(fault.from),
            y - 1.0,
            fault.kind.name()
        ),
    );
}

fn moment(event: &Event) -> Option<At> {
    match event {
        Event::Told { at, .. } | Event::Asked { at, .. } | Event::Seen { at, .. } => Some(*at),
        Event::Acted { to, .. } => Some(*to),
        _ => None,
    }
}

fn bars(svg: &mut String, run: &Run<'_>, scale: &Scale, top: f64) {
    for fault in run.faults.iter().filter(|fault| fault.kind.hits_all()) {
        draw_fault(svg, scale, fault, top + 8.0);
    }
    let mut counts = std::collections::BTreeMap::new();
    for at in run.acknowledged {
        *counts.entry(at.saturating_sub(run.from) / 1_000_000_000).or_insert(0_u32) += 1;
    }
    let most = counts.values().copied().max().unwrap_or(1);
    line(svg, format_args!(r#"<text x="4" y="{:.1}">acknowledged</text>"#, top + 40.0));
    line(svg, format_args!(r#"<text x="4" y="{:.1}">per s, &#8804; {most}</text>"#, top + 52.0));
    for (second, count) in counts {
        let height = f64::from(count) / f64::from(most) * (BARS - 20.0);
        let from = run.from + second * 1_000_000_000;
        let to = from + 900_000_000;
        bar(svg, scale, (from, to), (top + BARS - height, height), ("#7a9cc6", &format!("{count}")));
    }
}
