//! What sources and consumers have to be together, and with the routes.

use std::time::Duration;

use waybill_core::endpoint::{PluginRef, ReloadPolicy};
use waybill_core::glob::Glob;
use waybill_core::outbox::suspicion::Caution;
use waybill_core::route::Routes;
use waybill_core::suggest::nearest;

use super::inbound::{Dlq, InboxSettings, Publish, Source, Target};
use super::model::OutboxSettings;
use super::problem::{Origin, Problem};
use super::reader::Reader;
use super::sections::ReadConsumer;

/// Checks the whole; `bounds` are those of inbox and outbox.
pub(super) fn check(
    reader: &mut Reader<'_>,
    sources: &[Source],
    consumers: &[ReadConsumer],
    routes: &Routes,
    bounds: (&InboxSettings, &OutboxSettings),
    warnings: &mut Vec<String>,
) {
    for read in consumers {
        let found = fed_by(reader, read, sources);
        one_home(reader, read, &found);
        directly(reader, read, &found, consumers);
        tables(reader, read, &found);
        destinations(reader, read, routes);
        warnings.extend(forgotten_too_soon(read, &found, bounds));
        if matches!(read.consumer.target, Target::Topic(_))
            && matches!(read.consumer.publish, Publish::Stored)
            && bounds.0.max_payload_bytes > bounds.1.max_payload_bytes
        {
            warnings.push(format!(
                "consumer {:?} sends on what the inbox takes, and outbox.max_payload_bytes is below inbox.max_payload_bytes: \
                 what is larger becomes a dead letter",
                read.consumer.name.as_str()
            ));
        }
    }
    for source in sources {
        let name = source.name.as_str();
        if !consumers.iter().any(|read| read.consumer.sources.iter().any(|fed_by| fed_by == name)) {
            warnings.push(format!(
                "no [consumer.NAME] takes from source {name:?}: all that it brings becomes a dead letter (INBOX.NO_CONSUMER)"
            ));
        }
    }
}

fn refuse(reader: &mut Reader<'_>, key: String, value: &str, cause: String, at: &Origin) {
    reader.problem(Problem::BadValue { key, value: format!("{value:?}"), cause }, at.clone());
}

fn key_of(read: &ReadConsumer, key: &str) -> String {
    format!("consumer.{}.{key}", read.consumer.name)
}

/// The sources that feed a consumer, as far as they are there.
fn fed_by<'s>(reader: &mut Reader<'_>, read: &ReadConsumer, sources: &'s [Source]) -> Vec<&'s Source> {
    let mut found = Vec::new();
    for (name, at) in read.consumer.sources.iter().zip(&read.sources_at) {
        match sources.iter().find(|source| source.name.as_str() == name) {
            Some(source) => found.push(source),
            None => {
                let meant = nearest(name, sources.iter().map(|source| source.name.as_str()));
                let cause = match meant {
                    Some(meant) => format!("there is no [source.{name}]: did you mean {meant:?}?"),
                    None => format!("there is no [source.{name}]"),
                };
                refuse(reader, key_of(read, "source"), name, cause, at);
            }
        }
    }
    found
}

/// A consumer lives on one host, so all that feeds it has one home: else one id could be handled twice.
fn one_home(reader: &mut Reader<'_>, read: &ReadConsumer, found: &[&Source]) {
    let [first, others @ ..] = found else { return };
    for other in others.iter().filter(|other| other.home != first.home) {
        let cause = format!(
            "it has another home than {:?}, and what one consumer has seen lies in one place: give both sources one home = \"...\"",
            first.name.as_str()
        );
        let at = read.sources_at.first().unwrap_or(&read.at);
        refuse(reader, key_of(read, "source"), other.name.as_str(), cause, at);
    }
}

/// What publishing from a table needs: one table, one consumer, a transport.
fn directly(reader: &mut Reader<'_>, read: &ReadConsumer, found: &[&Source], consumers: &[ReadConsumer]) {
    if read.consumer.publish == Publish::Stored {
        return;
    }
    let mut not = |cause: &str| {
        let fix = format!("{cause}: write publish = \"stored\"");
        refuse(reader, key_of(read, "publish"), "direct", fix, &read.publish_at);
    };
    let shares = |name: &str| {
        consumers.iter().filter(|other| other.consumer.sources.iter().any(|source| source == name)).count() > 1
    };
    match found {
        [only] if shares(only.name.as_str()) => not("other consumers take from this source, too"),
        [only] if !only.is_table && matches!(only.endpoint.plugin, PluginRef::Bundled(_)) => {
            not("its source reads no table")
        }
        [_] => {}
        _ => not("it takes from several sources"),
    }
    if !matches!(read.consumer.target, Target::Topic(_)) {
        not("only what goes on to a transport is marked in its table by the transport's word");
    }
    if !read.consumer.matches.is_empty() {
        not("it takes some subjects only, and the others would wait in the table for ever");
    }
    for source in found {
        let endpoint = &source.endpoint;
        let mut idle = |key: &str, value: &str, cause: &str| {
            let path = format!("source.{}.{key}", source.name);
            let at = reader.shown.iter().find(|shown| shown.path == path).map(|shown| shown.origin.clone());
            let cause = format!("its rows are published directly, and {cause}: leave {key} out");
            refuse(reader, path, value, cause, &at.unwrap_or_else(|| read.publish_at.clone()));
        };
        if endpoint.watch {
            let cause = "such a table keeps its plugin until its section changes or the host is restarted";
            idle("watch", "true", cause);
        }
        if endpoint.policy.reload == ReloadPolicy::Overlap {
            idle("reload", "overlap", "such a table has ended before it begins with other settings");
        }
    }
    if matches!(read.consumer.dlq, Dlq::On(_)) {
        let cause = "with publish = \"direct\" what is given up stays in its table: write publish = \"stored\", or leave dlq out";
        refuse(reader, key_of(read, "dlq"), "true", cause.to_owned(), &read.dlq_at);
    }
}

