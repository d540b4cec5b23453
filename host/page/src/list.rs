//! Lists of things of one kind, a row each. A value that all rows have stands once, above them, and its column is left out.

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
}

impl Field {
    pub const fn text(title: &'static str) -> Self {
        Self { column: Column::Text(title), class: "", label: None, word: None, is_name: false }
    }

    /// A number or an instant, to the right, on one line.
    pub const fn number(title: &'static str) -> Self {
        Self { column: Column::Number(title), class: "num nw", label: None, word: None, is_name: false }
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
    let columns: Vec<(&Field, Option<(&str, &Markup)>)> =
        fields.iter().enumerate().map(|(at, field)| (field, field.word.zip(same(rows, at)))).collect();
    let moved: Vec<(&str, &Markup)> = columns.iter().filter_map(|(_, moved)| *moved).collect();
    let kept: Vec<Column> =
        columns.iter().filter(|(_, moved)| moved.is_none()).map(|(field, _)| field.column).collect();
    let body = html! { @for row in rows {
        tr tabindex="-1" {
            @for ((field, moved), cell) in columns.iter().zip(row) {
                @if moved.is_none() { (field.cell(cell)) }
            }
        }
    } };
    let heading = (!moved.is_empty()).then(|| of_all(&moved));
    headed(name, heading.as_ref(), &kept, &body, foot)
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
    fn what_no_row_has_is_said_to_be_none() {
        let drawn = shown(&[["a", "x", "", "1"], ["b", "y", "", "2"]]);
        assert!(drawn.contains("All: tenant <b>none</b></p>"), "{drawn}");
    }
}
