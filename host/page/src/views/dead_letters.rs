//! Dead letters: groups by cause, and the list.

use maud::{Markup, html};
use waybill_api::dead_letters::{DeadGroupView, DeadLetterView};
use waybill_api::history::Changed;
use waybill_api::instant::Instant;
use waybill_api::operations::LastReplayView;
use waybill_core::port::dead::DeadKind;
use waybill_core::port::service::MessageState;

use super::causes::grows;
use super::hour::Changes;
use super::{Asked, Rows, Saved};
use crate::acts::{self, Act, Pick};
use crate::address::{self, condition};
use crate::chart::sparkline;
use crate::frame::head;
use crate::icon::Icon;
use crate::list::{Field, list};
use crate::parts::{
    Column, Part, Tone, chip, fault, first_run, id_link, in_a_terminal, none_by_filter, of, section, state, table,
};
use crate::states::of_message;
use crate::text::{count, counted, for_attribute, foreign, shortened};
use crate::time::AsOf;

/// Other causes that are told where nothing matches.
const OTHERS_MAX: usize = 5;
/// Letters of an error in a list.
const ERROR_LETTERS: usize = 160;

/// Dead letters, by cause and newest first.
#[derive(Clone, Debug)]
pub struct DeadLetters {
    pub asked: Asked,
    /// Lower bounds, if there are more than are counted.
    pub groups: Part<(Vec<DeadGroupView>, Option<Instant>)>,
    pub rows: Part<Rows<DeadLetterView>>,
    pub changes: Part<Changed>,
    /// What there is without the filter, where nothing matches it.
    pub others: Vec<DeadGroupView>,
}

/// Dead letters, by cause and newest first.
pub fn dead_letters(view: &DeadLetters, as_of: AsOf) -> Markup {
    let asked = &view.asked;
    html! {
        (head(&html! { "Dead letters" }, &html! { p { "Stopped for good: nothing here is tried again by itself." } }, Some(&on_all(asked))))
        (asked.form(address::DEAD_LETTERS, "code=HTTP.* error=\"*answered 422*\" kind=message age<1d", as_of))
        @match &view.rows {
            Err(why) => { (fault("Dead letters", why)) }
            Ok(rows) if rows.items.is_empty() && rows.older.is_none() && asked.filter.is_empty() && !asked.is_further => {
                (first_run(Icon::Done, "No dead letter", "Everything was delivered, or still will be.", None))
            }
            Ok(rows) if rows.items.is_empty() => {
                (none_by_filter("dead letter", &asked.filter, address::DEAD_LETTERS, rows.older.is_some()))
                (there_are(asked, &view.others))
                @if let Some(older) = &rows.older { p.more { a href=(older) { "Older" } } }
            }
            Ok(rows) => {
                @if !asked.is_further { (causes(view, as_of)) }
                (section("Newest first", None, &html! {
                    form action=(address::PLAN) {
                        (list("Dead letters", &FIELDS, &shown(&rows.items, as_of),
                            Some(&asked.foot(Saved("dead-letters"), rows.items.len(), rows.older.as_deref()))))
                        (on_picked(asked))
                    }
                }))
            }
        }
        (in_a_terminal(&asked.command("dead list")))
    }
}

/// What is there where a filter finds nothing, the most first.
fn there_are(asked: &Asked, others: &[DeadGroupView]) -> Markup {
    if others.is_empty() {
        return html! {};
    }
    let total: u64 = others.iter().map(|group| group.count).sum();
    html! {
        p.chips {
            span.q { (counted(total, "dead letter has another cause", "dead letters have other causes")) ":" }
            @for group in others.iter().take(OTHERS_MAX) {
                (chip(&group.code, &count(group.count), &asked.with_filter(address::DEAD_LETTERS, &condition("code", &group.code))))
            }
        }
    }
}

/// What can be done to all that the filter takes.
fn on_all(asked: &Asked) -> Markup {
    asked.on_all(&[Act::DeadReplay, Act::DeadQuarantine, Act::DeadPurge])
}

/// What can be done to rows that are picked. It stands below them, so that it works without script.
fn on_picked(asked: &Asked) -> Markup {
    html! {
        @if asked.may.has(Act::DeadReplay.about().right) {
            div.picked {
                b { "Picked rows" }
                @for act in [Act::DeadReplay, Act::DeadQuarantine] {
                    button.btn name="act" value=(act.about().name) { (act.about().word) "…" }
                }
            }
        }
    }
}

