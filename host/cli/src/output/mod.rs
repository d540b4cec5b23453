//! Results on stdout: tables that fit the terminal, JSON, JSON lines, or ids for pipes.

mod words;

use comfy_table::{Attribute, Cell, ContentArrangement, Table, presets};
use serde_json::Value;

use crate::args::Format;
use crate::exit::CliError;
use crate::term::Term;

pub use words::{
    ago, counted_since, dead_letters, instant, number, plain, safe_lines, scheduled_until, short_digest, size, text,
    words,
};

/// A column: title and what stands in it.
pub struct Column {
    title: &'static str,
    cell: fn(&Value) -> String,
}

/// A column.
pub const fn column(title: &'static str, cell: fn(&Value) -> String) -> Column {
    Column { title, cell }
}

/// How a kind of item is shown.
pub struct View<'a> {
    /// Columns of the table.
    pub columns: &'a [Column],
    /// What stands for an item with `-o ids`.
    pub id: fn(&Value) -> String,
    /// Written in place of an empty table.
    pub none: &'a str,
}

/// Writes a list.
pub fn list(term: &mut Term, format: Format, items: &[Value], view: &View<'_>) -> Result<(), CliError> {
    match format {
        Format::Json => return json(term, &Value::Array(items.to_vec())),
        Format::Jsonl => {
            for item in items {
                term.line(&item.to_string())?;
            }
        }
        Format::Ids => {
            for item in items {
                term.line(&(view.id)(item))?;
            }
        }
        Format::Table if items.is_empty() => term.say(view.none),
        Format::Table => {
            let titles: Vec<&str> = view.columns.iter().map(|column| column.title).collect();
            let rows: Vec<Vec<String>> =
                items.iter().map(|item| view.columns.iter().map(|column| (column.cell)(item)).collect()).collect();
            table(term, &titles, rows)?;
        }
    }
    Ok(())
}

/// Writes one thing: its lines as a table, or the host's JSON as it came.
pub fn one(term: &mut Term, format: Format, json: &str, id: &str, rows: Vec<(String, String)>) -> Result<(), CliError> {
    match format {
        Format::Json | Format::Jsonl => term.line(json.trim_end()),
        Format::Ids => term.line(id),
        Format::Table => pairs(term, rows),
    }
}

/// Writes indented JSON.
pub fn json(term: &mut Term, value: &Value) -> Result<(), CliError> {
    term.line(&format!("{value:#}"))
}

/// Writes a table with a heading. What others wrote into its cells can't draw on the terminal.
pub fn table(term: &mut Term, titles: &[&str], rows: Vec<Vec<String>>) -> Result<(), CliError> {
    let mut table = empty_table(term);
    let bold = term.color;
    table.set_header(titles.iter().map(|title| {
        let cell = Cell::new(title);
        if bold { cell.add_attribute(Attribute::Bold) } else { cell }
    }));
    for row in rows {
        table.add_row(row.iter().map(|cell| safe_lines(cell)));
    }
    write_table(term, &table)
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
    write_table(term, &table)
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

fn write_table(term: &mut Term, table: &Table) -> Result<(), CliError> {
    for line in table.lines() {
        term.line(line.trim_end().strip_prefix(' ').unwrap_or(line.trim_end()))?;
    }
    Ok(())
}
