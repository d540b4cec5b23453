//! `[participant.NAME]`.

use std::time::Duration;

use super::transport::{allow, check_name};
use super::u32_of;
use crate::config::model::ParticipantSettings;
use crate::config::plugins::Known;
use crate::config::reader::Section;

/// Reads `[participant.NAME]`.
pub fn participant(mut section: Section<'_, '_>, name: &str, plugins: &Known<'_>) -> Option<ParticipantSettings> {
    check_name(&mut section, "participant", name);
    let plugin = section.required_text("plugin", "the path of a .wasm", "\"./orders.wasm\"");
    let source = plugin.and_then(|written| plugins.source(&mut section, &written));
    let instances = section.integer("instances", 8, 1..=1_000);
    let config = section.document("config");
    let allow = allow(section.sub("allow"));
    let secrets = section.secrets("secrets");
    let memory = section.optional_size("memory", None, 1 << 16..=4 << 30);
    let call_time =
        section.duration("call_time", waybill_sandbox::limits::PARTICIPANT_CALL_TIME, Duration::from_millis(100));
    section.done();
    Some(ParticipantSettings {
        name: name.to_owned(),
        plugin: source?,
        instances: u32_of(instances),
        config,
        allow,
        secrets,
        memory,
        call_time,
    })
}