fn causes(view: &DeadLetters, as_of: AsOf) -> Markup {
    let asked = &view.asked;
    let (groups, since) = match &view.groups {
        Err(why) => return section("By cause", None, &fault("The groups", why)),
        Ok((groups, since)) => (groups, since),
    };
    let items = view.changes.as_ref().map_or(&[][..], |changed| changed.items.as_slice());
    let changes = Changes::new(items, None);
    let total: u64 = groups.iter().map(|group| group.count).sum();
    let about = html! {
        (count(total)) @if since.is_some() { "+" } " in " (groups.len()) " groups; a group is tenant, code and error text without its numbers and quoted parts"
        @if let Some(since) = since { "; of what is older than " (as_of.at(*since)) " nothing was counted" }
    };
    let columns = [
        Column::Text("Cause"),
        Column::Text("Where"),
        Column::Number("Dead"),
        Column::Text("Hour"),
        Column::Text("First"),
        Column::Text("Latest"),
    ];
    let rows = html! { @for group in groups {
        tr {
            th.full scope="row" {
                a href=(asked.narrowed(address::DEAD_LETTERS, &condition("code", &group.code))) { code { (foreign(&group.code)) } }
                span.sub { (foreign(&shortened(&group.signature, ERROR_LETTERS))) }
                @if let Some(replay) = &group.last_replay { (last_replay(replay, as_of)) }
                span.sub { (changes.before(group.first_at)) }
            }
            td { (foreign(&group.tenant)) span.sub.mono { (foreign(&group.topic)) } }
            td.num.end { b { (count(group.count)) @if since.is_some() { "+" } } }
            td.opt { (hour(group, as_of)) }
            td.nw data-l="first" { (as_of.at(group.first_at)) }
            td.nw data-l="latest" { (as_of.at(group.latest_at)) @if grows(group, as_of) { " " span.c-dead { "grows" } } }
        }
    } };
    section("By cause", Some(&about), &table("By cause", &columns, &rows, None))
}

/// When a group died within the hour; nothing where none of it did.
fn hour(group: &DeadGroupView, as_of: AsOf) -> Markup {
    if group.hour.is_empty() {
        return html! {};
    }
    let died: u64 = group.hour.iter().flatten().sum();
    html! {
        (sparkline(&group.hour, if grows(group, as_of) { Tone::Dead } else { Tone::Rest }))
        span.vh { (count(died)) " died within the hour" }
    }
}

/// What became of the latest replay of a group. Its numbers are those of the operation, which may have put back others as well.
fn last_replay(replay: &LastReplayView, as_of: AsOf) -> Markup {
    let fate = &replay.fate;
    html! {
        span.sub {
            a href=(acts::operation(&replay.operation)) { "Replayed at " (as_of.at(replay.at)) }
            @if !replay.actor.is_empty() { " by " (foreign(&replay.actor)) }
            ": " (count(fate.put_back)) " put back, " (count(fate.delivered)) " delivered, "
            @if fate.died_again > 0 { b.c-dead { (count(fate.died_again)) " died again" } } @else { "none died again" }
            @if fate.on_the_way > 0 { ", " (count(fate.on_the_way)) " on their way" }
            @if fate.ended_otherwise > 0 { ", " (count(fate.ended_otherwise)) " ended otherwise" }
            @if fate.not_followed > 0 { ", " (count(fate.not_followed)) " not followed" }
            @if replay.running { ", " (count(replay.to_go)) " to go" }
            @if replay.groups > 1 { "; of " (replay.groups) " groups together" }
        }
    }
}

const FIELDS: [Field; 8] = [
    Field::text("Pick"),
    Field::text("Id"),
    Field::text("State").class("end").moves("state"),
    Field::text("Kind").second_line().moves("kind"),
    Field::text("Of").class("mono").moves("of"),
    Field::text("Error").class("full").moves("error"),
    Field::text("Tenant").label("tenant").moves("tenant"),
    Field::number("Died"),
];

/// What a row of the list shows, of whichever kind.
struct DeadRow<'a> {
    address: String,
    id: &'a str,
    kind: &'static str,
    /// The same as a word of filters.
    word: DeadKind,
    state: MessageState,
    what: &'a str,
    error: &'a str,
    tenant: &'a str,
    ended_at: Option<Instant>,
}

