//! The inbox: its sources, its consumers, what waits; and one received message.

use maud::{Markup, html};
use waybill_api::inbox::{ConsumerStats, ContextStats, InboxMessageView, InboxStats, InboxStatusView};
use waybill_api::instant::Instant;
use waybill_api::sources::{Publish, SourceView};
use waybill_core::inbox::records::InboxEnd;
use waybill_core::port::dead::DeadKind;

use super::{Asked, Rows, Saved, is_secret, option};
use crate::acts::{self, Act, May, Target};
use crate::address::{self, condition};
use crate::frame::head;
use crate::icon::Icon;
use crate::list::{Field, list};
use crate::parts::{
    Column, Part, State, Tone, facts, fault, first_run, id_link, in_a_terminal, mono, none_by_filter, note, of, quoted,
    section, state, table, tag,
};
use crate::payload;
use crate::states::{of_received, of_source};
use crate::text::{NONE, count, counted, foreign, or_none, shortened};
use crate::time::AsOf;

/// Letters of an error in a list.
const ERROR_LETTERS: usize = 160;

#[derive(Clone, Debug)]
pub struct Inbox {
    pub asked: Asked,
    /// None = the host has no sources, and so no inbox.
    pub parts: Option<InboxParts>,
}

/// What an inbox has; each part stands by itself.
#[derive(Clone, Debug)]
pub struct InboxParts {
    pub sources: Part<Vec<SourceView>>,
    pub stats: Part<InboxStats>,
    pub waiting: Part<Rows<InboxMessageView>>,
}

/// The inbox: its sources, its consumers, what waits.
pub fn inbox(view: &Inbox, as_of: AsOf) -> Markup {
    let asked = &view.asked;
    html! {
        (head(&html! { "Inbox" }, &html! { p { "Messages that sources bring in. Each goes to every consumer once, in the order of its key; only what has to wait is stored." } }, None))
        @match &view.parts {
            None => {
                (first_run(Icon::Inbox, "No inbox", "A source in the configuration brings messages in: [source.NAME], with a [consumer.NAME] that handles them.",
                    Some("waybill config check")))
            }
            Some(InboxParts { sources, stats, waiting }) => {
                @if let (Ok(sources), Ok(stats)) = (sources, stats) { (answer(sources, stats, as_of)) }
                (section("Sources", None, &from_sources(sources, asked.may)))
                (counts(stats, as_of))
                (stored(asked, waiting, as_of))
            }
        }
        (in_a_terminal(&asked.command("inbox list")))
    }
}

/// What is so, and since when.
fn answer(sources: &[SourceView], stats: &InboxStats, as_of: AsOf) -> Markup {
    let waiting: u64 = stats.contexts.iter().map(|context| context.unprocessed.count).sum();
    let oldest = stats.contexts.iter().filter_map(|context| context.unprocessed.oldest_at).min_by_key(|at| at.0);
    let held = stats.consumers.iter().filter(|consumer| consumer.held.is_some()).count();
    let ill = sources.iter().map(of_source).filter(|state| state.tone != Tone::Ok).count();
    let (tone, shape) = if held + ill == 0 { (Tone::Ok, Icon::Done) } else { (Tone::Hold, Icon::Block) };
    let text = html! {
        b { (counted(waiting, "message waits", "messages wait")) @if let Some(at) = oldest { ", the oldest for " (as_of.ago(at)) } "." }
        @if held > 0 { " " (held) " of " (stats.consumers.len()) " consumers handle nothing now; their sources wait, and nothing is lost." }
        @if ill > 0 { " " (ill) " of " (sources.len()) " sources don’t bring all they could." }
        @if held + ill == 0 { " Every source brings and every consumer handles." }
    };
    note(tone, shape, &text, None)
}

const SOURCE_COLUMNS: [Column; 8] = [
    Column::Text("Name"),
    Column::Text("State"),
    Column::Text("Consumers"),
    Column::Number("At its peer"),
    Column::Number("Unsettled"),
    Column::Number("Overtaken"),
    Column::Number("Failed rows"),
    Column::Text("Acts"),
];

