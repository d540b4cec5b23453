//! What needs somebody, worst first: what, why, how many, since when, what happens by itself, and one way on.

use std::cmp::Reverse;

use maud::{Markup, html};
use waybill_api::dead_letters::DeadGroupView;
use waybill_api::instant::Instant;
use waybill_api::relays::RelayStatus;
use waybill_api::sources::SourceView;
use waybill_api::status::{BlockedView, Check, CheckStatus};
use waybill_core::outbox::owner::WaitKind;
use waybill_core::port::dead::DeadKind;
use waybill_core::port::transport::Health;

use super::hour::Changes;
use super::overview::Overview;
use crate::address::{self, condition};
use crate::icon::Icon;
use crate::parts::{State, Tone, error_code, fault, first_run, state};
use crate::text::{count, foreign, or_none, shortened};
use crate::time::AsOf;

/// Causes that the overview shows; the rest is a link away.
const SHOWN_MAX: usize = 8;
/// Letters of an error beside others.
const ERROR_LETTERS: usize = 200;
/// A group whose latest died within this grows still.
const GROWS_WITHIN_S: u64 = 60;

/// Something that needs somebody.
#[derive(Clone, Copy, Debug)]
pub enum Cause<'a> {
    Check(&'a Check),
    Dead(&'a DeadGroupView),
    Held(&'a BlockedView),
    Relay(&'a RelayStatus),
    Source(&'a SourceView),
}

/// All causes, worst first: what stops the host, what dies and grows, what waits for a person, what is held, what died before, what
/// somebody paused.
pub fn causes<'a>(view: &'a Overview, as_of: AsOf) -> Vec<Cause<'a>> {
    let failing = view.checks.iter().filter(|check| check.status == CheckStatus::Fail).map(Cause::Check);
    let dead = view.groups.iter().flatten().map(Cause::Dead);
    let held = view.blocked.iter().flatten().filter(|hold| needs_somebody(hold)).map(Cause::Held);
    let relays =
        view.beside.relays.iter().flatten().flatten().filter(|relay| relay.state != "running").map(Cause::Relay);
    let sources = view.beside.sources.iter().flatten().flatten().filter(|source| !is_well(source)).map(Cause::Source);
    let mut all: Vec<Cause<'a>> = failing.chain(dead).chain(held).chain(relays).chain(sources).collect();
    all.sort_by_key(|cause| cause.rank(as_of));
    all
}

/// What keeps to a rate, or waits for its turn, needs nobody.
fn needs_somebody(hold: &BlockedView) -> bool {
    !matches!(hold.kind, WaitKind::Rate | WaitKind::Turn | WaitKind::Schedule)
}

fn is_well(source: &SourceView) -> bool {
    !source.paused && !matches!(source.health, Health::Down | Health::Blocked)
}

impl Cause<'_> {
    /// The lower, the worse it is.
    fn rank(self, as_of: AsOf) -> (u8, Reverse<u64>) {
        match self {
            Self::Check(_) => (0, Reverse(0)),
            Self::Dead(group) if group.kind == DeadKind::Saga => (2, Reverse(group.count)),
            Self::Dead(group) if grows(group, as_of) => (1, Reverse(group.count)),
            Self::Dead(group) => (4, Reverse(group.count)),
            Self::Held(hold) if hold.kind == WaitKind::Paused => (5, Reverse(hold.waiting)),
            Self::Held(hold) => (3, Reverse(hold.waiting)),
            Self::Relay(relay) if relay.state == "paused" => (5, Reverse(relay.lag_events)),
            Self::Relay(relay) => (3, Reverse(relay.lag_events)),
            Self::Source(source) if source.paused => (5, Reverse(source.lag.unwrap_or(0))),
            Self::Source(source) => (3, Reverse(source.lag.unwrap_or(0))),
        }
    }

    /// When it began, if that is known.
    pub fn since(self) -> Option<Instant> {
        match self {
            Self::Dead(group) => Some(group.first_at),
            Self::Held(hold) => Some(hold.since),
            Self::Check(_) | Self::Relay(_) | Self::Source(_) => None,
        }
    }
}

/// Whether more come.
pub fn grows(group: &DeadGroupView, as_of: AsOf) -> bool {
    as_of.since(group.latest_at).as_secs() < GROWS_WITHIN_S
}

pub fn listed(view: &Overview, all: &[Cause<'_>], changes: &Changes<'_>, as_of: AsOf) -> Markup {
    html! {
        @if let Err(why) = &view.groups { (fault("Dead letters", why)) }
        @if let Err(why) = &view.blocked { (fault("What holds messages back", why)) }
        @if let Some(Err(why)) = &view.beside.relays { (fault("Relays", why)) }
        @if let Some(Err(why)) = &view.beside.sources { (fault("Sources", why)) }
        @if all.is_empty() && view.groups.is_ok() && view.blocked.is_ok() {
            (first_run(Icon::Done, "Nothing needs you", "No dead letter, and nothing holds messages back.", None))
        }
        @if !all.is_empty() {
            ol.sheet.causes { @for cause in all.iter().take(SHOWN_MAX) { (row(*cause, changes, as_of)) } }
        }
        @if all.len() > SHOWN_MAX {
            p.more {
                span { (SHOWN_MAX) " of " (all.len()) }
                span.acts { a href=(address::DEAD_LETTERS) { "All dead letters" } " " a href=(address::BLOCKED) { "All that holds messages back" } }
            }
        }
    }
}

/// One row, of what it has.
struct Row<'a> {
    tone: Tone,
    shape: Icon,
    word: &'a str,
    /// What it is about, and where it leads.
    what: Markup,
    to: String,
    act: &'static str,
    why: Markup,
    by_itself: Markup,
    /// How many, and of what.
    many: Option<(u64, &'static str)>,
}

fn row(cause: Cause<'_>, changes: &Changes<'_>, as_of: AsOf) -> Markup {
    let row = match cause {
        Cause::Check(check) => failing(check),
        Cause::Dead(group) => dead(group, as_of),
        Cause::Held(hold) => held(hold, as_of),
        Cause::Relay(relay) => of_relay(relay),
        Cause::Source(source) => of_source(source),
    };
    let Row { tone, shape, word, what, to, act, why, by_itself, many } = row;
    html! {
        li {
            div {
                h3 { (state(State::new(tone, shape, word))) a href=(to) { (what) } }
                p.why {
                    (why) br;
                    span.q { @if let Some(since) = cause.since() { (changes.before(since)) } (by_itself) }
                }
            }
            div { @if let Some((number, of)) = many { p.big { (count(number)) } p.q { (of) } } }
            div { @if let Some(since) = cause.since() { p.big { (as_of.ago(since)) } p.q { "since " (as_of.at(since)) } } }
            div.acts { a.btn href=(to) { (act) } }
        }
    }
}

fn failing(check: &Check) -> Row<'_> {
    Row {
        tone: Tone::Dead,
        shape: Icon::Dead,
        word: "not ready",
        what: html! { span.mono { (foreign(&check.name)) } },
        to: address::OVERVIEW.to_owned(),
        act: "Look again",
        why: html! { (foreign(&check.detail)) },
        by_itself: html! { "The host tries again by itself; until then it tells who asks that it isn’t ready." },
        many: None,
    }
}

fn dead(group: &DeadGroupView, as_of: AsOf) -> Row<'_> {
    let filter = format!("{} {}", condition("code", &group.code), condition("kind", group.kind.word()));
    let is_saga = group.kind == DeadKind::Saga;
    let is_one = is_saga && group.count == 1;
    let (to, act) = if is_one {
        (address::saga(&group.tenant, &group.example), "Open it")
    } else {
        (address::with(address::DEAD_LETTERS, &[("tenant", &group.tenant), ("filter", &filter)]), "Look at the group")
    };
    let (word, of) = match (is_saga, grows(group, as_of)) {
        (true, _) => ("stuck", "stuck"),
        (false, true) => ("dead", "dead, and more come"),
        (false, false) => ("dead", "dead"),
    };
    Row {
        tone: Tone::Dead,
        shape: Icon::Dead,
        word,
        what: html! { span.mono { (foreign(&group.topic)) } },
        to,
        act,
        why: html! { (error_code(&group.code)) " " (foreign(&shortened(&group.signature, ERROR_LETTERS))) ". Tenant " (foreign(&group.tenant)) "." },
        by_itself: html! { "Nothing mends this by itself" @if is_saga { ": retry, skip or accept" } ". The latest " (as_of.ago(group.latest_at)) " ago." },
        many: Some((group.count, of)),
    }
}

