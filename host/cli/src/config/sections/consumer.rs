//! `[consumer.NAME]`.

use std::time::Duration;

use waybill_core::backoff::RetryPolicy;
use waybill_core::endpoint::{EndpointSettings, Grants, LimitOverlay};
use waybill_core::ids::ConsumerName;
use waybill_core::inbox::dlq::SUBJECT_DEFAULT;
use waybill_core::inbox::limits::{
    CONCURRENCY_DEFAULT, HANDLER_TIMEOUT_DEFAULT, MAX_ATTEMPTS_DEFAULT, STORED_MAX_DEFAULT,
};
use waybill_core::inbox::settings::{AcknowledgeRows, OnReusedId};
use waybill_core::route::Pattern;
use waybill_core::topic::{Scheme, Topic};

use super::transport::{check_name, grants, memory};
use super::{U32, u32_of, usize_of};
use crate::config::inbound::{Consumer, Direct, Dlq, Publish, Target};
use crate::config::kinds::Set;
use crate::config::plugins::Known;
use crate::config::problem::{Origin, Problem};
use crate::config::reader::{Key, Section, same};

/// A consumer with where what it says stands, for the checks that need the whole configuration.
pub struct ReadConsumer {
    pub consumer: Consumer,
    /// Of each source that it names.
    pub sources_at: Vec<Origin>,
    pub target_at: Origin,
    pub dlq_at: Origin,
    pub publish_at: Origin,
    pub at: Origin,
}

/// Names of the sources that read outbox tables.
#[derive(Clone, Copy)]
pub struct Tables<'a> {
    pub all: &'a [&'a str],
    /// Those with one consumer.
    pub of_one: &'a [&'a str],
}

pub fn consumer(
    mut section: Section<'_, '_>,
    name: &str,
    plugins: &Known<'_>,
    tables: Tables<'_>,
    outbox: RetryPolicy,
) -> Option<ReadConsumer> {
    check_name(&mut section, "consumer", name);
    let fed_by = section.text_or_texts("source", "the name of a source, or a list of them", &[]);
    if fed_by.is_empty() {
        let problem = Problem::Missing {
            section: section.heading(),
            key: "source".into(),
            fix: "write source = \"NAME\" of a [source.NAME]".into(),
        };
        section.problem_at(problem, section.at.clone());
    }
    let only = match fed_by.as_slice() {
        [only] => only.value.as_str(),
        _ => "",
    };
    let (of_table, alone) = (tables.all.contains(&only), tables.of_one.contains(&only));
    let matches = matches(&mut section);
    let target = target(&mut section, name, plugins);
    let is_forwarded = matches!(&target, Some(Set { value: Target::Topic(_), .. }));
    let publish_default = if alone && is_forwarded { "direct" } else { "stored" };
    let publish_at = section.text("publish", "\"stored\" or \"direct\"", publish_default);
    let direct = Direct {
        lanes: u32_of(section.integer("lanes", 4, 1..=64)),
        batch: u32_of(section.integer("batch", 200, 1..=10_000)),
        timeout: section.duration("direct_timeout", Duration::from_secs(5), Duration::from_millis(100)),
    };
    let publish = match publish_at.value.as_str() {
        "stored" => Publish::Stored,
        "direct" => Publish::Direct(direct),
        _ => {
            section.refuse("publish", &publish_at, "it takes \"stored\" or \"direct\"");
            Publish::Stored
        }
    };
    if publish_at.value == "stored" {
        idle(&mut section, &["lanes", "batch", "direct_timeout"], "publish = \"direct\"");
    }
    let subject = section.text("dlq_subject", "a subject, with {context} and {subject}", SUBJECT_DEFAULT);
    check_template(&mut section, "dlq_subject", &subject);
    let dlq = section.optional_boolean("dlq");
    let concurrency = section.integer("concurrency", CONCURRENCY_DEFAULT.into(), 1..=10_000);
    let stored_max = section.integer("stored_max", STORED_MAX_DEFAULT as u64, 1..=10_000_000);
    let normal = match publish {
        // What waits in a table of the application's waits as its own publisher had it wait (source document 4).
        Publish::Direct(_) => outbox,
        Publish::Stored => RetryPolicy { max_attempts: MAX_ATTEMPTS_DEFAULT, ..RetryPolicy::default() },
    };
    let max_attempts = section.integer(
        Key::new("max_attempts").aliases(const { &[same("max_deliver"), same("max_retries")] }),
        normal.max_attempts.into(),
        1..=10_000,
    );
    let retry = RetryPolicy { max_attempts: u32_of(max_attempts), ..backoff(section.sub("backoff"), normal) };
    let handler_timeout = section.duration("handler_timeout", HANDLER_TIMEOUT_DEFAULT, Duration::from_millis(100));
    let on_reused = [("dead", OnReusedId::Dead), ("duplicate", OnReusedId::Duplicate)];
    let on_reused_id = section.choice("on_reused_id", "dead", &on_reused);
    let when = [("when-finished", AcknowledgeRows::WhenFinished), ("at-once", AcknowledgeRows::AtOnce)];
    let acknowledge_rows = section.choice("acknowledge_rows", "when-finished", &when);
    let idempotent = section.boolean("idempotent", true);
    let at = section.at.clone();
    section.done();
    let mut target = target?;
    if let Target::Component { endpoint } = &mut target.value {
        // Calls on a plugin that is replaced end by themselves.
        endpoint.policy.drain_timeout = endpoint.policy.drain_timeout.max(handler_timeout);
    }
    let dlq_at = dlq.as_ref().map_or_else(|| at.clone(), |set| set.origin.clone());
    let dlq = match dlq.map(|set| set.value) {
        Some(true) => Dlq::On(subject.value),
        Some(false) => Dlq::Off,
        None if of_table => Dlq::Off,
        None => Dlq::IfRouted(subject.value),
    };
    let sources_at = fed_by.iter().map(|set| set.origin.clone()).collect();
    Some(ReadConsumer {
        consumer: Consumer {
            name: ConsumerName::new(name).ok()?,
            sources: fed_by.into_iter().map(|set| set.value).collect(),
            matches,
            target: target.value,
            publish,
            dlq,
            concurrency: u32_of(concurrency),
            stored_max: usize_of(stored_max),
            retry,
            handler_timeout,
            on_reused_id: on_reused_id.unwrap_or_default(),
            acknowledge_rows: acknowledge_rows.unwrap_or_default(),
            idempotent,
        },
        sources_at,
        target_at: target.origin,
        dlq_at,
        publish_at: publish_at.origin,
        at,
    })
}