impl<'a> DeadRow<'a> {
    fn pick(&self) -> Pick {
        Pick { tenant: self.tenant.to_owned(), id: self.id.to_owned(), kind: self.word.word().to_owned() }
    }

    fn of(letter: &'a DeadLetterView) -> Self {
        match letter {
            DeadLetterView::Message(message) => Self {
                address: address::message(&message.tenant, &message.id),
                id: &message.id,
                kind: "message",
                word: DeadKind::Message,
                state: message.state,
                what: &message.topic,
                error: message.last_error.as_deref().unwrap_or_default(),
                tenant: &message.tenant,
                ended_at: message.ended_at,
            },
            DeadLetterView::Saga(saga) => Self {
                address: address::saga(&saga.tenant, &saga.id),
                id: &saga.id,
                kind: "saga",
                word: DeadKind::Saga,
                state: saga.state,
                what: &saga.step,
                error: &saga.last_error,
                tenant: &saga.tenant,
                ended_at: Some(saga.ended_at),
            },
            DeadLetterView::Inbox(inbox) => Self {
                address: address::dead_letter(&inbox.tenant, &inbox.id, DeadKind::Inbox),
                id: &inbox.id,
                kind: "received",
                word: DeadKind::Inbox,
                state: inbox.state,
                what: &inbox.subject,
                error: &inbox.last_error,
                tenant: &inbox.tenant,
                ended_at: Some(inbox.ended_at),
            },
            DeadLetterView::Event(event) => Self {
                address: address::dead_letter(&event.tenant, &event.id, DeadKind::Event),
                id: &event.id,
                kind: "event",
                word: DeadKind::Event,
                state: event.state,
                what: &event.stream,
                error: &event.last_error,
                tenant: &event.tenant,
                ended_at: Some(event.ended_at),
            },
        }
    }
}

fn shown(items: &[DeadLetterView], as_of: AsOf) -> Vec<[Markup; 8]> {
    items.iter().map(|letter| dead_row(letter, as_of)).collect()
}

fn dead_row(letter: &DeadLetterView, as_of: AsOf) -> [Markup; 8] {
    let row = DeadRow::of(letter);
    [
        html! { input type="checkbox" name="pick" value=(row.pick().text()) aria-label=(format!("Pick {}", for_attribute(row.id))); },
        id_link(&row.address, row.id),
        state(of_message(row.state)),
        html! { (row.kind) },
        of(foreign(row.what)),
        of(foreign(&shortened(row.error, ERROR_LETTERS))),
        of(foreign(row.tenant)),
        as_of.maybe(row.ended_at),
    ]
}

#[cfg(test)]
mod tests {
    use waybill_core::time::UnixMillis;

    use super::*;

    const NOW: u64 = 1_700_000_000_000;

    fn group(hour: Vec<Option<u64>>, latest_ago: u64) -> DeadGroupView {
        DeadGroupView {
            kind: DeadKind::Message,
            tenant: "acme".into(),
            code: "HTTP.422".into(),
            signature: "answered #".into(),
            topic: "bus:orders".into(),
            count: 9,
            first_at: Instant(UnixMillis(NOW - 7_200_000)),
            latest_at: Instant(UnixMillis(NOW - latest_ago)),
            hour,
            example: "d-1".into(),
            last_replay: None,
        }
    }

    fn drawn(group: DeadGroupView) -> String {
        let now = Instant(UnixMillis(NOW));
        let view = DeadLetters {
            asked: Asked::default(),
            groups: Ok((vec![group], None)),
            rows: Ok(Rows { items: Vec::new(), older: None }),
            changes: Ok(Changed { since: now, items: Vec::new() }),
            others: Vec::new(),
        };
        causes(&view, AsOf(now.0)).0
    }

    #[test]
    fn a_group_shows_its_hour_and_says_whether_it_grows() {
        let grows = drawn(group(vec![None, Some(0), Some(3), Some(1)], 5_000));
        for part in ["class=\"spark dead\"", "4 died within the hour", ">grows</span>"] {
            assert!(grows.contains(part), "{part}: {grows}");
        }
        let rests = drawn(group(vec![Some(4), Some(0)], 3_000_000));
        assert!(rests.contains("class=\"spark ") && !rests.contains("spark dead"), "{rests}");
        assert!(!rests.contains("grows"), "{rests}");
        let before = drawn(group(Vec::new(), 7_000_000));
        assert!(!before.contains("spark") && !before.contains("within the hour"), "{before}");
    }
}
