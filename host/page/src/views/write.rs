//! An act that makes something of what is written: its form, then its plan. An address is no place for a payload: that of a plan has the
//! name under which the host keeps what is written.

mod original;

use maud::{Markup, html};

use super::given::Given;
use super::option;
use super::plan::{not_allowed, place, refused, tick};
use crate::acts::{Act, Entry, FORM, Form, Input, May, Reach, Target, hidden};
use crate::address;
use crate::frame::head;
use crate::icon::Icon;
use crate::parts::{Column, Fault, quoted, section, table, terminal};
use crate::payload;
use crate::text::{ForeignLines, foreign, or_none};

pub use original::Original;

/// The list of names that an entry offers.
const OFFERED: &str = "offered";
/// Lines that a payload has on the page while it is written.
const PAYLOAD_ROWS: u8 = 10;
/// The same of headers.
const HEADER_ROWS: u8 = 3;

/// An act that makes something of what is written.
#[derive(Clone, Debug)]
pub struct Write {
    pub act: Act,
    pub target: Target,
    /// What is written so far.
    pub given: Given,
    /// Of an edit: what there is.
    pub original: Option<Original>,
    /// Names that are there to be meant.
    pub offered: Vec<String>,
    /// What is known of it before it is done. None = it is still written.
    pub plan: Option<Vec<(&'static str, String)>>,
    /// What the caller may do.
    pub may: May,
    /// None = the caller may not do it, or has no session.
    pub form: Option<Form>,
    /// Why the last try came to nothing.
    pub refusal: Option<Fault>,
}

impl Write {
    fn title(&self) -> String {
        let about = self.act.about();
        if about.reach == Reach::New {
            about.word.to_owned()
        } else {
            format!("{}: {}", about.word, about.on.nouns().0)
        }
    }

    /// What an entry says, or begins with.
    fn text(&self, name: &str) -> &str {
        if self.given.has(name) {
            return self.given.text(name);
        }
        match (&self.original, name) {
            (Some(original), _) => original.texts.text(name),
            (None, "tenant") => &self.target.tenant,
            (None, "stream") => &self.target.stream,
            (None, _) => "",
        }
    }

    fn why_kept(&self, entry: &Entry) -> Option<&str> {
        self.original.as_ref().and_then(|original| original.why_kept(entry.name))
    }

    fn command(&self) -> String {
        let Target { id, tenant, .. } = &self.target;
        let (id, tenant) = if self.original.is_some() { (id.as_str(), tenant.as_str()) } else { ("", "") };
        self.act.written_command(id, tenant, &self.given, self.original.as_ref())
    }

