//! `[alert]`.

use std::time::Duration;

use waybill_core::alert::{AlertSettings, Bounds, Format, Pace, Target};
use waybill_core::route::Routes;
use waybill_core::topic::Topic;

use super::{SECOND, SIZE_MAX, U32};
use crate::config::kinds::Set;
use crate::config::problem::{Origin, Problem};
use crate::config::reader::Section;
use crate::config::size::format_size;

const MINUTE: Duration = Duration::from_secs(60);
/// Least `disk_free_below`: the reserve that is given to the alert doesn't end what it tells.
const DISK_LEAST: u64 = 64 << 20;
/// Longest `after`: a plugin counts as rolled back for ten minutes.
const AFTER_MAX: Duration = Duration::from_secs(300);
const FORMATS: [(&str, Format); 3] =
    [("json", Format::Json), ("slack", Format::Slack), ("alertmanager", Format::Alertmanager)];

/// Keys that say where alerts go.
struct Keys {
    transport: &'static str,
    topic: &'static str,
    format: &'static str,
}

const FIRST: Keys = Keys { transport: "transport", topic: "topic", format: "format" };
const FALLBACK: Keys = Keys { transport: "fallback", topic: "fallback_topic", format: "fallback_format" };

/// Reads `[alert]`; none = there are no alerts.
pub fn alert(mut section: Section<'_, '_>, routes: &Routes) -> Option<AlertSettings> {
    let to = target(&mut section, &FIRST, routes);
    let fallback = target(&mut section, &FALLBACK, routes);
    let pace = Pace {
        after: section.duration("after", Duration::from_secs(30), Duration::ZERO),
        clear_after: section.duration("clear_after", 2 * MINUTE, SECOND),
    };
    if pace.after > AFTER_MAX {
        let set = Set { value: humantime::format_duration(pace.after), origin: origin(&section, "after") };
        section.refuse("after", &set, format!("it takes at most {}", humantime::format_duration(AFTER_MAX)));
    }
    let bounds = bounds(&mut section);
    if let (Some(to), Some(fallback)) = (&to, &fallback)
        && to.transport == fallback.transport
    {
        let set = Set { value: fallback.transport.clone(), origin: origin(&section, "fallback") };
        section.refuse("fallback", &set, "it is alert.transport: name another one, which works where that one doesn't");
    }
    let is_named = [FIRST.transport, FIRST.topic].iter().any(|key| section.written(key).is_some());
    if section.in_file() && !is_named {
        missing(&mut section, "transport", "name the transport that takes alerts, or remove the section");
    }
    section.done();
    Some(AlertSettings { to: to?, fallback, pace, bounds })
}

fn bounds(section: &mut Section<'_, '_>) -> Bounds {
    let disk_free = section.size("disk_free_below", 1 << 30, 0..=SIZE_MAX);
    if (1..DISK_LEAST).contains(&disk_free) {
        let set = Set { value: format_size(disk_free), origin: origin(section, "disk_free_below") };
        let least = format_size(DISK_LEAST);
        section.refuse("disk_free_below", &set, format!("it takes 0, which is never, or at least {least}"));
    }
    Bounds {
        dead: count(section.integer("dead_letters_at", 100, 0..=U32)),
        oldest: time(section.duration("oldest_at", 15 * MINUTE, Duration::ZERO)),
        stuck: count(section.integer("stuck_sagas_at", 1, 0..=U32)),
        breaker: section.boolean("breaker", true),
        rollback: section.boolean("rollback", true),
        disk_free: count(disk_free),
        relay_lag: time(section.duration("relay_lag_at", 5 * MINUTE, Duration::ZERO)),
        source_lag: count(section.integer("source_lag_at", 100_000, 0..=U32)),
    }
}

/// A bound of zero means never.
fn count(at: u64) -> Option<u64> {
    (at > 0).then_some(at)
}

fn time(at: Duration) -> Option<Duration> {
    (!at.is_zero()).then_some(at)
}

/// Where a key is set.
fn origin(section: &Section<'_, '_>, key: &str) -> Origin {
    section.written(key).map_or_else(|| section.at.clone(), |(_, origin)| origin)
}

/// A transport, and a topic that routes lead to it.
fn target(section: &mut Section<'_, '_>, keys: &Keys, routes: &Routes) -> Option<Target> {
    let transport = section.optional_text(keys.transport, "the name of a transport");
    let takes = "a topic that a [[route]] leads to that transport, e.g. \"https://hooks.example.com/ops\"";
    let topic = section.optional_text(keys.topic, takes);
    let format = section.choice(keys.format, "json", &FORMATS).unwrap_or_default();
    let (transport, topic) = match (transport, topic) {
        (Some(transport), Some(topic)) => (transport, topic),
        (None, None) => return None,
        (Some(_), None) => return missing(section, keys.topic, "write where that transport sends alerts"),
        (None, Some(_)) => return missing(section, keys.transport, "name the transport that takes that topic"),
    };
    let parsed = match Topic::parse(&topic.value) {
        Ok(parsed) => parsed,
        Err(error) => {
            section.refuse(keys.topic, &topic, error.to_string());
            return None;
        }
    };
    let name = &transport.value;
    match routes.find(&parsed) {
        None => {
            let cause = format!("no [[route]] takes it: write one with transport = {name:?}");
            section.refuse(keys.topic, &topic, cause);
            None
        }
        Some(route) if route.transport != *name => {
            let (pattern, other) = (route.pattern.as_str(), &route.transport);
            let cause = format!(
                "the [[route]] for {pattern:?} leads {} to {other:?}: name that one, or write a route for the topic before it",
                keys.topic
            );
            section.refuse(keys.transport, &transport, cause);
            None
        }
        Some(_) => Some(Target { transport: transport.value, topic: topic.value, format }),
    }
}

fn missing(section: &mut Section<'_, '_>, key: &str, fix: &str) -> Option<Target> {
    let problem = Problem::Missing { section: section.heading(), key: key.to_owned(), fix: fix.to_owned() };
    let at = section.at.clone();
    section.problem_at(problem, at);
    None
}