/// Refuses keys that are set, and do nothing without another one.
fn idle(section: &mut Section<'_, '_>, keys: &[&str], without: &str) {
    for key in keys {
        if let Some((value, origin)) = section.written(key) {
            section.refuse(key, &Set { value, origin }, format!("it has no effect without {without}"));
        }
    }
}

/// Subject patterns as in routes; `>` at the end is another name of `**`.
fn matches(section: &mut Section<'_, '_>) -> Vec<Pattern> {
    let key = Key::new("match").aliases(const { &[same("filter_subject")] });
    let written = section.text_or_texts(key, "subject patterns, e.g. [\"orders.**\"]", &[]);
    let mut patterns = Vec::new();
    for set in written {
        let subject = match set.value.strip_suffix(".>") {
            Some(before) => format!("{before}.**"),
            None if set.value == ">" => "**".to_owned(),
            None => set.value.clone(),
        };
        match Pattern::parse(&format!("bus:{subject}")) {
            Ok(pattern) => patterns.push(pattern),
            Err(error) => section.refuse("match", &set, error.cause),
        }
    }
    patterns
}

/// What happens with its messages: `deliver` or `handler`, one of them.
fn target(section: &mut Section<'_, '_>, name: &str, plugins: &Known<'_>) -> Option<Set<Target>> {
    let deliver = section.optional_text("deliver", "a topic, which may hold {names}, or \"saga\"");
    let handler = section.optional_text("handler", "\"http:URL\" or \"fn:PLUGIN\"");
    let component = EndpointSettings {
        instances: u32_of(section.integer("instances", 8, 1..=1_000)),
        config: section.document("config"),
        grants: grants(section, bounds),
        ..EndpointSettings::new(name)
    };
    let file = section.optional_text("plugin", "the path of a .wasm, if its name alone doesn't find it");
    if handler.as_ref().is_none_or(|handler| !handler.value.starts_with("fn:")) {
        idle(section, &["instances", "memory", "config", "plugin"], "handler = \"fn:PLUGIN\"");
    }
    match (deliver, handler) {
        (Some(deliver), None) if deliver.value == "saga" => Some(Set { value: Target::Saga, origin: deliver.origin }),
        (Some(deliver), None) => {
            check_template(section, "deliver", &deliver);
            // Names stand for what a message has, so the rest of it has to be right already.
            if let Err(error) = Topic::parse(&deliver.value.replace(['{', '}'], "")) {
                section.refuse("deliver", &deliver, error.to_string());
            }
            Some(Set { value: Target::Topic(deliver.value), origin: deliver.origin })
        }
        (None, Some(handler)) => handled_by(section, handler, component, file, plugins),
        (Some(_), Some(handler)) => {
            let problem = Problem::Duplicate {
                what: format!("deliver and handler are both there in {}", section.heading()),
                fix: "keep one of them".into(),
            };
            section.problem_at(problem, handler.origin);
            None
        }
        (None, None) => {
            let problem = Problem::Missing {
                section: section.heading(),
                key: "deliver and no handler".into(),
                fix: "write deliver = \"TOPIC\", deliver = \"saga\", handler = \"http:URL\" or handler = \"fn:PLUGIN\""
                    .into(),
            };
            section.problem_at(problem, section.at.clone());
            None
        }
    }
}

