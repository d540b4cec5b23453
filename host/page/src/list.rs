//! Lists of things of one kind, a row each. A value that all rows have stands once, above them, and its column is left out. So it is with
//! the second line of a cell.

use maud::{Markup, html};

use crate::parts::{Column, headed};

/// A column of a list: how its cells are laid out, and whether one value throughout moves into the heading.
#[derive(Clone, Copy, Debug)]
pub struct Field {
    column: Column,
    class: &'static str,
    /// What a card says before the value.
    label: Option<&'static str>,
    /// What the heading says before the value; none = the column stays.
    word: Option<&'static str>,
    /// Its cells name their rows.
    is_name: bool,
    /// It is the second line of the column before it; where that one has moved it is a column.
    is_second: bool,
}

impl Field {
    pub const fn text(title: &'static str) -> Self {
        Self { column: Column::Text(title), class: "", label: None, word: None, is_name: false, is_second: false }
    }

    /// A number or an instant, to the right, on one line.
    pub const fn number(title: &'static str) -> Self {
        Self { column: Column::Number(title), class: "num nw", ..Self::text("") }
    }

    pub const fn class(self, class: &'static str) -> Self {
        Self { class, ..self }
    }

    pub const fn label(self, label: &'static str) -> Self {
        Self { label: Some(label), ..self }
    }

    /// One value throughout stands in the heading, behind this word.
    pub const fn moves(self, word: &'static str) -> Self {
        Self { word: Some(word), ..self }
    }

    pub const fn name(self) -> Self {
        Self { is_name: true, ..self }
    }

    pub const fn second_line(self) -> Self {
        Self { is_second: true, ..self }
    }

    fn cell(&self, body: &Markup) -> Markup {
        let class = Some(self.class).filter(|class| !class.is_empty());
        html! {
            @if self.is_name { th class=[class] data-l=[self.label] scope="row" { (body) } }
            @else { td class=[class] data-l=[self.label] { (body) } }
        }
    }
}

/// A list, a cell a field in each row.
pub fn list<const N: usize>(name: &str, fields: &[Field; N], rows: &[[Markup; N]], foot: Option<&Markup>) -> Markup {
    let moved: Vec<Option<(&str, &Markup)>> =
        fields.iter().enumerate().map(|(at, field)| field.word.zip(same(rows, at))).collect();
    let columns = drawn(fields, &moved);
    let kept: Vec<Column> = columns.iter().map(|drawn| drawn.field.column).collect();
    let body = html! { @for row in rows {
        tr tabindex="-1" { @for column in &columns { (column.cell(row)) } }
    } };
    // A second line that no row has isn't missed.
    let is_said = |field: &Field, value: &Markup| !field.is_second || !value.0.is_empty();
    let moved: Vec<(&str, &Markup)> = fields
        .iter()
        .zip(moved)
        .filter_map(|(field, moved)| moved.filter(|(_, value)| is_said(field, value)))
        .collect();
    let heading = (!moved.is_empty()).then(|| of_all(&moved));
    headed(name, heading.as_ref(), &kept, &body, foot)
}

/// A column that is left, by the places of what it shows in a row.
struct Drawn<'f> {
    field: &'f Field,
    at: usize,
    second: Option<usize>,
}

impl Drawn<'_> {
    fn cell(&self, row: &[Markup]) -> Markup {
        let second = self.second.and_then(|at| row.get(at));
        match (row.get(self.at), second) {
            (Some(first), Some(second)) if !second.0.is_empty() => {
                self.field.cell(&html! { (first) span.sub { (second) } })
            }
            (Some(first), _) => self.field.cell(first),
            (None, _) => html! {},
        }
    }
}

fn drawn<'f>(fields: &'f [Field], moved: &[Option<(&str, &Markup)>]) -> Vec<Drawn<'f>> {
    let mut columns: Vec<Drawn<'f>> = Vec::new();
    for (at, (field, moved)) in fields.iter().zip(moved).enumerate() {
        if moved.is_some() {
            continue;
        }
        match columns.last_mut().filter(|before| field.is_second && before.at + 1 == at) {
            Some(before) => before.second = Some(at),
            None => columns.push(Drawn { field, at, second: None }),
        }
    }
    columns
}

fn of_all(moved: &[(&str, &Markup)]) -> Markup {
    html! {
        p.same {
            "All: "
            @for (at, (word, value)) in moved.iter().enumerate() {
                @if at > 0 { " · " }
                (word) " " b { @if value.0.is_empty() { "none" } @else { (value) } }
            }
        }
    }
}

