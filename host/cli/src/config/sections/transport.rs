//! `[transport.NAME]` and `[[route]]`.

use std::time::Duration;

use waybill_core::endpoint::{EndpointSettings, Grants, LimitOverlay, MessageIds, ReloadPolicy, SlotPolicy};
use waybill_core::limits::REQUEST_MESSAGES_MAX;
use waybill_core::port::kv::KvQuota;
use waybill_core::route::{Pattern, Route};

use super::{DAY, SIZE_MAX, rate, u32_of, usize_of};
use crate::config::kinds::Set;
use crate::config::plugins::Known;
use crate::config::problem::{Origin, Problem};
use crate::config::reader::Section;

pub fn transport(mut section: Section<'_, '_>, name: &str, plugins: &Known<'_>) -> Option<EndpointSettings> {
    check_name(&mut section, "transport", name);
    let plugin = section.required_text("plugin", "a bundled plugin, or the path of a .wasm", "\"http\"");
    let plugin = plugin.and_then(|written| plugins.source(&mut section, &written));
    let normal = EndpointSettings::new(name);
    let settings = EndpointSettings {
        instances: u32_of(section.integer("instances", normal.instances.into(), 1..=64)),
        policy: policy(&mut section, normal.policy),
        sha256: sha256(&mut section),
        watch: section.boolean("watch", normal.watch),
        config: section.document("config"),
        grants: grants(&mut section, limits),
        provision: section.boolean("provision", normal.provision),
        message_ids: message_ids(&mut section),
        rate: rate(&mut section),
        ..normal
    };
    section.done();
    Some(EndpointSettings { plugin: plugin?, ..settings })
}

fn message_ids(section: &mut Section<'_, '_>) -> MessageIds {
    let Some(written) = section.optional_text("message_id", "a template of ids, e.g. \"outbox-{id}\"") else {
        return MessageIds::default();
    };
    MessageIds::parse(&written.value).unwrap_or_else(|cause| {
        section.refuse("message_id", &written, cause);
        MessageIds::default()
    })
}

/// The bounds that an operator sets.
fn limits(section: &mut Section<'_, '_>) -> LimitOverlay {
    limits_with(section, |section| section.optional_duration("send_timeout", None, Duration::from_millis(100)))
}

/// The same with what bounds a call, if anything does.
pub(super) fn limits_with(
    section: &mut Section<'_, '_>,
    call_time: impl FnOnce(&mut Section<'_, '_>) -> Option<Duration>,
) -> LimitOverlay {
    LimitOverlay {
        memory_bytes: memory(section),
        cpu_per_call: section.optional_duration("cpu_per_call", None, Duration::from_millis(10)),
        connections: section.optional_integer("connections", 1..=10_000).map(usize_of),
        log_per_second: section.optional_integer("log_per_second", 1..=10_000).map(u32_of),
        max_batch: section.optional_integer("max_batch", 1..=REQUEST_MESSAGES_MAX as u64).map(u32_of),
        call_time: call_time(section),
        http_in_flight: section.optional_integer("http_in_flight", 1..=100_000).map(usize_of),
        http_per_peer: section.optional_integer("http_per_peer", 1..=100_000).map(usize_of),
    }
}

/// Linear memory of one instance.
pub(super) fn memory(section: &mut Section<'_, '_>) -> Option<usize> {
    section.optional_size("memory", 1 << 16..=4 << 30).map(usize_of)
}

/// How a new version of the plugin takes over.
pub(super) fn policy(section: &mut Section<'_, '_>, normal: SlotPolicy) -> SlotPolicy {
    let orders = [("overlap", ReloadPolicy::Overlap), ("stop-start", ReloadPolicy::StopStart)];
    let reload = section.choice("reload", "overlap", &orders);
    let probation = section.duration("probation", normal.probation, Duration::ZERO);
    let drain_timeout = section.duration("drain_timeout", normal.drain_timeout, Duration::from_secs(1));
    SlotPolicy { reload: reload.unwrap_or_default(), probation, drain_timeout }
}

/// The digest that the component must have: 64 hex digits, `sha256:` before them or not.
pub(super) fn sha256(section: &mut Section<'_, '_>) -> Option<String> {
    let written = section.optional_text("sha256", "the sha-256 of the component, 64 hex digits")?;
    let hex = written.value.strip_prefix("sha256:").unwrap_or(&written.value);
    if hex.len() != 64 || !hex.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        section.refuse("sha256", &written, "it takes 64 hex digits, as `waybill plugin inspect FILE` shows them");
        return None;
    }
    Some(format!("sha256:{}", hex.to_ascii_lowercase()))
}

/// Longest name of a transport, participant, source or consumer, in bytes: it becomes a metric label.
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

/// What a plugin may reach, keep and take; `limits` reads the bounds.
pub(super) fn grants(section: &mut Section<'_, '_>, limits: fn(&mut Section<'_, '_>) -> LimitOverlay) -> Grants {
    let mut allow = section.sub("allow");
    let mut peers = Vec::new();
    for key in ["net", "http"] {
        let takes = "an array of peers, e.g. [\"tcp://broker:4222\", \"https://*.example.com\"]";
        peers.extend(allow.texts(key, takes, &[]).into_iter().map(|set| set.value));
    }
    let internal = allow.boolean("internal", false);
    let quota = |bytes| KvQuota { total_bytes_max: usize_of(bytes), ..KvQuota::default() };
    let kv = allow.optional_size("kv", 1..=SIZE_MAX).map(quota);
    allow.done();
    let secrets = section.secrets("secrets").into_iter().collect();
    Grants { peers, internal, secrets, kv, limits: limits(section) }
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
