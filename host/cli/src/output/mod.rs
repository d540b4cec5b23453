//! Results on stdout: tables that fit the terminal, JSON, JSON lines, or ids for pipes.

pub mod checks;
mod fit;
mod words;

use comfy_table::{Attribute, Cell, ContentArrangement, Table, presets};
use serde::Serialize;
use serde_json::Value;

use crate::exit::CliError;
use crate::term::Term;
use fit::{Fitted, GAP};

pub use crate::config::size::format_size;
pub use fit::{Head, cut};
pub use words::{
    ago, counted_since, dead_letters, instant, messages, number, plain, plugin, safe, safe_lines, scheduled_until,
    short_digest, shortened, size, text, topic, words,
};

/// How results are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    Table,
    Json,
    /// One object a line.
    Jsonl,
    /// Ids only, one a line.
    Ids,
}

impl Format {
    /// For results that go on coming: a document would never end.
    #[must_use]
    pub fn followed(self) -> Self {
        if self == Self::Json { Self::Jsonl } else { self }
    }
}

/// A column: its heading and what stands in it.
pub struct Column<T = Value> {
    head: Head,
    cell: fn(&T) -> String,
}

/// A column whose cells are cut where they are too long.
pub const fn column<T>(title: &'static str, cell: fn(&T) -> String) -> Column<T> {
    Column { head: Head::cut(title), cell }
}

/// A column of ids and what else is copied, in one piece.
pub const fn whole<T>(title: &'static str, cell: fn(&T) -> String) -> Column<T> {
    Column { head: Head::whole(title), cell }
}

/// A column of instants, as [`instant`] writes them; on a terminal they are ages.
pub const fn moment<T>(title: &'static str, cell: fn(&T) -> String) -> Column<T> {
    Column { head: Head::moment(title), cell }
}

/// A column of sentences, which go on in the next line.
pub const fn prose<T>(title: &'static str, cell: fn(&T) -> String) -> Column<T> {
    Column { head: Head::prose(title), cell }
}

/// A column of sentences, which stand under their rows where there is no room beside them.
pub const fn under<T>(title: &'static str, cell: fn(&T) -> String) -> Column<T> {
    Column { head: Head::under(title), cell }
}

/// A column that is left out where room is short, the highest rank first.
pub const fn less<T>(rank: u8, column: Column<T>) -> Column<T> {
    Column { head: column.head.less(rank), cell: column.cell }
}

/// How a kind of item is shown. What a host answered is shown as the JSON that it is.
pub struct View<'a, T = Value> {
    /// Columns of the table.
    pub columns: &'a [Column<T>],
    /// What stands for an item with `-o ids`.
    pub id: fn(&T) -> String,
    /// Written in place of an empty table.
    pub none: &'a str,
}

pub fn list<T: Serialize>(term: &mut Term, format: Format, items: &[T], view: &View<'_, T>) -> Result<(), CliError> {
    let mut documents = items.iter().map(|item| serde_json::to_value(item).unwrap_or_default());
    match format {
        Format::Json => json(term, &Value::Array(documents.collect())),
        Format::Jsonl => documents.try_for_each(|document| term.line(&document.to_string())),
        Format::Ids => items.iter().try_for_each(|item| term.line(&(view.id)(item))),
        Format::Table if items.is_empty() => {
            term.say(view.none);
            Ok(())
        }
        Format::Table => {
            let heads: Vec<Head> = view.columns.iter().map(|column| column.head).collect();
            let rows: Vec<Vec<String>> =
                items.iter().map(|item| view.columns.iter().map(|column| (column.cell)(item)).collect()).collect();
            table(term, &heads, &rows)
        }
    }
}

/// Writes one item of a list: as the list has it, or the host's JSON as it came.
pub fn listed(term: &mut Term, format: Format, json: &str, item: &Value, view: &View<'_>) -> Result<(), CliError> {
    answer(term, format, json, &(view.id)(item), |term| list(term, Format::Table, std::slice::from_ref(item), view))
}

/// Writes one thing: its lines as a table, or the host's JSON as it came.
pub fn one(term: &mut Term, format: Format, json: &str, id: &str, rows: Vec<(String, String)>) -> Result<(), CliError> {
    answer(term, format, json, id, |term| pairs(term, rows))
}

/// Writes an answer about one thing: its table as the command draws it, or the host's JSON as it came.
pub fn answer(
    term: &mut Term,
    format: Format,
    json: &str,
    id: &str,
    table: impl FnOnce(&mut Term) -> Result<(), CliError>,
) -> Result<(), CliError> {
    match format {
        Format::Json | Format::Jsonl => term.line(json.trim_end()),
        Format::Ids => term.line(id),
        Format::Table => table(term),
    }
}

/// Writes JSON for people: indented, over several lines.
pub fn json(term: &mut Term, value: &Value) -> Result<(), CliError> {
    term.line(&format!("{value:#}"))
}