fn handled_by(
    section: &mut Section<'_, '_>,
    handler: Set<String>,
    component: EndpointSettings,
    file: Option<Set<String>>,
    plugins: &Known<'_>,
) -> Option<Set<Target>> {
    let origin = handler.origin.clone();
    if let Some(plugin) = handler.value.strip_prefix("fn:") {
        if plugin.contains('/') {
            let fix = "a component has one handler, so nothing follows its name: write \"fn:PLUGIN\", the path of a .wasm as \
                       plugin = \"...\", and what this consumer is to it in its config";
            section.refuse("handler", &handler, fix);
            return None;
        }
        let by_name = Set { value: plugin.to_owned(), origin: origin.clone() };
        let plugin = plugins.source(section, file.as_ref().unwrap_or(&by_name))?;
        let endpoint = Box::new(EndpointSettings { plugin, ..component });
        return Some(Set { value: Target::Component { endpoint }, origin });
    }
    match Topic::parse(&handler.value) {
        Ok(url) if url.scheme() == Scheme::Http => {
            let grants = match component.grants.peers.is_empty() {
                true => Grants { limits: component.grants.limits, ..Grants::loopback_http() },
                false => component.grants,
            };
            Some(Set { value: Target::Http { url, grants }, origin })
        }
        Ok(_) => {
            section.refuse("handler", &handler, "it takes \"http:URL\" or \"fn:PLUGIN\"; a topic is for deliver");
            None
        }
        Err(error) => {
            section.refuse("handler", &handler, error.to_string());
            None
        }
    }
}

/// The bounds of a handler that is a component.
fn bounds(section: &mut Section<'_, '_>) -> LimitOverlay {
    LimitOverlay { memory_bytes: memory(section), ..LimitOverlay::default() }
}

/// Refuses braces that don't enclose a name.
fn check_template(section: &mut Section<'_, '_>, key: &str, written: &Set<String>) {
    let mut rest = written.value.as_str();
    while let Some((before, inside)) = rest.split_once('{') {
        let name = inside.split_once('}').map(|(name, after)| {
            rest = after;
            name
        });
        let is_name = name.is_some_and(|name| {
            !name.is_empty() && name.bytes().all(|c| c.is_ascii_alphanumeric() || matches!(c, b'_' | b'-' | b':'))
        });
        if before.contains('}') || !is_name {
            section.refuse(key, written, "{ and } enclose the name of a column or field, e.g. \"bus:{routing_key}\"");
            return;
        }
    }
    if rest.contains('}') {
        section.refuse(key, written, "there is a } without a {");
    }
}

fn backoff(mut section: Section<'_, '_>, normal: RetryPolicy) -> RetryPolicy {
    let base_ms = section.integer("base_ms", normal.base_ms, 1..=U32);
    let factor = section.number("factor", normal.factor, 1.0..=100.0);
    let jitter = section.number("jitter", normal.jitter, 0.0..=1.0);
    let cap_ms = section.integer("cap_ms", normal.cap_ms, 1..=U32);
    if cap_ms < base_ms {
        let set = Set { value: cap_ms, origin: section.at.clone() };
        section.refuse("cap_ms", &set, format!("it is below base_ms = {base_ms}"));
    }
    section.done();
    RetryPolicy { base_ms, factor, jitter, cap_ms, ..normal }
}
