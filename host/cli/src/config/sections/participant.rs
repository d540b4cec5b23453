//! `[participant.NAME]`.

use std::time::Duration;

use waybill_core::endpoint::{EndpointSettings, LimitOverlay};
use waybill_sandbox::limits::PARTICIPANT_CALL_TIME;

use super::transport::{check_name, grants, memory, policy, sha256};
use super::u32_of;
use crate::config::plugins::Known;
use crate::config::reader::Section;

pub fn participant(mut section: Section<'_, '_>, name: &str, plugins: &Known<'_>) -> Option<EndpointSettings> {
    check_name(&mut section, "participant", name);
    let plugin = section.required_text("plugin", "the path of a .wasm", "\"./orders.wasm\"");
    let plugin = plugin.and_then(|written| plugins.source(&mut section, &written));
    let normal = EndpointSettings::new(name);
    let mut settings = EndpointSettings {
        instances: u32_of(section.integer("instances", 8, 1..=1_000)),
        policy: policy(&mut section, normal.policy),
        sha256: sha256(&mut section),
        watch: section.boolean("watch", normal.watch),
        config: section.document("config"),
        grants: grants(&mut section, limits),
        ..normal
    };
    section.done();
    // Calls on a plugin that is replaced end by themselves.
    let call_time = settings.grants.limits.call_time.unwrap_or(PARTICIPANT_CALL_TIME);
    settings.policy.drain_timeout = settings.policy.drain_timeout.max(call_time);
    Some(EndpointSettings { plugin: plugin?, ..settings })
}

/// The bounds that an operator sets.
fn limits(section: &mut Section<'_, '_>) -> LimitOverlay {
    LimitOverlay {
        memory_bytes: memory(section),
        call_time: Some(section.duration("call_time", PARTICIPANT_CALL_TIME, Duration::from_millis(100))),
        ..LimitOverlay::default()
    }
}