/// Writes a table with a heading. What others wrote into its cells can't draw on the terminal.
pub fn table(term: &mut Term, heads: &[Head], rows: &[Vec<String>]) -> Result<(), CliError> {
    let rows: Vec<Vec<String>> = rows.iter().map(|row| row.iter().map(|cell| safe_lines(cell)).collect()).collect();
    let Some(width) = term.width else {
        let titles: Vec<&str> = heads.iter().map(|head| head.title).collect();
        return draw(term, &titles, rows, &[]);
    };
    let (fitted, left_out) = fit::fit(heads, &rows, usize::from(width), (term.now)());
    term.left_out |= left_out;
    match fitted {
        Fitted::Table(titles, rows, under) => draw(term, &titles, rows, &under),
        Fitted::Cards(cards) => cards.into_iter().enumerate().try_for_each(|(number, card)| {
            if number > 0 {
                term.line("")?;
            }
            draw_card(term, card)
        }),
    }
}

/// `under`: what stands under each row, if there is any; `-` = nothing under this one.
fn draw(term: &mut Term, titles: &[&str], rows: Vec<Vec<String>>, under: &[String]) -> Result<(), CliError> {
    let mut table = empty_table(term);
    // Its cells fit already, or it is for a pipe, which gets whole lines.
    table.set_content_arrangement(ContentArrangement::Disabled);
    let bold = term.color;
    table.set_header(titles.iter().map(|title| {
        let cell = Cell::new(title);
        if bold { cell.add_attribute(Attribute::Bold) } else { cell }
    }));
    let heights: Vec<usize> = rows.iter().map(|row| height(row)).collect();
    for row in rows {
        table.add_row(row);
    }
    if under.is_empty() {
        return write_table(term, &mut table);
    }
    pad(&mut table);
    let mut lines = table.lines();
    for (height, under) in std::iter::once((1, "-")).chain(heights.into_iter().zip(under.iter().map(String::as_str))) {
        for line in lines.by_ref().take(height) {
            term.line(line.trim_end())?;
        }
        for line in under.split('\n').filter(|_| under != "-") {
            term.line(&format!("{:indent$}{line}", "", indent = fit::INDENT))?;
        }
    }
    Ok(())
}

/// Lines of a row.
fn height(row: &[String]) -> usize {
    row.iter().map(|cell| cell.split('\n').count()).max().unwrap_or(1)
}

/// A row of a table as lines of its own.
fn draw_card(term: &mut Term, card: Vec<(&'static str, String)>) -> Result<(), CliError> {
    let names = card.iter().map(|(name, _)| fit::breadth(name)).max().unwrap_or(0) + GAP;
    for (name, cell) in card {
        for (number, line) in cell.split('\n').enumerate() {
            let name = if number == 0 { name } else { "" };
            term.line(format!("{name:<names$}{line}").trim_end())?;
        }
    }
    Ok(())
}

/// Writes names and values. What others wrote into them can't draw on the terminal.
pub fn pairs(term: &mut Term, rows: Vec<(String, String)>) -> Result<(), CliError> {
    painted_pairs(term, rows.into_iter().map(|(name, value)| (safe_lines(&name), safe_lines(&value))).collect())
}

/// Writes names and values with colours of ours: what others wrote into them has to be safe already.
pub fn painted_pairs(term: &mut Term, rows: Vec<(String, String)>) -> Result<(), CliError> {
    let mut table = empty_table(term);
    for (name, value) in rows {
        table.add_row([name, value]);
    }
    write_table(term, &mut table)
}

fn empty_table(term: &Term) -> Table {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    table.force_no_tty();
    if term.color {
        table.enforce_styling();
    }
    match term.width {
        Some(width) => table.set_content_arrangement(ContentArrangement::Dynamic).set_width(width),
        // A pipe gets whole lines.
        None => table.set_content_arrangement(ContentArrangement::Disabled),
    };
    table
}

fn write_table(term: &mut Term, table: &mut Table) -> Result<(), CliError> {
    pad(table);
    for line in table.lines() {
        term.line(line.trim_end())?;
    }
    Ok(())
}

fn pad(table: &mut Table) {
    let (last, gap) = (table.column_count().saturating_sub(1), u16::try_from(GAP).unwrap_or_default());
    for (place, column) in table.column_iter_mut().enumerate() {
        column.set_padding((0, if place == last { 0 } else { gap }));
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::term::Written;

    /// What a terminal of twenty columns shows of a table of two.
    fn shown(color: bool) -> String {
        let out = Written::default();
        let mut term = Term { out: Box::new(out.clone()), width: Some(20), color, ..Term::of_process() };
        draw(&mut term, &["NAME", "WHAT"], vec![vec!["orders".to_owned(), "twelve cells".to_owned()]], &[]).unwrap();
        out.text()
    }

    #[test]
    fn headings_stand_over_their_columns_with_colours_too() {
        let colored = shown(true);
        assert!(colored.contains("\u{1b}[1m"), "{colored:?}");
        let plain = colored.replace("\u{1b}[1m", "").replace("\u{1b}[0m", "");
        let lines: Vec<&str> = plain.lines().map(str::trim_end).collect();
        assert_eq!(lines, ["NAME    WHAT", "orders  twelve cells"]);
        assert!(
            colored.lines().all(|line| fit::breadth(&line.replace("\u{1b}[1m", "").replace("\u{1b}[0m", "")) <= 20)
        );
    }
}
