//! Tables that fit the terminal, a line a row: what is copied stays in one piece, instants become ages, the rest is cut or left
//! out by what matters least; a sentence may stand under its row. Where even that doesn't fit, each row becomes lines of its own. A pipe
//! gets everything.

use jiff::{SignedDuration, Timestamp};

/// Columns between two cells.
pub(super) const GAP: usize = 2;
/// Columns that a text is cut to at least.
const CUT_WIDTH_MIN: usize = 14;
/// Columns that a sentence under its row is moved in.
pub(super) const INDENT: usize = 4;
/// Columns that sentences get at least.
const PROSE_WIDTH_MIN: usize = 20;

/// What may be done to a column's cells, so that they fit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fit {
    /// Nothing: an id is copied.
    Whole,
    /// It is cut, and `-o wide` has all of it.
    Cut,
    /// It goes on in the next line.
    Prose,
    /// It stands under its row where there is no room beside it.
    Under,
    /// An instant becomes an age.
    Moment,
}

/// Heading of a column, and how its cells are made to fit.
#[derive(Clone, Copy, Debug)]
pub struct Head {
    pub(super) title: &'static str,
    fit: Fit,
    /// It is left out where room is short, the highest first; 0 = never.
    less: u8,
}

impl Head {
    const fn new(title: &'static str, fit: Fit) -> Self {
        Self { title, fit, less: 0 }
    }

    /// Cells that are cut where they are too long.
    pub const fn cut(title: &'static str) -> Self {
        Self::new(title, Fit::Cut)
    }

    /// Cells that stay in one piece: ids, for instance.
    pub const fn whole(title: &'static str) -> Self {
        Self::new(title, Fit::Whole)
    }

    /// Sentences that go on in the next line.
    pub const fn prose(title: &'static str) -> Self {
        Self::new(title, Fit::Prose)
    }

    /// Sentences that stand under their rows where there is no room beside them.
    pub const fn under(title: &'static str) -> Self {
        Self::new(title, Fit::Under)
    }

    /// Instants, as [`super::instant`] writes them.
    pub const fn moment(title: &'static str) -> Self {
        Self::new(title, Fit::Moment)
    }

    /// One that is left out where room is short, the highest rank first.
    pub const fn less(self, rank: u8) -> Self {
        Self { less: rank, ..self }
    }

    /// Columns without which it says nothing.
    fn width_min(&self, natural: usize) -> usize {
        match self.fit {
            Fit::Whole | Fit::Moment | Fit::Under => natural,
            Fit::Cut => natural.min(CUT_WIDTH_MIN),
            Fit::Prose => natural.min(PROSE_WIDTH_MIN),
        }
    }
}

