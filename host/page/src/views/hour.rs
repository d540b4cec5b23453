//! The last hour: its charts, and what changed, numbered so that either is found in the other.

use maud::{Markup, html};
use waybill_api::history::{ChangeView, Changed, HistoryView};
use waybill_api::instant::Instant;
use waybill_core::changes::ChangeKind;
use waybill_core::history::Measure;
use waybill_core::time::UnixMillis;

use crate::address;
use crate::chart::{Chart, Mark, Series, chart};
use crate::icon::Icon;
use crate::parts::{Part, Tone, error_code, fault, first_run, section};
use crate::text::{count, foreign, length, shortened};
use crate::time::AsOf;

/// Changes that get a number: more can't be told apart in a chart.
const MARKS_MAX: usize = 9;
/// A change so long before the first failure of something stands beside it.
const BESIDE_MS: u64 = 10 * 60 * 1_000;
/// Changes beside one cause, the latest.
const BESIDE_MAX: usize = 2;
/// Points in a minute.
const MINUTE_POINTS: usize = 6;
/// Below so many in the busiest ten seconds a course is told by the minute.
const SECONDS_FROM: u64 = 50;
/// Letters of a change's words.
const DETAIL_LETTERS: usize = 160;

/// What changed, and the numbers of those within the hour.
pub struct Changes<'a> {
    /// In the order of the list, the newest first.
    items: &'a [ChangeView],
    marks: Vec<Mark>,
}

impl<'a> Changes<'a> {
    /// Those that fall into a history get numbers, in the order in which they happened.
    pub fn new(items: &'a [ChangeView], from: Option<Instant>) -> Self {
        let within = items.iter().take_while(|change| from.is_some_and(|from| change.at.0 >= from.0));
        let latest: Vec<Instant> = within.take(MARKS_MAX).map(|change| change.at).collect();
        let marks = latest.iter().rev().zip(1..).map(|(at, number)| Mark { number, at: *at }).collect();
        Self { items, marks }
    }

    pub fn marks(&self) -> &[Mark] {
        &self.marks
    }

    /// The number of a change, by its place among the newest.
    fn number(&self, place: usize) -> Option<usize> {
        self.marks.len().checked_sub(place).filter(|number| *number > 0)
    }

    /// A change in words, with its number.
    fn listed_change(&self, place: usize, change: &ChangeView) -> Markup {
        html! { @if let Some(number) = self.number(place) { b.mark { (number) } " " } (words(change)) }
    }

    /// What changed in the ten minutes before something began: a fact beside a fact.
    pub fn before(&self, began: Instant) -> Markup {
        let is_shortly_before =
            |change: &ChangeView| change.at.0 <= began.0 && began.0.0.saturating_sub(change.at.0.0) <= BESIDE_MS;
        let found = self.items.iter().enumerate().filter(|(_, change)| is_shortly_before(change));
        html! { @for (place, change) in found.take(BESIDE_MAX) {
            (length(began.0.since(change.at.0))) " after " (self.listed_change(place, change)) ". "
        } }
    }
}

/// A change in words.
fn words(change: &ChangeView) -> Markup {
    let named = shortened(&change.object, DETAIL_LETTERS);
    let object = html! {
        @if plugin_of(change.kind) { a href=(address::plugin(&change.object)) { (foreign(&named)) } } @else { code { (foreign(&named)) } }
    };
    let said = match change.kind {
        ChangeKind::PluginLoaded => html! { (object) " was loaded" },
        ChangeKind::PluginSwapped => html! { (object) " went to another generation" },
        ChangeKind::PluginRolledBack => html! { (object) " was rolled back" },
        ChangeKind::PluginRefused => html! { "a component for " (object) " was refused" },
        ChangeKind::BreakerOpened => html! { "the breaker of " (object) " opened" },
        ChangeKind::BreakerClosed => html! { "the breaker of " (object) " closed" },
        ChangeKind::ConfigurationReloaded => html! { "the configuration was reloaded" },
        ChangeKind::ConfigurationRefused => html! { "a configuration was refused" },
        ChangeKind::OperationBegun => html! { "operation " (object) " began" },
        ChangeKind::OperationEnded => html! { "operation " (object) " ended" },
        ChangeKind::OperationCancelled => html! { "operation " (object) " was stopped" },
        ChangeKind::TransportPaused => html! { "transport " (object) " was paused" },
        ChangeKind::TransportResumed => html! { "transport " (object) " was resumed" },
        ChangeKind::TransportBlocked => html! { "transport " (object) " is held" },
        ChangeKind::TransportFlowing => html! { "transport " (object) " flows again" },
        ChangeKind::SourcePaused => html! { "source " (object) " was paused" },
        ChangeKind::SourceResumed => html! { "source " (object) " was resumed" },
        ChangeKind::RelayPaused => html! { "relay " (object) " was paused" },
        ChangeKind::RelayResumed => html! { "relay " (object) " was resumed" },
        ChangeKind::RelayStopped => html! { "relay " (object) " stopped" },
    };
    html! {
        (said)
        @if let Some(actor) = &change.actor { " by " b { (foreign(actor)) } }
        @if let Some(code) = &change.code { " " (error_code(code)) }
        @if let Some(detail) = &change.detail { ": " (foreign(&shortened(detail, DETAIL_LETTERS))) }
        @if change.times > 1 { ", " (count(change.times)) " times" }
    }
}