fn from_sources(sources: &Part<Vec<SourceView>>, may: May) -> Markup {
    let sources = match sources {
        Err(why) => return fault("Sources", why),
        Ok(sources) if sources.is_empty() => {
            return first_run(
                Icon::Inbox,
                "No source of your tenants",
                "Sources bring messages of tenants that their configuration names.",
                None,
            );
        }
        Ok(sources) => sources,
    };
    let number = |value: Option<u64>| value.map_or(NONE.to_owned(), count);
    let rows = html! { @for source in sources {
        tr {
            th.nw scope="row" {
                a href=(address::plugin(&format!("source.{}", source.name))) { (foreign(&source.name)) }
                span.sub { @match &source.plugin { Some(plugin) => { (foreign(&plugin.plugin)) " " (foreign(&plugin.version)) } None => { "no plugin here" } } }
            }
            td.end {
                (state(of_source(source)))
                @if let Some(detail) = &source.health_detail { span.sub { (foreign(detail)) } }
            }
            td {
                (foreign(&source.consumers.join(", ")))
                span.sub { "tenants " (foreign(&source.tenants.join(", "))) @if source.publish == Publish::Direct { " · rows go straight from the table" } }
            }
            td.num data-l="at its peer" {
                (number(source.lag))
                @if source.caught_up == Some(true) { span.sub { "caught up" } }
            }
            td.num data-l="unsettled" { (count(source.unsettled)) span.sub { "of " (count(source.window)) } }
            td.num.opt { @if source.overtaken > 0 { span.c-dead { (count(source.overtaken)) } } @else { "0" } }
            td.num.opt { (number(source.failed)) }
            td.full { (acts_on(source, may)) }
        }
    } };
    table("Sources", &SOURCE_COLUMNS, &rows, None)
}

/// What can be done to a source as it stands.
fn acts_on(source: &SourceView, may: May) -> Markup {
    let held = if source.paused { Act::SourceResume } else { Act::SourcePause };
    let one = Target::named(&source.name);
    html! {
        span.acts {
            (acts::link(held, &one, may))
            @if source.failed.is_some_and(|rows| rows > 0) { (acts::link(Act::RowsReplay, &one, may)) }
        }
    }
}

const CONSUMER_COLUMNS: [Column; 6] = [
    Column::Text("Consumer"),
    Column::Text("State"),
    Column::Number("In hand"),
    Column::Number("In calls"),
    Column::Number("Stored"),
    Column::Number("Dead"),
];
const CONTEXT_COLUMNS: [Column; 4] = [
    Column::Text("Context"),
    Column::Number("Unprocessed"),
    Column::Number("Unpublished rows"),
    Column::Number("Failed rows"),
];

/// What became of messages, by consumer and by context.
fn counts(stats: &Part<InboxStats>, as_of: AsOf) -> Markup {
    let stats = match stats {
        Err(why) => return section("Consumers", None, &fault("The counts", why)),
        Ok(stats) => stats,
    };
    let consumers = html! { @for consumer in &stats.consumers { (consumer_row(consumer, as_of)) } };
    let contexts = html! { @for context in &stats.contexts { (context_row(context, as_of)) } };
    html! {
        @if !stats.consumers.is_empty() { (section("Consumers", None, &table("Consumers", &CONSUMER_COLUMNS, &consumers, None))) }
        @if !stats.contexts.is_empty() { (section("Contexts", Some(&html! { "what waits, by the first part of its subject" }), &table("Contexts", &CONTEXT_COLUMNS, &contexts, None))) }
    }
}

fn consumer_row(consumer: &ConsumerStats, as_of: AsOf) -> Markup {
    let shown = match (&consumer.held, consumer.configured) {
        (Some(_), _) => State::new(Tone::Hold, Icon::Block, "held"),
        (None, true) => State::new(Tone::Ok, Icon::Done, "handles"),
        (None, false) => State::new(Tone::Rest, Icon::Fence, "not configured"),
    };
    let dead = format!("{} kind=inbox", condition("consumer", &consumer.consumer));
    html! {
        tr {
            th scope="row" { (foreign(&consumer.consumer)) span.sub { "home " (foreign(&consumer.home)) } }
            td.end {
                (state(shown))
                @if let Some(held) = &consumer.held {
                    span.sub { (foreign(&held.reason)) @if let Some(until) = held.until { "; tried again at " (as_of.at(until)) } }
                }
            }
            td.num data-l="in hand" { (count(consumer.in_hand)) }
            td.num.opt { (count(consumer.in_calls)) span.sub { "of " (count(consumer.concurrency)) } }
            td.num data-l="stored" { (count(consumer.stored)) span.sub { "of " (count(consumer.stored_max)) } }
            td.num data-l="dead" {
                @if consumer.dead > 0 {
                    a.c-dead href=(address::with(address::DEAD_LETTERS, &[("filter", &dead)])) { (count(consumer.dead)) }
                } @else { "0" }
            }
        }
    }
}