fn held(hold: &BlockedView, as_of: AsOf) -> Row<'_> {
    Row {
        tone: if hold.kind == WaitKind::Paused { Tone::Rest } else { Tone::Hold },
        shape: if hold.kind == WaitKind::Paused { Icon::Pause } else { Icon::Block },
        word: hold.kind.as_str(),
        what: html! { span.mono { (foreign(&hold.subject)) } },
        to: address::BLOCKED.to_owned(),
        act: "Look",
        why: why_held(hold),
        by_itself: what_happens(hold, as_of),
        many: Some((hold.waiting, "wait")),
    }
}

/// Why something is held.
pub fn why_held(hold: &BlockedView) -> Markup {
    html! {
        @if let Some(code) = &hold.code { (error_code(code)) " " }
        (foreign(&shortened(&hold.reason, ERROR_LETTERS)))
        @if let Some(transport) = &hold.transport { " Transport " code { (foreign(transport)) } "." }
    }
}

/// What happens to it by itself.
pub fn what_happens(hold: &BlockedView, as_of: AsOf) -> Markup {
    let text = match hold.kind {
        WaitKind::Paused => "It goes on when somebody resumes it.",
        WaitKind::NoRoute => "It goes on when a route takes it.",
        WaitKind::Unclaimed => "It goes on when a worker claims it.",
        WaitKind::Rate => "It goes on as fast as its rate lets it.",
        WaitKind::Key if hold.until.is_none() => {
            "It goes on when the dead letter that holds its key is replayed, edited or purged."
        }
        _ => "No attempt is used up, and it goes on by itself.",
    };
    html! { (text) @if let Some(until) = hold.until { " Tried again at " (as_of.at(until)) "." } }
}

fn of_relay(relay: &RelayStatus) -> Row<'_> {
    let is_paused = relay.state == "paused";
    Row {
        tone: if is_paused { Tone::Rest } else { Tone::Dead },
        shape: if is_paused { Icon::Pause } else { Icon::Dead },
        word: &relay.state,
        what: html! { "relay " span.mono { (foreign(&relay.name)) } },
        to: address::relay(&relay.name),
        act: "Look at the relay",
        why: html! { (or_none(relay.reason.as_deref())) " To transport " code { (foreign(&relay.transport)) } "." },
        by_itself: html! { "It goes on when somebody resumes it." },
        many: Some((relay.lag_events, "events unsent")),
    }
}

fn of_source(source: &SourceView) -> Row<'_> {
    let State { tone, shape, word } = crate::states::of_source(source);
    Row {
        tone,
        shape,
        word,
        what: html! { "source " span.mono { (foreign(&source.name)) } },
        to: address::INBOX.to_owned(),
        act: "Look at the inbox",
        why: html! { (or_none(source.health_detail.as_deref())) },
        by_itself: html! { @if source.paused { "It goes on when somebody resumes it." } @else { "It is tried again by itself." } },
        many: source.lag.map(|lag| (lag, "wait at its peer")),
    }
}