/// A handler works while its row is claimed, which a table without a status can't show to other workers.
fn tables(reader: &mut Reader<'_>, read: &ReadConsumer, found: &[&Source]) {
    let is_handled = matches!(read.consumer.target, Target::Http { .. } | Target::Component { .. });
    for source in found.iter().filter(|source| source.is_table && is_handled) {
        let config = &source.endpoint.config;
        let text = |key: &str| config.get(key).and_then(serde_json::Value::as_str);
        let is_mapped = config.pointer("/columns/status").is_some();
        if text("layout") == Some("published") && !is_mapped {
            let cause = format!(
                "the table of source {:?} has no column for status and claim, which a handler needs: map one with \
                 config.columns.status, or deliver to a topic",
                source.name.as_str()
            );
            refuse(reader, key_of(read, "handler"), "of a table", cause, &read.target_at);
        }
    }
}

/// While a message that kills the host is found among its neighbours, they come again and again: what other consumers have finished of
/// them must be known for as long.
fn forgotten_too_soon(
    read: &ReadConsumer,
    found: &[&Source],
    (inbox, outbox): (&InboxSettings, &OutboxSettings),
) -> Option<String> {
    let consumer = &read.consumer;
    if !matches!(consumer.target, Target::Http { .. } | Target::Component { .. }) {
        return None;
    }
    // Another host takes over after one and a half times that.
    let takeover = outbox.owner_ttl.saturating_mul(3) / 2;
    let comes_again = found.iter().filter_map(|source| source.orphan_wait).max().unwrap_or_default();
    let until_called = takeover.saturating_add(comes_again).saturating_add(consumer.handler_timeout);
    // Twice as many as are called at once are named.
    let takes = Caution::default().conviction(consumer.concurrency.saturating_mul(2), until_called);
    let takes = Duration::from_secs(takes.as_secs());
    let words = humantime::format_duration;
    (inbox.dedup_window < takes).then(|| {
        format!(
            "inbox.dedup_window is {}, and it may take {} until a message of consumer {:?} that kills the host is told from its neighbours \
             (outbox.owner_ttl, handler_timeout, concurrency): those may be processed again: set inbox.dedup_window to that or more",
            words(inbox.dedup_window),
            words(takes),
            consumer.name.as_str()
        )
    })
}

/// What a consumer sends has a route that could take it.
fn destinations(reader: &mut Reader<'_>, read: &ReadConsumer, routes: &Routes) {
    if let Target::Topic(topic) = &read.consumer.target
        && !is_routed(routes, topic)
    {
        let cause = "no [[route]] takes such a topic, so nothing of it would ever be delivered".to_owned();
        refuse(reader, key_of(read, "deliver"), topic, cause, &read.target_at);
    }
    if let Dlq::On(subject) = &read.consumer.dlq
        && !is_routed(routes, &format!("bus:{subject}"))
    {
        let cause = format!("no [[route]] takes \"bus:{subject}\": add one, or leave dlq out");
        refuse(reader, key_of(read, "dlq"), "true", cause, &read.dlq_at);
    }
}

/// Whether a route could take a topic that holds `{names}`.
pub fn is_routed(routes: &Routes, topic: &str) -> bool {
    routes.0.iter().any(|route| could_take(route.pattern.as_str(), topic))
}

fn could_take(pattern: &str, topic: &str) -> bool {
    let (Some((scheme, wanted)), Some((other, name))) = (pattern.split_once(':'), topic.split_once(':')) else {
        return false;
    };
    if matches!(other, "http" | "https") {
        // URLs have rules of their own; what names none could be any.
        return matches!(scheme, "http" | "https");
    }
    let split = |text: &str| text.split('.').map(str::to_owned).collect::<Vec<_>>();
    scheme == other && overlap(&split(wanted), &split(name))
}

/// Whether some text fits both: tokens of a pattern, and tokens of which those with a name in braces stand for one or more.
fn overlap(pattern: &[String], name: &[String]) -> bool {
    match (pattern, name) {
        ([], []) => true,
        ([rest], [_, ..]) if rest == "**" => true,
        ([], _) | (_, []) => false,
        ([_, pattern_rest @ ..], [token, name_rest @ ..]) if token.contains('{') => {
            overlap(pattern_rest, name_rest) || overlap(pattern_rest, name)
        }
        ([wanted, pattern_rest @ ..], [token, name_rest @ ..]) => {
            Glob::new(wanted.as_str()).matches(token) && overlap(pattern_rest, name_rest)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_route_could_take_what_some_message_would_make_of_a_template() {
        for (pattern, topic) in [
            ("bus:**", "bus:{routing_key}"),
            ("bus:orders.**", "bus:{routing_key}"),
            ("bus:orders.paid", "bus:{routing_key}"),
            ("bus:*.dlq.**", "bus:{context}.dlq.{subject}"),
            ("bus:sales.dlq.**", "bus:{context}.dlq.{subject}"),
            ("bus:sea.event.*.v1", "bus:sea.event.{event_type}.v{event_version}"),
            ("https://shop.example/**", "https://shop.example/{key}"),
        ] {
            assert!(could_take(pattern, topic), "{pattern} {topic}");
        }
        for (pattern, topic) in [
            ("bus:orders.**", "bus:orders"),
            ("bus:stock.**", "bus:orders.{key}"),
            ("custom:**", "bus:{routing_key}"),
            ("http:**", "bus:{routing_key}"),
        ] {
            assert!(!could_take(pattern, topic), "{pattern} {topic}");
        }
    }
}