/// What is drawn of a table.
pub(super) enum Fitted {
    /// Titles and rows, no line of which is wider than the terminal, and what stands under each row, if there is any.
    Table(Vec<&'static str>, Vec<Vec<String>>, Vec<String>),
    /// Of each row its titles and cells, because a table of them can't be narrow enough.
    Cards(Vec<Vec<(&'static str, String)>>),
}

struct Column {
    head: Head,
    cells: Vec<String>,
    natural: usize,
}

/// Makes rows fit so many columns, and says whether anything of them is left out.
pub(super) fn fit(heads: &[Head], rows: &[Vec<String>], width: usize, now: Timestamp) -> (Fitted, bool) {
    let column = |(index, head): (usize, &Head)| {
        let cell = |row: &Vec<String>| row.get(index).cloned().unwrap_or_default();
        let cells: Vec<String> = match head.fit {
            Fit::Moment => rows.iter().map(|row| age(&cell(row), now)).collect(),
            _ => rows.iter().map(cell).collect(),
        };
        let natural = cells.iter().map(|cell| breadth(cell)).chain([breadth(head.title)]).max().unwrap_or(0);
        Column { head: *head, cells, natural }
    };
    let mut columns: Vec<Column> = heads.iter().enumerate().map(column).collect();
    let under = take_under(&mut columns, width);
    let mut left_out = false;
    while needed(&columns, |column| column.natural) > width {
        // What says nothing goes first, then what matters least.
        let empty = columns.iter().position(|column| column.cells.iter().all(|cell| cell == "-"));
        let least = columns.iter().enumerate().filter(|(_, column)| column.head.less > 0);
        let least = least.max_by_key(|(_, column)| column.head.less).map(|(index, _)| index);
        let too_narrow = needed(&columns, |column| column.head.width_min(column.natural)) > width;
        match (empty, least) {
            (Some(index), _) if columns.len() > 1 => drop(columns.remove(index)),
            (_, Some(index)) if too_narrow => {
                columns.remove(index);
                left_out = true;
            }
            _ if too_narrow => return (Fitted::Cards(cards(heads, rows, width)), false),
            _ => break,
        }
    }
    let widths = widths(&columns, width);
    for (column, width) in columns.iter_mut().zip(widths) {
        for cell in &mut column.cells {
            *cell = match column.head.fit {
                Fit::Cut => {
                    let cut: Vec<String> = cell.split('\n').map(|line| cut(line, width)).collect();
                    let cut = cut.join("\n");
                    left_out |= cut != *cell;
                    cut
                }
                Fit::Prose => wrapped(cell, width),
                Fit::Whole | Fit::Under | Fit::Moment => std::mem::take(cell),
            };
        }
    }
    let titles = columns.iter().map(|column| column.head.title).collect();
    let rows = (0..rows.len())
        .map(|row| columns.iter().map(|column| column.cells.get(row).cloned().unwrap_or_default()).collect())
        .collect();
    (Fitted::Table(titles, rows, under), left_out)
}

/// Takes the sentences out that have no room beside what else says something.
fn take_under(columns: &mut Vec<Column>, width: usize) -> Vec<String> {
    let says = |column: &&Column| column.cells.iter().any(|cell| cell != "-");
    let told: Vec<&Column> = columns.iter().filter(says).collect();
    let needed = told.iter().map(|column| column.natural).sum::<usize>() + GAP * told.len().saturating_sub(1);
    let at = columns.iter().position(|column| column.head.fit == Fit::Under).filter(|_| needed > width);
    let Some(at) = at.filter(|_| columns.len() > 1) else { return Vec::new() };
    let room = width.saturating_sub(INDENT).max(1);
    columns.remove(at).cells.iter().map(|cell| wrapped(cell, room)).collect()
}

/// Columns of the terminal for all of them.
fn needed(columns: &[Column], width: impl Fn(&Column) -> usize) -> usize {
    columns.iter().map(width).sum::<usize>() + GAP * columns.len().saturating_sub(1)
}

/// The width of each: all get what they say nothing without, and the widest share what is left.
fn widths(columns: &[Column], width: usize) -> Vec<usize> {
    let mut widths: Vec<usize> = columns.iter().map(|column| column.head.width_min(column.natural)).collect();
    let mut room = width.saturating_sub(widths.iter().sum::<usize>() + GAP * columns.len().saturating_sub(1));
    while room > 0 {
        let wanting = columns.iter().zip(&mut widths).filter(|(column, width)| column.natural > **width);
        let Some((_, narrowest)) = wanting.min_by_key(|(_, width)| **width) else { break };
        *narrowest += 1;
        room -= 1;
    }
    widths
}

/// Names and values of each row, wrapped where they are too long; what is copied stays in one piece.
fn cards(heads: &[Head], rows: &[Vec<String>], width: usize) -> Vec<Vec<(&'static str, String)>> {
    let names = heads.iter().map(|head| breadth(head.title)).max().unwrap_or(0);
    let room = width.saturating_sub(names + GAP).max(1);
    let card = |row: &Vec<String>| {
        let filled = heads.iter().zip(row).filter(|(_, cell)| *cell != "-");
        filled
            .map(|(head, cell)| match head.fit {
                Fit::Whole => (head.title, cell.clone()),
                _ => (head.title, wrapped(cell, room)),
            })
            .collect()
    };
    rows.iter().map(card).collect()
}

/// Columns of the longest line.
pub(super) fn breadth(text: &str) -> usize {
    text.split('\n').map(|line| line.chars().count()).max().unwrap_or(0)
}

/// The text, or as much of it as there is room for.
pub fn cut(text: &str, room: usize) -> String {
    if text.chars().count() <= room {
        return text.to_owned();
    }
    text.chars().take(room.saturating_sub(1)).chain(std::iter::once('…')).collect()
}

/// The text over as many lines as it takes, broken between words where that is possible.
fn wrapped(text: &str, width: usize) -> String {
    let mut lines: Vec<String> = Vec::new();
    for paragraph in text.split('\n') {
        let mut line = String::new();
        let mut used = 0;
        for word in paragraph.split(' ') {
            let mut word: Vec<char> = word.chars().collect();
            if used > 0 && used + 1 + word.len() > width {
                lines.push(std::mem::take(&mut line));
                used = 0;
            }
            while word.len() > width.max(1) {
                let rest = word.split_off(width.max(1));
                lines.push(word.into_iter().collect());
                word = rest;
            }
            if !line.is_empty() {
                line.push(' ');
                used += 1;
            }
            used += word.len();
            line.extend(word);
        }
        lines.push(line);
    }
    lines.join("\n")
}

/// How long ago an instant was, or in how long it is, in its largest unit; other texts stay as they are.
fn age(instant: &str, now: Timestamp) -> String {
    let Ok(at) = instant.parse::<Timestamp>() else { return instant.to_owned() };
    let since: SignedDuration = now.duration_since(at);
    let seconds = since.as_secs().unsigned_abs();
    let (count, unit) = match seconds {
        0..60 => (seconds, "s"),
        60..3_600 => (seconds / 60, "m"),
        3_600..86_400 => (seconds / 3_600, "h"),
        _ => (seconds / 86_400, "d"),
    };
    if since.is_negative() && seconds > 0 { format!("in {count}{unit}") } else { format!("{count}{unit}") }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing)]
    use super::*;

    const NOW: &str = "2026-11-21T09:00:00Z";

    fn drawn(heads: &[Head], rows: &[&[&str]], width: usize) -> (Vec<&'static str>, Vec<Vec<String>>, bool) {
        let rows: Vec<Vec<String>> =
            rows.iter().map(|row| row.iter().map(|cell| (*cell).to_owned()).collect()).collect();
        match fit(heads, &rows, width, NOW.parse().unwrap()) {
            (Fitted::Table(titles, rows, _), left_out) => (titles, rows, left_out),
            (Fitted::Cards(cards), _) => panic!("cards: {cards:?}"),
        }
    }

    #[test]
    fn an_instant_is_as_old_as_its_largest_unit_says() {
        for (at, words) in [
            (NOW, "0s"),
            ("2026-11-21T08:59:01Z", "59s"),
            ("2026-11-21T08:57:00Z", "3m"),
            ("2026-11-20T09:00:01Z", "23h"),
            ("2026-11-19T09:00:00Z", "2d"),
            ("2026-11-21T09:02:30Z", "in 2m"),
            ("-", "-"),
        ] {
            assert_eq!(age(at, NOW.parse().unwrap()), words, "{at}");
        }
    }

    #[test]
    fn what_fits_is_drawn_as_it_is() {
        let heads = [Head::whole("ID"), Head::cut("TOPIC").less(1)];
        let (titles, rows, left_out) = drawn(&heads, &[&["a", "bus:a"], &["b", "-"]], 80);
        assert_eq!((titles, left_out), (vec!["ID", "TOPIC"], false));
        assert_eq!(rows, [["a", "bus:a"], ["b", "-"]]);
    }

    #[test]
    fn columns_go_by_what_matters_least_and_ids_stay_whole() {
        let heads = [Head::whole("ID"), Head::cut("TENANT").less(1), Head::cut("KEY").less(2), Head::cut("ERROR")];
        let id = "01JD8Q6H3ZK7W5V0N2T4R6Y8BC";
        let row: &[&str] = &[id, "some-tenant", "some-key-of-it", "HTTP.422: the receiver answered 422 to this"];
        let (titles, rows, left_out) = drawn(&heads, &[row], 60);
        assert_eq!((titles, left_out), (vec!["ID", "TENANT", "ERROR"], true));
        assert_eq!(rows, [[id, "some-tenant", "HTTP.422: the rece…"]]);
        let (titles, rows, _) = drawn(&heads, &[row], 42);
        assert_eq!((titles, rows), (vec!["ID", "ERROR"], vec![vec![id.to_owned(), "HTTP.422: the…".to_owned()]]));
        let (titles, ..) = drawn(&heads, &[&[id, "-", "some-key-of-it", "short"]], 50);
        assert_eq!(titles, ["ID", "KEY", "ERROR"], "one that says nothing goes before one that says something");
    }

    #[test]
    fn sentences_go_on_in_the_next_line() {
        let heads = [Head::whole("ID"), Head::prose("WHY")];
        let (_, rows, left_out) = drawn(&heads, &[&["a", "add \"http://evil.example:80\" to allow.net of hooks"]], 30);
        assert_eq!(
            (rows, left_out),
            (vec![vec!["a".to_owned(), "add\n\"http://evil.example:80\"\nto allow.net of hooks".to_owned()]], false)
        );
        assert_eq!(wrapped("abcdefgh ij", 4), "abcd\nefgh\nij");
    }

    #[test]
    fn a_sentence_without_room_beside_its_row_stands_under_it() {
        let heads = [Head::cut("KIND"), Head::whole("SUBJECT"), Head::cut("TENANT").less(1), Head::under("WHY")];
        let why = "HTTP.401: 401 from the receiver";
        let rows = [["key", "https://shop.example", "acme", why], ["key", "order-17", "-", "-"]];
        let rows: Vec<Vec<String>> = rows.iter().map(|row| row.map(str::to_owned).to_vec()).collect();
        let fitted = |width| match fit(&heads, &rows, width, NOW.parse().unwrap()) {
            (Fitted::Table(titles, rows, under), left_out) => (titles.len(), rows[0].len(), under, left_out),
            (Fitted::Cards(cards), _) => panic!("cards: {cards:?}"),
        };
        assert_eq!(fitted(80), (4, 4, vec![], false));
        assert_eq!(fitted(40), (3, 3, vec![why.to_owned(), "-".to_owned()], false), "nothing else is left out for it");
        assert_eq!(fitted(29), (2, 2, vec!["HTTP.401: 401 from the\nreceiver".to_owned(), "-".to_owned()], true));
    }

    #[test]
    fn what_cannot_be_narrow_enough_becomes_lines_of_its_own() {
        let heads = [Head::whole("ID"), Head::cut("KEY"), Head::cut("ERROR")];
        let long = "x".repeat(50);
        let rows = vec![vec![long.clone(), "-".to_owned(), "the receiver said no".to_owned()]];
        let (Fitted::Cards(cards), left_out) = fit(&heads, &rows, 40, NOW.parse().unwrap()) else { panic!("a table") };
        assert_eq!(cards, [[("ID", long), ("ERROR", "the receiver said no".to_owned())]]);
        assert!(!left_out, "all of it is there");
    }

    #[test]
    fn what_is_too_long_is_cut_with_a_mark() {
        assert_eq!(cut("abc", 3), "abc");
        assert_eq!(cut("abcd", 3), "ab…");
        assert_eq!(cut("ä", 0), "…");
    }
}