    /// Where it is looked at.
    fn back(&self) -> String {
        let Target { tenant, id, kind, stream, .. } = &self.target;
        match self.act {
            Act::StreamAppend if stream.is_empty() => address::with(address::STREAMS, &[("tenant", tenant)]),
            Act::StreamAppend => address::stream(tenant, stream),
            act => place(act, tenant, id, kind, ""),
        }
    }
}

/// Its form, or its plan.
pub fn write(view: &Write) -> Markup {
    let title = view.title();
    let text = if view.plan.is_some() {
        html! { p { "A plan: nothing has happened yet." } }
    } else {
        html! { p { "A plan comes first: nothing happens before it." } }
    };
    html! {
        (head(&html! { (title) }, &text, None))
        @if let Some(refusal) = &view.refusal { (refused(refusal)) }
        @if view.form.is_none() { (not_allowed(view.act, view.may)) }
        form.sheet.plan method="post" action=(view.target.address(view.act)) aria-label=(title) {
            @if let Some(form) = &view.form { (hidden(form)) }
            @match &view.plan {
                None => { (written(view)) }
                Some(known) => { (planned(view, known)) }
            }
            footer { (buttons(view)) }
        }
        @if view.plan.is_some() { (compared(view)) }
    }
}

/// What the address of a plan shows that was done.
pub fn carried_out(act: Act, to: &str) -> Markup {
    let text = html! { p { "This plan was carried out. It isn’t done a second time." } };
    let way = html! { a.btn.main href=(to) { "Show what came of it" } };
    head(&html! { (act.about().done) }, &text, Some(&way))
}

/// What the address of a plan shows of which the host has nothing any more; where it is written anew.
pub fn not_kept(act: Act, target: &Target, why: &Fault) -> Markup {
    let ways = html! {
        a.btn.main href=(target.address(act)) { "Write it anew" }
        a.btn href=(address::AUDIT) { "Audit trail" }
    };
    let text = html! { p { (foreign(&why.detail)) } };
    head(&html! { "This plan isn’t kept any more" }, &text, Some(&ways))
}

fn written(view: &Write) -> Markup {
    let (long, short): (Vec<&Entry>, Vec<&Entry>) =
        view.act.entries().iter().partition(|entry| matches!(entry.input, Input::Lines | Input::Headers));
    html! {
        // An edit's id is made once: what was sent in vain is sent again under the same.
        @if view.original.is_some() { (carried(view.act.id_entry(), &view.given)) }
        div.body {
            div.fields { @for entry in short { (field(view, entry)) } }
            div.fields {
                @for entry in long { (field(view, entry)) }
                @if view.original.is_some() {
                    label { "Reason" small { "kept in the audit trail" }
                        input type="text" name="reason" value=(view.text("reason")) autocomplete="off" spellcheck="false"; }
                }
            }
            div.fields {
                p.hint { (view.act.about().effect) }
                @if let Some(original) = &view.original { (hidden_headers(original)) }
                p.t { "The same in a terminal" } (terminal(&view.command()))
            }
        }
        @if !view.offered.is_empty() {
            datalist id=(OFFERED) { @for name in &view.offered { option value=(name) {} } }
        }
    }
}

fn hidden_headers(original: &Original) -> Markup {
    html! { @if !original.hidden_headers.is_empty() {
        p.hint { "Headers with credentials aren’t shown, and stay: " (foreign(&original.hidden_headers.join(", "))) "." }
    } }
}

fn field(view: &Write, entry: &Entry) -> Markup {
    if let Some(why) = view.why_kept(entry) {
        return kept(view, entry, why);
    }
    let value = view.text(entry.name);
    let Entry { name, title, hint, input, .. } = *entry;
    let line = |list: Option<&str>, is_needed: bool| {
        html! { input type="text" name=(name) value=(value) list=[list] required[is_needed] autocomplete="off" spellcheck="false"; }
    };
    // The first line end within it isn't shown, so one is put there.
    let lines = |rows: u8| html! { textarea name=(name) rows=(rows) spellcheck="false" { "\n" (value) } };
    let number = |least: &str| html! { input type="number" name=(name) value=(value) min=(least) autocomplete="off"; };
    let control = match input {
        Input::Switch => {
            return html! { label.row { input type="checkbox" name=(name) value="yes" checked[!value.is_empty()]; (title) } };
        }
        Input::Text => line(None, false),
        Input::Needed => line(None, true),
        Input::Offered => line((!view.offered.is_empty()).then_some(OFFERED), true),
        Input::Number => number("0"),
        Input::Seconds => number("1"),
        Input::Lines => lines(PAYLOAD_ROWS),
        Input::Headers => lines(HEADER_ROWS),
        Input::Choice(ways) => html! {
            select name=(name) { @for way in ways { option value=(way) selected[value == *way] { (way) } } }
        },
    };
    html! { label { (title) small { (hint) } (control) } }
}

/// An entry that stays as it is; a payload is edited in a terminal.
fn kept(view: &Write, entry: &Entry, why: &str) -> Markup {
    html! {
        div {
            p.t { (entry.title) }
            p.hint { "It stays as it is here: " (why) "." }
            @if entry.input == Input::Lines {
                p.hint { "Another takes its place in a terminal:" }
                (terminal(&format!("waybill dead edit {}{} --raw --file FILE", quoted(&view.target.id), option("tenant", &view.target.tenant))))
            }
        }
    }
}

/// A member of the form that isn't shown.
fn carried(name: &str, given: &Given) -> Markup {
    html! { @if given.has(name) { input type="hidden" name=(name) value=(given.text(name)); } }
}

fn planned(view: &Write, known: &[(&'static str, String)]) -> Markup {
    let id = view.act.id_entry();
    html! {
        div.body {
            div.fields {
                ul.ticks {
                    @if view.original.is_some() {
                        (tick(Icon::Done, "", &html! { "Of " span.mono { (foreign(&view.target.id)) } }))
                        (tick(Icon::Done, "", &html! { "The copy’s id is " span.mono { (foreign(view.given.text(id))) } }))
                    }
                    @for (name, value) in known { (tick(Icon::Done, "", &html! { (name) " " b { (foreign(value)) } })) }
                    @if view.given.is_set("reason") {
                        (tick(Icon::Done, "", &html! { "Reason: “" (foreign(view.given.text("reason"))) "”" }))
                    }
                }
                p.hint { (view.act.about().effect) }
                @if let Some(original) = &view.original { (hidden_headers(original)) }
            }
            div.fields { p.t { "The same in a terminal" } (terminal(&view.command())) }
        }
    }
}

/// What is written; of an edit beside what there is.
fn compared(view: &Write) -> Markup {
    let entries = view.act.entries().iter();
    match &view.original {
        None => {
            let rows = html! { @for entry in entries.filter(|entry| view.given.is_set(entry.name)) {
                tr { th scope="row" { (entry.title) } td.full { (value(entry, &view.given.lines(entry.name))) } }
            } };
            let columns = [Column::Text("Part"), Column::Text("As it is written")];
            section("What is made", None, &table("What is made", &columns, &rows, None))
        }
        Some(original) => {
            let rows = html! { @for entry in entries { (difference(entry, original, &view.given)) } };
            let columns = [Column::Text("Part"), Column::Text("Before"), Column::Text("After")];
            section("What changes", None, &table("What changes", &columns, &rows, None))
        }
    }
}

fn difference(entry: &Entry, original: &Original, given: &Given) -> Markup {
    html! {
        tr {
            th scope="row" { (entry.title) }
            td data-l="before" {
                @match original.why_kept(entry.name) {
                    Some(why) => { span.q { "stays: " (why) } }
                    None => { (value(entry, original.texts.text(entry.name))) }
                }
            }
            td data-l="after" {
                @if original.is_changed(entry.name, given) { (value(entry, &given.lines(entry.name))) }
                @else { span.q { "as before" } }
            }
        }
    }
}

fn value(entry: &Entry, text: &str) -> Markup {
    match entry.input {
        _ if text.is_empty() => or_none(None),
        Input::Lines => {
            html! { pre tabindex="0" role="region" aria-label=(entry.title) { (payload::raw(text.as_bytes())) } }
        }
        Input::Headers => html! { pre tabindex="0" role="region" aria-label=(entry.title) { (ForeignLines(text)) } },
        _ => html! { span.mono { (foreign(text)) } },
    }
}

fn buttons(view: &Write) -> Markup {
    let word = view.act.about().word;
    html! {
        @if view.form.is_none() {
            span.btn role="link" aria-disabled="true" { (word) span.hint { (view.may.lack(view.act.about().right)) } }
        } @else if view.plan.is_some() {
            button.btn.main { @if view.original.is_some() { "Send the edited copy" } @else { (word) } }
            a.btn href=(Target { show: FORM.to_owned(), ..view.target.clone() }.address(view.act)) { "Change it" }
        } @else {
            button.btn.main { "Plan it" }
        }
        a.btn.bare href=(view.back()) { "Leave it" }
    }
}
