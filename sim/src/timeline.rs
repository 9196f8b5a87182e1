//! Draws a run: one page of HTML with an SVG in it, a lane for each node, one for the store and one for what is done to the
//! cluster; time goes down. Nothing is loaded from anywhere.

use crate::{
    drawing::Drawing,
    oracle::{Note, NoteKind},
    world::{Violation, World},
};

const LANE: usize = 190;
const ROW: usize = 18;
const LEFT: usize = 90;
const TOP: usize = 60;

const STYLE: &str = "body { font: 13px sans-serif; margin: 1em } text { font: 11px monospace }\
    .lane { stroke: #ccc } .message { stroke: #36c; marker-end: url(#tip) } .commit { stroke: #283; marker-end: url(#tip) }\
    .fault { fill: #c33 } .wrong { fill: #c00; font-weight: bold }";

/// The page of a world that took notes.
pub fn draw(title: &str, world: &World) -> String {
    let names: Vec<String> = world.setup.names.iter().map(ToString::to_string).collect();
    draw_notes(title, &names, world.oracle.notes(), world.oracle.violation())
}

fn draw_notes(title: &str, names: &[String], notes: &[Note], violation: Option<&Violation>) -> String {
    let lanes: Vec<&str> =
        names.iter().map(String::as_str).chain(["the store", "done to the cluster"]).collect();
    let (store, outside) = (names.len(), names.len() + 1);
    let height = TOP + ROW * (notes.len() + 3);
    let width = LEFT + LANE * lanes.len() + 20;
    let mut drawing = Drawing::new(&[("width", &width), ("height", &height)]).with_arrows();
    for (at, lane) in lanes.iter().enumerate() {
        let (x, end) = (x_of(at), height - ROW);
        drawing.text(&[("x", &x), ("y", &(TOP - 15))], lane, None);
        drawing.line(&[("class", &"lane"), ("x1", &x), ("x2", &x), ("y1", &TOP), ("y2", &end)]);
    }
    let mut last = None;
    for (row, note) in notes.iter().enumerate() {
        let y = TOP + ROW * (row + 1);
        if last != Some(note.at) {
            last = Some(note.at);
            drawing.text(&[("x", &4), ("y", &y)], &format!("{:.4} s", note.at.as_secs_f64()), None);
        }
        let lane = match (note.kind, note.node) {
            (NoteKind::Fault, _) => outside,
            (NoteKind::Commit, _) | (_, None) => store,
            (_, Some(node)) => usize::from(node),
        };
        let class = match note.kind {
            NoteKind::Message => "message",
            NoteKind::Commit => "commit",
            _ => "",
        };
        let from = match note.kind {
            NoteKind::Commit => note.node.or(note.from),
            _ => note.from,
        };
        if let Some(from) = from.filter(|from| usize::from(*from) != lane && !class.is_empty()) {
            let (x1, x2) = (x_of(usize::from(from)), x_of(lane));
            let up = y - ROW / 2;
            drawing.line(&[("class", &class), ("x1", &x1), ("y1", &up), ("x2", &x2), ("y2", &y)]);
        }
        let class = if note.kind == NoteKind::Fault { "fault" } else { "" };
        let short: String = note.what.chars().take(27).collect();
        let title = format!("step {}: {}", note.step, note.what);
        drawing.text(&[("class", &class), ("x", &(x_of(lane) + 4)), ("y", &(y + 4))], &short, Some(&title));
    }
    if let Some(violation) = violation {
        let y = TOP + ROW * (notes.len() + 2);
        let text = format!("{}: {}", violation.check, violation.what);
        drawing.text(&[("class", &"wrong"), ("x", &4), ("y", &y)], &text, None);
    }
    drawing.page(title, STYLE)
}

fn x_of(lane: usize) -> usize {
    LEFT + LANE * lane + 10
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn note(kind: NoteKind, node: Option<u8>, from: Option<u8>, what: &str) -> Note {
        Note { step: 1, at: Duration::from_millis(5), kind, node, from, what: what.to_owned() }
    }

    #[test]
    fn everything_noted_is_on_the_page_and_nothing_of_it_is_markup() {
        let notes = [
            note(NoteKind::Message, Some(1), Some(0), "replicate <script>"),
            note(NoteKind::Commit, Some(0), None, "log/7 & more"),
            note(NoteKind::Fault, Some(1), None, "crash"),
            note(NoteKind::Event, Some(0), None, "a \"quoted\" event"),
        ];
        let wrong = Violation { check: "one trusted holder of each name", what: "n1 < n2".to_owned() };
        let page = draw_notes("seed 7", &["a".into(), "b".into()], &notes, Some(&wrong));
        for text in
            ["seed 7", "replicate &lt;script&gt;", "log/7 &amp; more", "crash", "&quot;quoted", "n1 &lt; n2"]
        {
            assert!(page.contains(text), "{text} in {page}");
        }
        assert!(!page.contains("<script"));
        for tag in ["text", "title", "svg", "html", "style", "h1", "body", "head", "defs", "marker"] {
            let open = page.matches(&format!("<{tag}>")).count() + page.matches(&format!("<{tag} ")).count();
            assert_eq!(open, page.matches(&format!("</{tag}>")).count(), "{tag}");
        }
        // One arrow for the message, one for the commit.
        assert_eq!(page.matches("class=\"message\"").count(), 1);
        assert_eq!(page.matches("class=\"commit\"").count(), 1);
    }
}
