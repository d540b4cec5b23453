//! Idempotency keys: the list, and one.

use maud::{Markup, html};
use waybill_api::idempotency::{KeyOutcome, KeyState, KeyView};

use super::{Asked, Rows, Saved, option};
use crate::acts::{self, Act, May, Target};
use crate::address;
use crate::frame::head;
use crate::icon::Icon;
use crate::list::{Field, list};
use crate::parts::{
    Part, error_code, facts, fault, first_run, id_link, in_a_terminal, mono, none_by_filter, note, of, quoted, section,
    state, tag,
};
use crate::payload;
use crate::states::of_key;
use crate::text::{count, foreign, or_none, shortened};
use crate::time::AsOf;

/// Letters of an error or a hash in a list.
const BRIEF_LETTERS: usize = 80;

/// The list of keys.
#[derive(Clone, Debug)]
pub struct Keys {
    pub asked: Asked,
    pub rows: Part<Rows<KeyView>>,
}

/// The list of keys.
pub fn keys(view: &Keys, as_of: AsOf) -> Markup {
    let asked = &view.asked;
    html! {
        (head(&html! { "Idempotency keys" }, &html! { p { "What is done under a key is done once: who asks again is told what came of it." } }, None))
        form.section action=(address::IDEMPOTENCY) {
            div.filter {
                input type="hidden" name="tenant" value=(asked.tenant);
                input type="text" name="key" aria-label="One key, as its caller chose it" placeholder="order-17" spellcheck="false" autocapitalize="off" autocomplete="off";
                button.btn { "Look up a key" }
            }
        }
        (asked.form(address::IDEMPOTENCY, "key=order-* state=in_flight age>1h", as_of))
        @match &view.rows {
            Err(why) => { (fault("Idempotency keys", why)) }
            Ok(rows) if rows.items.is_empty() && rows.older.is_none() && asked.filter.is_empty() && !asked.is_further => {
                (first_run(Icon::Key, "No key yet", "A request with an Idempotency-Key header has one, and so has whoever begins one.",
                    Some("curl -X POST -H 'Idempotency-Key: order-17' -H 'content-type: application/json' -d '{\"messages\":[]}' http://127.0.0.1:7070/v1/messages")))
            }
            Ok(rows) if rows.items.is_empty() => {
                (none_by_filter("key", &asked.filter, address::IDEMPOTENCY, rows.older.is_some()))
                @if let Some(older) = &rows.older { p.more { a href=(older) { "Older" } } }
            }
            Ok(rows) => {
                @let shown: Vec<_> = rows.items.iter().map(|key| key_row(key, as_of)).collect();
                (list("Idempotency keys", &FIELDS, &shown, Some(&asked.foot(Saved("idempotency"), shown.len(), rows.older.as_deref()))))
            }
        }
        (in_a_terminal(&asked.command("idempotency list")))
    }
}

const FIELDS: [Field; 6] = [
    Field::text("Key"),
    Field::text("State").class("end").moves("state"),
    Field::number("Begun").class("num opt").moves("begun"),
    Field::text("Answered").class("full").moves("answered"),
    Field::text("Tenant").label("tenant").moves("tenant"),
    Field::number("Changed"),
];

fn key_row(key: &KeyView, as_of: AsOf) -> [Markup; 6] {
    [
        id_link(&address::key(&key.tenant, &key.key), &key.key),
        html! { (state(of_key(key.state))) @if let Some(until) = key.lease_until { span.sub { "reserved until " (as_of.at(until)) } } },
        html! { (key.begun) },
        html! { @if let Some(outcome) = &key.outcome { (brief(outcome)) } },
        of(foreign(&key.tenant)),
        as_of.at(key.changed_at),
    ]
}

fn brief(outcome: &KeyOutcome) -> Markup {
    html! {
        @if let Some(status) = outcome.status { (status) " " }
        @if let Some(code) = &outcome.code { (error_code(code)) " " }
        @if let Some(error) = &outcome.error { (foreign(&shortened(error, BRIEF_LETTERS))) }
    }
}

pub fn idempotency_key(key: &KeyView, may: May, as_of: AsOf) -> Markup {
    let under = html! { p.meta { (tag(of_key(key.state))) span { "tenant " (foreign(&key.tenant)) } } };
    let release = acts::link(Act::KeyRelease, &Target::one(&key.tenant, &key.key), may);
    html! {
        div { p.crumb { a href=(address::IDEMPOTENCY) { "Idempotency keys" } } (head(&html! { (foreign(&key.key)) }, &under, Some(&release))) }
        (answer(key, as_of))
        (section("Facts", None, &html! { div.sheet.pad { (facts(&rows(key, as_of))) } }))
        @if let Some(outcome) = &key.outcome { (came_of(outcome)) }
        (in_a_terminal(&format!("waybill idempotency show {}{}", quoted(&key.key), option("tenant", &key.tenant))))
    }
}

/// What is so, and what happens by itself.
fn answer(key: &KeyView, as_of: AsOf) -> Markup {
    let of_state = of_key(key.state);
    let text = match key.state {
        KeyState::New | KeyState::InFlight => html! {
            b { "Somebody is at it" @if let Some(until) = key.lease_until { ", until " (as_of.at(until)) " at the latest" } "." }
            " Who asks meanwhile is told to wait. Then the next one who asks does it."
        },
        KeyState::Succeeded => {
            html! { b { "Done since " (as_of.exactly(key.changed_at)) "." } " Who asks again gets the same answer until " (as_of.at(key.until)) "." }
        }
        KeyState::Failed => {
            html! { b { "Failed for good at " (as_of.exactly(key.changed_at)) "." } " Who asks again is told so until " (as_of.at(key.until)) "." }
        }
        KeyState::Released => html! { b { "Free." } " Nothing was done under it." },
    };
    note(of_state.tone, of_state.shape, &text, None)
}

fn rows(key: &KeyView, as_of: AsOf) -> Vec<(&'static str, Markup)> {
    vec![
        ("Begun", html! { (key.begun) " times" @if key.begun > 1 { ", so a holder before may have done something" } }),
        ("First begun", as_of.exactly(key.created_at)),
        ("Changed", as_of.exactly(key.changed_at)),
        ("Forgotten", as_of.at(key.until)),
        ("Of the request", mono(Some(&key.hash))),
    ]
}

fn came_of(outcome: &KeyOutcome) -> Markup {
    let mut rows = Vec::new();
    rows.extend(outcome.status.map(|status| ("Status", of(status))));
    rows.extend(outcome.code.as_deref().map(|code| ("Code", error_code(code))));
    rows.extend(outcome.error.as_deref().map(|error| ("Error", or_none(Some(error)))));
    rows.extend(outcome.bytes.map(|bytes| ("Size", html! { (count(bytes)) " bytes" })));
    rows.extend(outcome.sha256.as_deref().map(|hash| ("SHA-256", mono(Some(hash)))));
    html! {
        (section("What came of it", None, &html! { div.sheet.pad { (facts(&rows)) } }))
        @match &outcome.result {
            Some(json) => {
                @let shown = if json.get().len() <= payload::SHOWN_MAX { payload::readable(json.get()) } else { payload::raw(json.get().as_bytes()) };
                (section("Its answer", None, &payload::boxed("Its answer", &html! {}, &shown, "Numbers are shown as written.")))
            }
            None if outcome.bytes.is_some() => { p.q { "The answer itself isn’t shown: only its digest is kept, or your token may not see it." } }
            None => {}
        }
    }
}