/// Whether it is about something that has a plugin.
fn plugin_of(kind: ChangeKind) -> bool {
    matches!(
        kind,
        ChangeKind::PluginLoaded
            | ChangeKind::PluginSwapped
            | ChangeKind::PluginRolledBack
            | ChangeKind::PluginRefused
            | ChangeKind::BreakerOpened
            | ChangeKind::BreakerClosed
    )
}

/// The list of changes.
pub fn changed(shown: &Part<Changed>, changes: &Changes<'_>, as_of: AsOf) -> Markup {
    let shown = match shown {
        Err(why) => return fault("What changed", why),
        Ok(shown) => shown,
    };
    if shown.items.is_empty() {
        let text =
            format!("Swaps, reloads, pauses, breakers and operations show here. Looked at since {}.", shown.since.0);
        return first_run(Icon::Audit, "Nothing changed", &text, None);
    }
    html! {
        ol.sheet.log { @for (place, change) in shown.items.iter().enumerate() {
            li {
                @match changes.number(place) {
                    Some(number) => { b.mark { (number) } }
                    None => { span {} }
                }
                span.q { (as_of.at(change.at)) }
                span { (words(change)) @if let Some(tenant) = &change.tenant { ", tenant " (foreign(tenant)) } }
            }
        } }
        p.more { span { "Since " (as_of.at(shown.since)) "; the audit trail has what people did for longer." } a href=(address::AUDIT) { "Audit" } }
    }
}

/// A course over the hour.
pub struct Course {
    pub values: Vec<Option<u64>>,
    pub unit: &'static str,
}

impl Course {
    /// The course of a measure, of all.
    pub fn of(history: &HistoryView, measure: Measure) -> Option<Self> {
        Self::with(history, measure, None)
    }

    /// The same of a transport, a relay or a source.
    pub fn with(history: &HistoryView, measure: Measure, of: Option<&str>) -> Option<Self> {
        let series = history.series.iter().find(|series| series.name == measure && series.of.as_deref() == of)?;
        Some(Self { values: series.points.clone(), unit: "" })
    }

    /// What is counted in ten seconds: by the second where that is much, else by the minute.
    pub fn into_rate(self) -> Self {
        if self.is_much() { self.a_second() } else { self.a_minute() }
    }

    fn is_much(&self) -> bool {
        self.values.iter().flatten().any(|value| *value >= SECONDS_FROM)
    }

    fn a_second(self) -> Self {
        let a_second = |value: &Option<u64>| value.map(|value| (value + 5) / 10);
        Self { values: self.values.iter().map(a_second).collect(), unit: "/s" }
    }

    /// What is counted in ten seconds, by the minute before each point.
    pub fn a_minute(self) -> Self {
        let a_minute = |(at, value): (usize, &Option<u64>)| {
            let from = (at + 1).saturating_sub(MINUTE_POINTS);
            value.map(|_| self.values.iter().take(at + 1).skip(from).flatten().sum::<u64>())
        };
        Self { values: self.values.iter().enumerate().map(a_minute).collect(), unit: "/min" }
    }

    /// As it is now.
    pub fn now(&self) -> Option<u64> {
        self.values.last().copied().flatten()
    }

    /// Of all that is known of the hour.
    pub fn sum(&self) -> u64 {
        self.values.iter().flatten().sum()
    }

    /// Whether anything of the hour is known.
    pub fn is_known(&self) -> bool {
        self.values.iter().any(Option::is_some)
    }
}