/// What several rows all have in a cell; one row has nothing in common with others.
fn same<const N: usize>(rows: &[[Markup; N]], at: usize) -> Option<&Markup> {
    let (first, others) = rows.split_first()?;
    let value = first.get(at)?;
    let is_same = |row: &[Markup; N]| row.get(at).is_some_and(|cell| cell.0 == value.0);
    (!others.is_empty() && others.iter().all(is_same)).then_some(value)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::foreign;

    const FIELDS: [Field; 4] = [
        Field::text("Id"),
        Field::text("Topic").class("mono").moves("topic"),
        Field::text("Tenant").label("tenant").moves("tenant"),
        Field::number("Taken"),
    ];

    fn shown(rows: &[[&str; 4]]) -> String {
        let rows: Vec<[Markup; 4]> = rows.iter().map(|row| row.map(|text| html! { (foreign(text)) })).collect();
        list("Messages", &FIELDS, &rows, None).0
    }

    #[test]
    fn one_value_throughout_stands_in_the_heading_alone() {
        let drawn = shown(&[["a", "bus:<b>", "acme", "1"], ["b", "bus:<b>", "acme", "1"]]);
        assert!(
            drawn.contains("<p class=\"same\">All: topic <b>bus:&lt;b&gt;</b> · tenant <b>acme</b></p>"),
            "{drawn}"
        );
        assert_eq!((drawn.matches("acme").count(), drawn.matches("bus:").count()), (1, 1), "{drawn}");
        assert!(!drawn.contains(">Topic<") && !drawn.contains(">Tenant<"), "{drawn}");
        assert_eq!(drawn.matches(">1</td>").count(), 2, "a column that may not move stays: {drawn}");
    }

    #[test]
    fn a_column_of_several_values_stays_and_so_does_one_row() {
        let drawn = shown(&[["a", "bus:x", "acme", "1"], ["b", "bus:x", "globex", "2"]]);
        assert!(drawn.contains("All: topic <b>bus:x</b></p>"), "{drawn}");
        assert!(drawn.contains("<td data-l=\"tenant\">globex</td>"), "{drawn}");
        let alone = shown(&[["a", "bus:x", "acme", "1"]]);
        assert!(!alone.contains("All: ") && alone.contains("<td class=\"mono\">bus:x</td>"), "{alone}");
    }

    #[test]
    fn a_second_line_moves_by_itself_and_is_a_column_where_its_first_has_moved() {
        const FIELDS: [Field; 3] =
            [Field::text("Id"), Field::text("State").moves("state"), Field::text("Kind").second_line().moves("kind")];
        let shown = |rows: &[[&str; 3]]| {
            let rows: Vec<[Markup; 3]> = rows.iter().map(|row| row.map(|text| html! { (foreign(text)) })).collect();
            list("Dead letters", &FIELDS, &rows, None).0
        };
        let kinds = shown(&[["a", "dead", "message"], ["b", "fenced", "saga"]]);
        assert!(kinds.contains("<td>dead<span class=\"sub\">message</span></td>"), "{kinds}");
        assert!(!kinds.contains(">Kind<") && !kinds.contains("All: "), "{kinds}");
        let one_kind = shown(&[["a", "dead", "message"], ["b", "fenced", "message"]]);
        assert!(one_kind.contains("All: kind <b>message</b></p>") && one_kind.contains("<td>dead</td>"), "{one_kind}");
        let one_state = shown(&[["a", "dead", "message"], ["b", "dead", "saga"]]);
        assert!(one_state.contains("All: state <b>dead</b></p>") && one_state.contains(">Kind<"), "{one_state}");
        assert!(one_state.contains("<td>saga</td>"), "{one_state}");
        let empty = shown(&[["a", "dead", ""], ["b", "fenced", "saga"]]);
        assert!(empty.contains("<td>dead</td>"), "a cell without a second line has none: {empty}");
        let without = shown(&[["a", "dead", ""], ["b", "fenced", ""]]);
        assert!(!without.contains("All: ") && !without.contains("sub"), "{without}");
        let alone = shown(&[["a", "dead", "message"]]);
        assert!(alone.contains("<td>dead<span class=\"sub\">message</span></td>"), "{alone}");
    }

    #[test]
    fn what_no_row_has_is_said_to_be_none() {
        let drawn = shown(&[["a", "x", "", "1"], ["b", "y", "", "2"]]);
        assert!(drawn.contains("All: tenant <b>none</b></p>"), "{drawn}");
    }
}
