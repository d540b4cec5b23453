//! What views are made of, one function each over closed types: states, tags, notes, boxes, tables, command lines.

use maud::{Markup, Render, html};

use crate::address;
use crate::icon::{self, Icon};
use crate::text::{Foreign, foreign};

/// The colour of a state, which comes third: shape and word say it without.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tone {
    Ok,
    Move,
    Hold,
    Dead,
    /// Being undone, or undone.
    Undo,
    /// Waiting for nothing that is wrong.
    Rest,
}

impl Tone {
    pub fn class(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Move => "move",
            Self::Hold => "hold",
            Self::Dead => "dead",
            Self::Undo => "undo",
            Self::Rest => "",
        }
    }
}

/// A state: its shape, its word, then its colour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct State<'a> {
    pub tone: Tone,
    pub shape: Icon,
    pub word: &'a str,
}

impl<'a> State<'a> {
    pub fn new(tone: Tone, shape: Icon, word: &'a str) -> Self {
        Self { tone, shape, word }
    }
}

/// In a line of text or a cell.
pub fn state(state: State<'_>) -> Markup {
    html! { span class={ "st " (state.tone.class()) } { (icon::shape(state.shape)) (foreign(state.word)) } }
}

/// On a ground of its own, once a view: of what the view is about.
pub fn tag(state: State<'_>) -> Markup {
    html! { span class={ "tag " (state.tone.class()) } { (icon::shape(state.shape)) (foreign(state.word)) } }
}

/// A sentence that answers before the tables do.
pub fn note(tone: Tone, shape: Icon, body: &Markup, acts: Option<&Markup>) -> Markup {
    html! {
        div class={ "note " (tone.class()) } {
            (icon::shape(shape))
            span { (body) }
            @if let Some(acts) = acts { span.acts { (acts) } }
        }
    }
}

/// Why a part isn't shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultKind {
    /// What was asked for can't be understood.
    Request,
    /// The caller's token isn't for it.
    NotAllowed,
    /// The host can't tell now.
    Failed,
}

/// A part that isn't shown, while the others stand.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    pub kind: FaultKind,
    pub code: String,
    pub detail: String,
    /// What to do about it.
    pub fix: String,
    /// Looking again makes sense.
    pub is_retryable: bool,
    pub request_id: String,
}

/// A part, or why it isn't shown.
pub type Part<T> = Result<T, Fault>;

/// An error code, with what is known of it a link away.
pub fn error_code(code: &str) -> Markup {
    match address::help(code) {
        Some(help) => html! { a href=(help) { code { (foreign(code)) } } },
        None => html! { code { (foreign(code)) } },
    }
}

/// What stands in the place of a part that isn't shown. `what` begins with a capital.
pub fn fault(what: &str, fault: &Fault) -> Markup {
    let Fault { kind, code, detail, fix, is_retryable, request_id } = fault;
    match kind {
        FaultKind::Request => note(Tone::Hold, Icon::Warn, &html! { (foreign(detail)) }, None),
        FaultKind::NotAllowed => html! {
            div.sheet.empty {
                (icon::shape(Icon::Fence))
                p.t { (what) ": your token may not look at this" }
                p { code { (foreign(code)) } " " (foreign(detail)) }
                p.acts { a.btn.bare href=(address::SIGN_IN) { "Sign in as another" } }
            }
        },
        FaultKind::Failed => html! {
            div.sheet.empty.bad {
                (icon::shape(Icon::Warn))
                p.t { (what) " can’t be shown now" }
                p { (error_code(code)) " " (foreign(detail)) " " (foreign(fix)) }
                p.q { "Request " span.mono { (foreign(request_id)) } }
                @if *is_retryable { p.acts { a.btn href="" { "Try now" } } }
            }
        },
    }
}

/// Nothing is there yet: the command that fills it.
pub fn first_run(shape: Icon, title: &str, text: &str, command: Option<&str>) -> Markup {
    html! {
        div.sheet.empty {
            (icon::small(shape))
            p.t { (title) }
            p { (text) }
            @if let Some(command) = command { (terminal(command)) }
        }
    }
}

/// Nothing matches; without the filter there may be something.
pub fn none_by_filter(what: &str, filter: &str, path: &str, has_more: bool) -> Markup {
    html! {
        div.sheet.empty {
            (icon::small(Icon::Find))
            @if has_more {
                p.t { "No " (what) " so far matches " code { (foreign(filter)) } }
                p { "Not all of them were looked at: go on with Older below. A tenant or an age makes it quick." }
            } @else {
                p.t { "No " (what) " matches " code { (foreign(filter)) } }
                p { a href=(path) { "Take the filter away" } }
            }
        }
    }
}

/// A line to run in a terminal.
pub fn terminal(command: &str) -> Markup {
    html! { pre.cmd tabindex="0" { (foreign(command)) } }
}