/// A pair of courses that one chart draws.
struct Pair {
    title: &'static str,
    tone: Tone,
    first: (&'static str, Course),
    second: Option<(&'static str, Course)>,
}

fn pairs(history: &HistoryView) -> Vec<Pair> {
    let course = |measure| Course::of(history, measure).filter(Course::is_known);
    // Both of a chart are told by the same time.
    let rates = |first: Course, second: Option<Course>| {
        let is_much = first.is_much();
        let told = |course: Course| if is_much { course.a_second() } else { course.a_minute() };
        (told(first), second.map(told))
    };
    let counted = |title, tone, (name, first): (&'static str, Measure), (beside, second): (&'static str, Measure)| {
        let (first, second) = rates(course(first)?, course(second));
        Some(Pair { title, tone, first: (name, first), second: second.map(|second| (beside, second)) })
    };
    let waiting = course(Measure::Waiting).map(|waiting| Pair {
        title: "Waiting",
        tone: Tone::Hold,
        first: ("in the order", waiting),
        second: course(Measure::Blocked).map(|blocked| ("held back", blocked)),
    });
    let all = [
        counted("Delivered", Tone::Rest, ("delivered", Measure::Delivered), ("accepted", Measure::Enqueued)),
        waiting,
        counted("New dead letters", Tone::Dead, ("dead", Measure::Dead), ("failed attempts", Measure::Retried)),
        counted("Sagas", Tone::Rest, ("ended", Measure::SagasEnded), ("started", Measure::SagasStarted)),
    ];
    all.into_iter().flatten().collect()
}

/// The charts of the last hour.
pub fn charts(history: &Part<HistoryView>, changes: &Changes<'_>, as_of: AsOf) -> Markup {
    let about = html! { "the marks are changes, listed below" };
    let history = match history {
        Err(why) => return section("The last hour", None, &fault("The last hour", why)),
        Ok(history) => history,
    };
    let pairs = pairs(history);
    if pairs.is_empty() {
        let text = format!("A point comes every ten seconds; the host has counted since {}.", history.since.0);
        return section("The last hour", None, &first_run(Icon::Clock, "Nothing was counted yet", &text, None));
    }
    let drawn = html! { div.sheet.charts { @for pair in &pairs { (one(pair, history, changes, as_of)) } } };
    section("The last hour", Some(&about), &drawn)
}

fn one(pair: &Pair, history: &HistoryView, changes: &Changes<'_>, as_of: AsOf) -> Markup {
    let Pair { title, tone, first: (name, first), second } = pair;
    let second = second.as_ref().map(|(name, course)| (*name, course));
    drawn((*title, *tone), (*name, first), second, (history, changes.marks(), as_of))
}

/// A chart of courses of a history.
pub fn drawn(
    (title, tone): (&str, Tone),
    (name, first): (&str, &Course),
    second: Option<(&str, &Course)>,
    (history, marks, as_of): (&HistoryView, &[Mark], AsOf),
) -> Markup {
    let points = u64::try_from(first.values.len().saturating_sub(1)).unwrap_or(u64::MAX);
    let to = Instant(UnixMillis(history.from.0.0.saturating_add(points.saturating_mul(history.step_ms))));
    let most = first.values.iter().flatten().max().copied().unwrap_or(0);
    let now = first.now().map_or("not known now".to_owned(), |now| format!("{} now", count(now)));
    let sentence = format!("{title} over the last hour: {name} {now}, {} {} at most.", count(most), first.unit);
    let beside = second.map(|(name, course)| Series { name, values: &course.values });
    chart(
        &Chart {
            title,
            unit: first.unit,
            tone,
            sentence: &sentence,
            first: Series { name, values: &first.values },
            second: beside,
            from: history.from,
            to,
            marks,
        },
        as_of,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn change(seconds: u64, kind: ChangeKind) -> ChangeView {
        let at = Instant(UnixMillis(1_700_000_000_000 + seconds * 1_000));
        ChangeView {
            id: seconds.to_string(),
            at,
            kind,
            object: "<bus>".into(),
            actor: Some("ann".into()),
            tenant: None,
            code: None,
            detail: Some("6 to 7".into()),
            times: 1,
            last_at: at,
        }
    }

    #[test]
    fn changes_of_the_hour_are_numbered_in_their_order_and_stand_beside_what_began_after_them() {
        let items = [900, 300, 100].map(|seconds| change(seconds, ChangeKind::PluginSwapped));
        let from = Instant(UnixMillis(1_700_000_200_000));
        let changes = Changes::new(&items, Some(from));
        assert_eq!((changes.number(0), changes.number(1), changes.number(2)), (Some(2), Some(1), None));
        let beside = changes.before(Instant(UnixMillis(1_700_000_480_000))).0;
        assert!(beside.contains("3 m 0 s after <b class=\"mark\">1</b>") && beside.contains("&lt;bus&gt;"), "{beside}");
        assert!(!beside.contains(">2</b>") && beside.contains("6 m 20 s after "), "{beside}");
        assert!(changes.before(Instant(UnixMillis(1_700_000_050_000))).0.is_empty());
        let unknown = Changes::new(&items, None);
        assert_eq!(unknown.number(0), None);
    }

    #[test]
    fn few_are_told_by_the_minute_and_many_by_the_second() {
        let course = |values: &[Option<u64>]| Course { values: values.to_vec(), unit: "" };
        let few = course(&[Some(1), Some(2), None, Some(3)]).into_rate();
        assert_eq!((few.values, few.unit), (vec![Some(1), Some(3), None, Some(6)], "/min"));
        let many = course(&[Some(4), Some(995)]).into_rate();
        assert_eq!((many.values, many.unit), (vec![Some(0), Some(100)], "/s"));
    }
}
