//! What people read: texts, and the ways by which they get there.

mod lossy;
mod print;
mod steps;
mod written;

pub(crate) use callsign_store::printable;
use comfy_table::{Table, presets::NOTHING};

pub(crate) use self::{
    lossy::LossyLines,
    print::{Work, answer, line},
    steps::{Steps, tell},
};

/// Lays out rows in columns, each as wide as its widest cell takes on a terminal.
pub(crate) fn table(headers: &[&str], rows: &[Vec<String>]) -> String {
    let mut table = Table::new();
    table.load_preset(NOTHING).set_header(headers).add_rows(rows);
    for column in table.column_iter_mut() {
        column.set_padding((0, 2));
    }
    let lines: Vec<_> = table.lines().map(|line| line.trim_end().to_owned()).collect();
    lines.join("\n") + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_as_wide_as_their_widest_cell() {
        let row = |cells: [&str; 2]| cells.map(str::to_owned).to_vec();
        let rows = [row(["pricing", "a"]), row(["ü", "node-b"]), row(["日本", "c"])];
        let text = "NAME     NODE\npricing  a\nü        node-b\n日本     c\n";
        assert_eq!(table(&["NAME", "NODE"], &rows), text, "the third name is four columns wide");
        assert_eq!(table(&["NAME", "NODE"], &[]), "NAME  NODE\n");
    }
}