/// A value for a shell, in quotes where it needs them.
pub fn quoted(value: &str) -> String {
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "-_.:/=@,+".contains(letter);
    if !value.is_empty() && value.chars().all(is_plain) {
        return value.to_owned();
    }
    format!("'{}'", value.replace('\'', "'\\''"))
}

/// The same as what is shown, in a terminal.
pub fn in_a_terminal(command: &str) -> Markup {
    html! { section.section { header { h2 { "In a terminal" } } (terminal(command)) } }
}

/// A part of a view with its heading.
pub fn section(title: &str, about: Option<&Markup>, body: &Markup) -> Markup {
    html! {
        section.section {
            header { h2 { (title) } @if let Some(about) = about { p { (about) } } }
            (body)
        }
    }
}

/// How a column is laid out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Column {
    Text(&'static str),
    /// A number, to the right.
    Number(&'static str),
}

/// A table that becomes cards where it is narrow. Rows come as they are, `tr` by `tr`.
pub fn table(name: &str, columns: &[Column], rows: &Markup, foot: Option<&Markup>) -> Markup {
    headed(name, None, columns, rows, foot)
}

/// The same below what stands above its columns.
pub fn headed(
    name: &str,
    heading: Option<&Markup>,
    columns: &[Column],
    rows: &Markup,
    foot: Option<&Markup>,
) -> Markup {
    html! {
        div.sheet {
            @if let Some(heading) = heading { (heading) }
            div.scroll tabindex="0" role="region" aria-label=(name) {
                table.cards {
                    thead { tr {
                        @for column in columns {
                            @match column {
                                Column::Text(title) => { th scope="col" { (title) } }
                                Column::Number(title) => { th.num scope="col" { (title) } }
                            }
                        }
                    } }
                    tbody { (rows) }
                }
            }
            @if let Some(foot) = foot { p.more { (foot) } }
        }
    }
}

/// The foot of a list: how much is shown, and the way on.
pub fn pager(shown: usize, older: Option<&str>) -> Markup {
    html! {
        span { (shown) " shown" }
        @if let Some(older) = older { span.acts { a href=(older) { "Older" } } }
    }
}

/// Names with values, in the order given.
pub fn facts(rows: &[(&str, Markup)]) -> Markup {
    html! {
        dl.kv {
            @for (name, value) in rows { dt { (name) } dd { (value) } }
        }
    }
}

/// Ways to look at the same, the present one among them.
pub fn tabs(name: &str, ways: &[(&str, String, bool)]) -> Markup {
    html! {
        nav.tabs aria-label=(name) {
            @for (word, address, is_present) in ways {
                a href=(address) aria-current=[is_present.then_some("page")] { (word) }
            }
        }
    }
}

/// The filter of a list. `kept` are further members of the address.
pub fn filter(path: &str, filter: &str, hint: &str, kept: &[(&str, &str)]) -> Markup {
    html! {
        form.section action=(path) {
            @for (name, value) in kept.iter().filter(|(_, value)| !value.is_empty()) {
                input type="hidden" name=(name) value=(value);
            }
            div.filter {
                input #filter type="text" name="filter" aria-label="Filter" value=(filter) placeholder=(hint)
                    spellcheck="false" autocapitalize="off" autocomplete="off";
                button.btn.main { "Filter" }
            }
        }
    }
}

/// A filter that narrows, as a link.
pub fn chip(word: &str, value: &str, address: &str) -> Markup {
    html! { a.chip href=(address) { (foreign(word)) " " b { (foreign(value)) } } }
}

/// A thing's id as a link; the beginning goes where the place is narrow.
pub fn id_link(address: &str, id: &str) -> Markup {
    let tail = id.char_indices().rev().nth(7).map_or(0, |(at, _)| at);
    let (head, tail) = id.split_at_checked(tail).unwrap_or(("", id));
    html! {
        a.id.cut[!head.is_empty()] href=(address) title=(crate::text::for_attribute(id)) {
            @if !head.is_empty() { i.h { (foreign(head)) } }
            (foreign(tail))
        }
    }
}

/// A text that machines read, or a dash.
pub fn mono(text: Option<&str>) -> Markup {
    match text {
        Some(text) => html! { span.mono { (Foreign(text)) } },
        None => html! { span.q { "none" } },
    }
}

/// Markup of something that renders, for rows of [`facts`].
pub fn of(value: impl Render) -> Markup {
    value.render()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_for_a_shell_stand_in_quotes_where_they_need_them() {
        assert_eq!(quoted("code=NATS.HEADER"), "code=NATS.HEADER");
        assert_eq!(quoted("age>1h it's"), "'age>1h it'\\''s'");
        assert_eq!(quoted(""), "''");
    }

    #[test]
    fn a_short_id_is_shown_whole() {
        assert!(!id_link("/ui", "m-1").0.contains("<i"));
        let long = id_link("/ui", "01KB2M3Q9WZ4T7XHJ6A0R5D8CE").0;
        assert!(long.contains("<i class=\"h\">01KB2M3Q9WZ4T7XHJ6</i>A0R5D8CE"), "{long}");
    }
}
