//! `[transport.NAME]` and `[[route]]`.

use std::time::Duration;

use waybill_core::limits::REQUEST_MESSAGES_MAX;
use waybill_core::route::{Pattern, Route};
use waybill_sandbox::{ReloadPolicy, SlotPolicy};

use super::{DAY, SIZE_MAX, u32_of};
use crate::config::kinds::Set;
use crate::config::model::{Allowed, TransportSettings};
use crate::config::plugins::Known;
use crate::config::problem::{Origin, Problem};
use crate::config::reader::Section;

/// Reads `[transport.NAME]`.
pub fn transport(mut section: Section<'_, '_>, name: &str, plugins: &Known<'_>) -> Option<TransportSettings> {
    check_name(&mut section, "transport", name);
    let plugin = section.required_text("plugin", "a bundled plugin, or the path of a .wasm", "\"http\"");
    let source = plugin.and_then(|written| plugins.source(&mut section, &written));
    let instances = section.integer("instances", 1, 1..=64);
    let policy = policy(&mut section);
    let sha256 = sha256(&mut section);
    let watch = section.boolean("watch", false);
    let config = section.document("config");
    let allow = allow(section.sub("allow"));
    let secrets = section.secrets("secrets");
    let memory = section.optional_size("memory", None, 1 << 16..=4 << 30);
    let cpu_per_call = section.optional_duration("cpu_per_call", None, Duration::from_millis(10));
    let connections = section.optional_integer("connections", None, 1..=10_000);
    let log_per_second = section.optional_integer("log_per_second", None, 1..=10_000);
    let max_batch = section.optional_integer("max_batch", None, 1..=REQUEST_MESSAGES_MAX as u64);
    let send_timeout = section.optional_duration("send_timeout", None, Duration::from_millis(100));
    let http_in_flight = section.optional_integer("http_in_flight", None, 1..=100_000);
    let http_per_peer = section.optional_integer("http_per_peer", None, 1..=100_000);
    let provision = section.boolean("provision", false);
    section.done();
    Some(TransportSettings {
        name: name.to_owned(),
        plugin: source?,
        instances: u32_of(instances),
        config,
        allow,
        secrets,
        memory,
        cpu_per_call,
        connections,
        log_per_second: log_per_second.map(u32_of),
        max_batch: max_batch.map(u32_of),
        send_timeout,
        http_in_flight,
        http_per_peer,
        provision,
        sha256,
        watch,
        policy,
    })
}

/// How a new version of the plugin takes over.
fn policy(section: &mut Section<'_, '_>) -> SlotPolicy {
    let normal = SlotPolicy::default();
    let orders = [("overlap", ReloadPolicy::Overlap), ("stop-start", ReloadPolicy::StopStart)];
    let reload = section.choice("reload", "overlap", &orders);
    let probation = section.duration("probation", normal.probation, Duration::ZERO);
    let drain_timeout = section.duration("drain_timeout", normal.drain_timeout, Duration::from_secs(1));
    SlotPolicy { reload: reload.unwrap_or_default(), probation, drain_timeout }
}

/// The digest that the component must have: 64 hex digits, `sha256:` before them or not.
fn sha256(section: &mut Section<'_, '_>) -> Option<String> {
    let written = section.optional_text("sha256", "the sha-256 of the component, 64 hex digits")?;
    let hex = written.value.strip_prefix("sha256:").unwrap_or(&written.value);
    if hex.len() != 64 || !hex.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        section.refuse("sha256", &written, "it takes 64 hex digits, as `waybill plugin inspect FILE` shows them");
        return None;
    }
    Some(format!("sha256:{}", hex.to_ascii_lowercase()))
}

/// Longest name of a transport or participant, in bytes: it becomes a metric label.
const NAME_BYTES_MAX: usize = 64;

/// Refuses a name that can't be one.
pub(super) fn check_name(section: &mut Section<'_, '_>, kind: &str, name: &str) {
    let good = !name.is_empty()
        && name.len() <= NAME_BYTES_MAX
        && name.bytes().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == b'-' || c == b'_');
    if !good {
        let problem = Problem::BadValue {
            key: format!("the name of a {kind}"),
            value: format!("{name:?}"),
            cause: format!("it takes a-z, 0-9, - and _, at most {NAME_BYTES_MAX} of them"),
        };
        section.problem_at(problem, section.at.clone());
    }
}

/// Peers, and the size of durable state, that a plugin may use.
pub(super) fn allow(mut section: Section<'_, '_>) -> Allowed {
    let mut peers = Vec::new();
    for key in ["net", "http"] {
        let takes = "an array of peers, e.g. [\"tcp://broker:4222\", \"https://*.example.com\"]";
        peers.extend(section.texts(key, takes, &[]).into_iter().map(|set| set.value));
    }
    let internal = section.boolean("internal", false);
    let kv = section.optional_size("kv", None, 1..=SIZE_MAX);
    section.done();
    Allowed { peers, internal, kv }
}

/// How long a route remembers payloads; none = not at all.
fn dedup(section: &mut Section<'_, '_>) -> Option<Duration> {
    let wanted = section.choice("dedup", "off", &[("off", false), ("payload", true)])?;
    let window = section.optional_duration("dedup_window", wanted.then_some(DAY), Duration::from_secs(1))?;
    if wanted {
        return Some(window);
    }
    let at = section.at.clone();
    let set = Set { value: humantime::format_duration(window), origin: at };
    section.refuse("dedup_window", &set, "it has no effect without dedup = \"payload\"".to_owned());
    None
}

/// Reads one `[[route]]`; the transport's origin is answered for the check that it exists.
pub fn route(mut section: Section<'_, '_>) -> Option<(Set<Route>, Origin)> {
    let pattern = section.required_text("match", "a topic pattern", "\"bus:orders.**\"");
    let transport = section.required_text("transport", "the name of a transport", "\"orders-nats\"");
    let parsed = pattern.as_ref().and_then(|written| match Pattern::parse(&written.value) {
        Ok(pattern) => Some(pattern),
        Err(error) => {
            section.refuse("match", written, error.cause);
            None
        }
    });
    let dedup = dedup(&mut section);
    section.done();
    let (pattern, transport) = (pattern?, transport?);
    let route = Route { pattern: parsed?, transport: transport.value, dedup };
    Some((Set { value: route, origin: pattern.origin }, transport.origin))
}