fn context_row(context: &ContextStats, as_of: AsOf) -> Markup {
    let oldest = |at: Option<Instant>| html! { @if let Some(at) = at { span.sub { "oldest " (as_of.ago(at)) } } };
    html! {
        tr {
            th scope="row" { (foreign(&context.context)) }
            td.num data-l="unprocessed" { (count(context.unprocessed.count)) (oldest(context.unprocessed.oldest_at)) }
            td.num data-l="unpublished" { (count(context.unpublished.count)) (oldest(context.unpublished.oldest_at)) }
            td.num data-l="failed" { (count(context.failed)) }
        }
    }
}

const STORED: [Field; 7] = [
    Field::text("Id"),
    Field::text("Waits for").class("end").moves("waits for"),
    Field::text("Subject").class("mono").moves("subject"),
    Field::text("Key").class("mono").label("key").moves("key"),
    Field::text("Last error").class("full").moves("last error"),
    Field::number("Received"),
    Field::text("Tenant").label("tenant").second_line().moves("tenant"),
];

fn stored(asked: &Asked, rows: &Part<Rows<InboxMessageView>>, as_of: AsOf) -> Markup {
    html! {
        section.section #stored {
            header { h2 { "What waits" } p { "stored for its turn, its key or its next try" } }
            (asked.form(address::INBOX, "consumer=ship context=sales code=HTTP.* age>10m", as_of))
            @match rows {
                Err(why) => { (fault("What waits", why)) }
                Ok(rows) if rows.items.is_empty() && rows.older.is_none() && asked.filter.is_empty() && !asked.is_further => {
                    (first_run(Icon::Done, "Nothing waits", "What flows is never stored; what died is among the dead letters.", None))
                }
                Ok(rows) if rows.items.is_empty() => {
                    (none_by_filter("stored message", &asked.filter, address::INBOX, rows.older.is_some()))
                    @if let Some(older) = &rows.older { p.more { a href=(older) { "Older" } } }
                }
                Ok(rows) => {
                    @let shown: Vec<_> = rows.items.iter().map(|message| stored_row(message, as_of)).collect();
                    (list("What waits", &STORED, &shown, Some(&asked.foot(Saved("inbox"), shown.len(), rows.older.as_deref()))))
                }
            }
        }
    }
}

fn address_of(message: &InboxMessageView) -> String {
    let query = [("tenant", &*message.tenant), ("consumer", &*message.consumer), ("id", &*message.id)];
    address::with(address::INBOX, &query)
}

fn stored_row(message: &InboxMessageView, as_of: AsOf) -> [Markup; 7] {
    let waits = html! { @match &message.waiting {
        Some(waiting) => {
            (state(State::new(Tone::Hold, Icon::Wait, waiting.on.as_str())))
            @if let Some(until) = waiting.until { span.sub { "until " (as_of.at(until)) } }
        }
        None => { (NONE) }
    } };
    [
        html! { (id_link(&address_of(message), &message.id)) span.sub { "for " (foreign(&message.consumer)) } },
        waits,
        html! { (foreign(&message.subject)) span.sub { "from " (foreign(&message.source)) } },
        mono(message.key.as_deref()),
        of(foreign(&shortened(message.last_error.as_deref().unwrap_or_default(), ERROR_LETTERS))),
        as_of.at(message.received_at),
        of(foreign(&message.tenant)),
    ]
}

/// What is known of a received message at a consumer.
#[derive(Clone, Debug)]
pub struct Received {
    pub status: InboxStatusView,
    /// As it was asked for.
    pub tenant: String,
}

