//! What people read: texts, and the ways by which they get there.

mod lossy;
mod print;

pub(crate) use self::{
    lossy::LossyLines,
    print::{Work, answer, line, tell},
};

/// Lays out rows in columns, each as wide as its widest cell.
pub(crate) fn table(headers: &[&str], rows: &[Vec<String>]) -> String {
    let mut widths: Vec<usize> = headers.iter().map(|header| header.chars().count()).collect();
    for row in rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.chars().count());
        }
    }
    let line = |cells: &mut dyn Iterator<Item = &str>| {
        let padded = cells.zip(&widths).map(|(cell, &width)| format!("{cell:<width$}"));
        padded.collect::<Vec<_>>().join("  ").trim_end().to_owned() + "\n"
    };
    let mut text = line(&mut headers.iter().copied());
    for row in rows {
        text += &line(&mut row.iter().map(String::as_str));
    }
    text
}

/// A text that came from elsewhere, safe to print: control characters are escaped.
pub(crate) fn printable(text: &str) -> String {
    text.chars().flat_map(|c| if c.is_control() { c.escape_default().collect() } else { vec![c] }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_as_wide_as_their_widest_cell() {
        let rows = [vec!["pricing".to_owned(), "a".to_owned()], vec!["ü".to_owned(), "node-b".to_owned()]];
        assert_eq!(table(&["NAME", "NODE"], &rows), "NAME     NODE\npricing  a\nü        node-b\n");
    }

    #[test]
    fn control_characters_do_not_reach_the_terminal() {
        assert_eq!(printable("a\u{1b}[2Jü\n"), "a\\u{1b}[2Jü\\n");
    }
}
