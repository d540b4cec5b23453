//! One message: what is so, its way, its payload.

use maud::{Markup, html};
use waybill_api::messages::{Attempt, MessageView};
use waybill_api::neighbours::NeighboursView;
use waybill_core::annotation::Annotation;
use waybill_core::outbox::records::AttemptOutcome;
use waybill_core::port::dead::DeadKind;
use waybill_core::port::service::MessageState;

use super::neighbours::neighbours;
use crate::acts::{self, Act, May, Target};
use crate::address::{self, condition};
use crate::environment::TraceUrl;
use crate::frame::head;
use crate::icon::{self, Icon};
use crate::parts::{Part, Tone, chip, facts, in_a_terminal, mono, note, of, quoted, section, state, tabs, tag};
use crate::payload;
use crate::states::of_message;
use crate::text::{count, foreign, hidden_count, length_ms, or_none};
use crate::time::AsOf;

/// Which side of a payload is shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PayloadTab {
    #[default]
    Readable,
    Raw,
    Headers,
}

impl PayloadTab {
    /// Of an address; what is none is the first.
    pub fn of(show: &str) -> Self {
        match show {
            "raw" => Self::Raw,
            "headers" => Self::Headers,
            _ => Self::Readable,
        }
    }
}

/// One message, alive, done or dead; or a dead letter of another kind as JSON.
#[derive(Clone, Debug)]
pub enum MessageDetail {
    /// With the messages of its key around it.
    Message(Box<MessageView>, Part<NeighboursView>),
    /// A received message or an event of a stream, with what is known of it as JSON.
    Other { id: String, tenant: String, kind: DeadKind, what: &'static str, error: String, json: String },
}

/// `trace_url`: where the trace of a message is shown.
pub fn message(detail: &MessageDetail, tab: PayloadTab, trace_url: Option<&TraceUrl>, may: May, as_of: AsOf) -> Markup {
    match detail {
        MessageDetail::Message(message, near) => shown(message, near, tab, trace_url, may, as_of),
        MessageDetail::Other { id, tenant, kind, what, error, json } => html! {
            (head(&html! { (foreign(id)) }, &html! { p.meta { (tag(of_message(MessageState::Dead))) span { (what) } } },
                Some(&on_dead(tenant, id, *kind, may))))
            (note(Tone::Dead, Icon::Dead, &html! { (foreign(error)) }, None))
            (section("What is known of it", None, &payload::boxed("What is known of it", &html! {}, &payload::readable(json), "Numbers are shown as written.")))
            (in_a_terminal(&format!("waybill dead show {}", quoted(id))))
        },
    }
}

fn is_dead(message: &MessageView) -> bool {
    matches!(message.state, MessageState::Dead | MessageState::Quarantined)
}

/// What can be done to a dead letter.
fn on_dead(tenant: &str, id: &str, kind: DeadKind, may: May) -> Markup {
    let one = Target { kind: kind.word().to_owned(), ..Target::one(tenant, id) };
    let as_filter = Target::matching(tenant, &format!("{} {}", condition("id", id), condition("kind", kind.word())));
    html! {
        (acts::link(Act::DeadReplay, &one, may))
        @if matches!(kind, DeadKind::Message | DeadKind::Inbox) { (acts::link(Act::DeadEdit, &one, may)) }
        (acts::link(Act::DeadQuarantine, &one, may))
        @if kind != DeadKind::Saga { (acts::link(Act::DeadPurge, &as_filter, may)) }
    }
}

/// What can be done to a message as it stands.
fn acts_on(message: &MessageView, may: May) -> Option<Markup> {
    let one = Target::one(&message.tenant, &message.id);
    match message.state {
        MessageState::Dead | MessageState::Quarantined => {
            Some(on_dead(&message.tenant, &message.id, DeadKind::Message, may))
        }
        MessageState::Pending => Some(acts::links(&[Act::MessageReschedule, Act::MessageCancel], &one, may)),
        _ => None,
    }
}

fn shown(
    message: &MessageView,
    near: &Part<NeighboursView>,
    tab: PayloadTab,
    trace_url: Option<&TraceUrl>,
    may: May,
    as_of: AsOf,
) -> Markup {
    let (parent, name) =
        if is_dead(message) { (address::DEAD_LETTERS, "Dead letters") } else { (address::MESSAGES, "Messages") };
    let title = html! { (foreign(&message.topic)) };
    let under = html! {
        p.meta { (tag(of_message(message.state))) span.id { (foreign(&message.id)) } }
    };
    let verb = if is_dead(message) { "dead" } else { "outbox" };
    html! {
        div { p.crumb { a href=(parent) { (name) } } (head(&title, &under, acts_on(message, may).as_ref())) }
        (answer(message, as_of))
        div.cols {
            div.s8.stack {
                (section("Its way", None, &html! { div.sheet.pad { ol.way { (way(message, as_of)) } } }))
                (body(message, tab))
            }
            div.s4.stack {
                (section("Facts", None, &html! { div.sheet.pad { (facts(&rows(message, trace_url, as_of))) } }))
                @if let Some(key) = &message.key { (beside(message, key, near, as_of)) }
                (in_a_terminal(&format!("waybill {verb} show {} --tenant {}", quoted(&message.id), quoted(&message.tenant))))
            }
        }
    }
}

/// What is so, why, and what happens by itself.
fn answer(message: &MessageView, as_of: AsOf) -> Markup {
    let error = message.last_error.as_deref();
    let (tone, shape, text) = match (message.state, &message.waiting) {
        (MessageState::Dead | MessageState::Quarantined, _) => (
            Tone::Dead,
            Icon::Dead,
            html! {
                b { "Dead" @if let Some(at) = message.ended_at { " since " (as_of.exactly(at)) ", " (as_of.ago(at)) } "." }
                " " (or_none(error)) " It is not tried again by itself."
                @if let Some(why) = &message.note { " Fenced off: " (foreign(why)) }
            },
        ),
        (MessageState::Done, _) => (
            Tone::Ok,
            Icon::Done,
            html! {
                b { "Delivered" @if let Some(at) = message.ended_at { " at " (as_of.exactly(at)) } "." }
                @if let Some(reference) = message.receipt.as_ref().and_then(|receipt| receipt.broker_ref.as_deref()) {
                    " The receiver gave back " code { (foreign(reference)) } "."
                }
            },
        ),
        (MessageState::Leased, _) => (
            Tone::Move,
            Icon::Move,
            html! {
                b { "Being sent." }
                @if let Some(lease) = &message.lease { " Worker " (foreign(&lease.worker)) " has it until " (as_of.at(lease.until)) "." }
            },
        ),
        (_, Some(waiting)) => (
            Tone::Hold,
            Icon::Wait,
            html! {
                b { "Waits: " (foreign(waiting.on.as_str())) @if let Some(since) = waiting.since { ", since " (as_of.at(since)) } "." }
                " " (foreign(&waiting.reason))
                @if let Some(until) = waiting.until { " Until " (as_of.at(until)) "; it goes on by itself." }
            },
        ),
        (state, None) => (Tone::Rest, Icon::Wait, html! { b { (state.word()) "." } " " (or_none(error)) }),
    };
    note(tone, shape, &text, None)
}

fn way(message: &MessageView, as_of: AsOf) -> Markup {
    html! {
        li {
            span.c-ok { (icon::shape(Icon::Done)) } span { b { "Accepted" } }
            span.q.nw { (as_of.exactly(message.created_at)) }
            @if let Some(seq) = message.seq { p { "seq " (seq.0) ", shard " (message.shard) } }
        }
        @for (number, attempt) in message.history.iter().enumerate() { (attempted(number + 1, attempt, as_of)) }
    }
}

fn attempted(number: usize, attempt: &Attempt, as_of: AsOf) -> Markup {
    let (class, shape, word) = match attempt.outcome {
        AttemptOutcome::Delivered => ("c-ok", Icon::Done, "delivered"),
        AttemptOutcome::Retry => ("c-hold", Icon::Retry, "failed, to be tried again"),
        AttemptOutcome::Dead => ("c-dead", Icon::Dead, "refused for good"),
        AttemptOutcome::Blocked => ("c-hold", Icon::Block, "the destination was at fault"),
        AttemptOutcome::Released => ("", Icon::Undo, "not tried"),
        AttemptOutcome::Unknown => ("c-hold", Icon::Warn, "no answer"),
    };
    html! {
        li {
            span class=(class) { (icon::shape(shape)) }
            span { b { "Attempt " (number) } " on " (foreign(&attempt.worker)) ", took " (length_ms(attempt.took_ms)) ": " (word) }
            span.q.nw { (as_of.exactly(attempt.at)) }
            p {
                (foreign(&attempt.transport))
                @if let Some(plugin) = &attempt.plugin {
                    " generation " (plugin.generation) ", " (foreign(&plugin.plugin)) " " (foreign(&plugin.version))
                }
                @if let Some(code) = &attempt.code { ". " code { (foreign(code)) } }
                @if let Some(reason) = &attempt.reason { " " (foreign(reason)) }
                @if attempt.maybe_delivered { " It may have been delivered all the same." }
            }
        }
    }
}

/// A trace's context, as a link where it is known to what.
fn traced(traceparent: &str, trace_url: Option<&TraceUrl>) -> Markup {
    match trace_url.and_then(|url| url.of(traceparent)) {
        Some(address) => html! { a.mono href=(address) rel="noreferrer" { (foreign(traceparent)) } },
        None => mono(Some(traceparent)),
    }
}

fn rows(message: &MessageView, trace_url: Option<&TraceUrl>, as_of: AsOf) -> Vec<(&'static str, Markup)> {
    let mut rows = vec![
        ("State", state(of_message(message.state))),
        ("Tenant", of(foreign(&message.tenant))),
        ("Key", mono(message.key.as_deref())),
        ("Transport", or_none(message.transport.as_deref())),
        ("Attempts", of(message.attempts)),
        ("Replayed", if message.replays == 0 { of("never") } else { of(message.replays) }),
        ("Event", html! { (foreign(&message.event_type)) " v" (message.event_version) }),
        ("Occurred", as_of.at(message.occurred_at)),
    ];
    rows.extend(message.not_before.map(|at| ("Not before", as_of.at(at))));
    rows.extend(message.expires_at.map(|at| ("Expires", as_of.at(at))));
    for (name, annotation) in [
        ("Correlation", Annotation::CorrelationId),
        ("Causation", Annotation::CausationId),
        ("Envelope", Annotation::EnvelopeId),
        ("Aggregate", Annotation::AggregateId),
        ("Reply to", Annotation::ReplyTo),
    ] {
        rows.extend(message.annotations.get(annotation).map(|text| (name, mono(Some(text)))));
    }
    let trace = message.annotations.get(Annotation::Traceparent);
    rows.extend(trace.map(|text| ("Trace", traced(text, trace_url))));
    rows.extend(message.payload_sha256.as_deref().map(|hash| ("SHA-256", mono(Some(hash)))));
    rows
}

fn beside(message: &MessageView, key: &str, near: &Part<NeighboursView>, as_of: AsOf) -> Markup {
    let of_key = condition("key", key);
    let list = |path: &str| address::with(path, &[("tenant", &message.tenant), ("filter", &of_key)]);
    section(
        "Same key",
        None,
        &html! {
            (neighbours(message, near, as_of))
            p.chips {
                (chip("messages of", key, &list(address::MESSAGES)))
                (chip("dead letters of", key, &list(address::DEAD_LETTERS)))
            }
        },
    )
}

fn body(message: &MessageView, tab: PayloadTab) -> Markup {
    let bytes = message.bytes.as_deref().unwrap_or_default();
    let media = message.annotations.get(Annotation::ContentType);
    let way = |show: &str| {
        address::with(address::MESSAGE, &[("tenant", &message.tenant), ("id", &message.id), ("show", show)])
    };
    let ways = [
        ("Readable", way(""), tab == PayloadTab::Readable),
        ("Raw", way("raw"), tab == PayloadTab::Raw),
        ("Headers", way("headers"), tab == PayloadTab::Headers),
    ];
    let json = message.payload.as_ref().map(|json| json.get()).filter(|json| json.len() <= payload::SHOWN_MAX);
    let (shown, foot) = match (tab, json) {
        (PayloadTab::Headers, _) => (headers(message), format!("{} headers", message.headers.0.len())),
        (PayloadTab::Readable, Some(json)) => (payload::readable(json), of_text(json)),
        _ => (payload::raw(bytes), of_bytes(bytes)),
    };
    let about = html! { (foreign(media.unwrap_or("application/json"))) ", " (count(message.payload_bytes)) " bytes" };
    section("Payload", Some(&about), &payload::boxed("Payload", &tabs("Payload as", &ways), &shown, &foot))
}

fn of_text(json: &str) -> String {
    match hidden_count(json) {
        0 => "Numbers are shown as written.".to_owned(),
        1 => "Numbers are shown as written. One invisible character is marked.".to_owned(),
        hidden => format!("Numbers are shown as written. {hidden} invisible characters are marked."),
    }
}

fn of_bytes(bytes: &[u8]) -> String {
    if payload::is_whole(bytes) {
        return "As it came; invisible characters are marked, what is no text is in hex.".to_owned();
    }
    "The beginning of it; `waybill outbox show` has the whole.".to_owned()
}

/// Those that hold credentials aren't shown.
fn headers(message: &MessageView) -> Markup {
    html! { @for (name, value) in &message.headers.0 {
        span.k { (foreign(name)) } ": "
        @if is_secret(name) { span.fold { "hidden" } } @else { (foreign(value)) }
        "\n"
    } }
}

/// Whether a header holds a credential, by its name.
pub fn is_secret(header: &str) -> bool {
    let name = header.to_ascii_lowercase();
    ["authorization", "cookie", "token", "secret", "password", "api-key", "apikey"]
        .iter()
        .any(|word| name.contains(word))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_with_credentials_are_hidden() {
        assert!(is_secret("Proxy-Authorization") && is_secret("X-Api-Key") && !is_secret("x-tenant"));
    }

    #[test]
    fn an_unknown_side_of_a_payload_is_the_first() {
        assert_eq!(PayloadTab::of("<script>"), PayloadTab::Readable);
        assert_eq!(PayloadTab::of("raw"), PayloadTab::Raw);
    }
}