/// What is known of a received message.
pub fn received(view: &Received, as_of: AsOf) -> Markup {
    let Received { status, tenant } = view;
    let under =
        html! { p.meta { (tag(of_received(status.state))) span { "at consumer " (foreign(&status.consumer)) } } };
    html! {
        div { p.crumb { a href=(address::INBOX) { "Inbox" } } (head(&html! { (foreign(&status.id)) }, &under, None)) }
        (known(status, tenant))
        @if let Some(message) = &status.message { (shown(message, as_of)) }
        @if !status.ended.is_empty() { (ended(status, as_of)) }
        (in_a_terminal(&format!("waybill inbox show {} {}{}", quoted(&status.consumer), quoted(&status.id), option("tenant", tenant))))
    }
}

fn known(status: &InboxStatusView, tenant: &str) -> Markup {
    let of_state = of_received(status.state);
    let text = html! {
        @if status.seen { b { "Its id is final." } " If it comes again within the window it is acknowledged and not handled." }
        @else if status.message.is_some() { b { "It isn’t finished." } " It goes on by itself." }
        @else if status.dead_letter.is_none() { b { "Nothing is known of it" } " at this consumer within the window." }
        @if let Some(dead) = &status.dead_letter {
            " It became a dead letter: "
            a href=(address::dead_letter(tenant, dead, DeadKind::Inbox)) { (foreign(dead)) } "."
        }
    };
    note(of_state.tone, of_state.shape, &text, None)
}

fn shown(message: &InboxMessageView, as_of: AsOf) -> Markup {
    let mut rows = vec![
        ("Tenant", of(foreign(&message.tenant))),
        ("Source", of(foreign(&message.source))),
        ("Subject", mono(Some(&message.subject))),
        ("Key", mono(message.key.as_deref())),
        ("Attempts", of(message.attempts)),
        ("Received", as_of.exactly(message.received_at)),
        ("Position", mono(message.position.as_deref())),
        ("Last error", or_none(message.last_error.as_deref())),
    ];
    rows.extend(
        message
            .waiting
            .as_ref()
            .map(|waiting| ("Waits for", html! { (waiting.on.as_str()) ": " (foreign(&waiting.reason)) })),
    );
    rows.extend(message.correlation_id.as_deref().map(|id| ("Correlation", mono(Some(id)))));
    let body = match (&message.payload, &message.payload_base64) {
        (Some(json), _) if json.get().len() <= payload::SHOWN_MAX => payload::readable(json.get()),
        (Some(json), _) => payload::raw(json.get().as_bytes()),
        (None, Some(base64)) => payload::raw(base64.as_bytes()),
        (None, None) => payload::raw(b""),
    };
    let headers = html! { @for (name, value) in &message.headers.0 {
        span.k { (foreign(name)) } ": " @if is_secret(name) { span.fold { "hidden" } } @else { (foreign(value)) } "\n"
    } };
    html! {
        (section("Facts", None, &html! { div.sheet.pad { (facts(&rows)) } }))
        (section("Payload", Some(&html! { (count(message.payload_bytes)) " bytes" }), &payload::boxed("Payload", &html! {}, &body, "What is no JSON is in base64.")))
        (section("Headers", None, &payload::boxed("Headers", &html! {}, &headers, &format!("{} headers", message.headers.0.len()))))
    }
}

fn ended(status: &InboxStatusView, as_of: AsOf) -> Markup {
    let columns = [
        Column::Text("How"),
        Column::Text("Subject"),
        Column::Number("Failed before"),
        Column::Number("Received"),
        Column::Number("Ended"),
    ];
    let rows = html! { @for end in &status.ended {
        tr {
            th scope="row" { (how(end.end)) }
            td.mono { (foreign(&end.subject)) }
            td.num data-l="failed before" { (end.attempts) }
            td.num.nw data-l="received" { (as_of.at(end.received_at)) }
            td.num.nw data-l="ended" { (as_of.at(end.processed_at)) }
        }
    } };
    section("How it ended", None, &table("How it ended", &columns, &rows, None))
}

fn how(end: InboxEnd) -> &'static str {
    match end {
        InboxEnd::Processed => "handled",
        InboxEnd::Duplicate => "done before, its handler said",
        InboxEnd::Dead => "dead",
    }
}
