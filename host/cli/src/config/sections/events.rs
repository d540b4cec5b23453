//! `[events]`.

use waybill_core::streams::reading::PageLimits;
use waybill_core::streams::settings::EventsSettings;

use super::{EVENTS_MAX, SECOND, SIZE_MAX, usize_of};
use crate::config::kinds::Set;
use crate::config::model::ServerSettings;
use crate::config::problem::Origin;
use crate::config::reader::{Reader, Section};
use crate::config::size::format_size;

/// Largest `max_payload_bytes`: a commit, a page and a ring have to hold such an event.
const PAYLOAD_MAX: u64 = 4 << 20;
/// Of this many connections of the host three may be subscriptions, so that the others can still ask for something.
const CONNECTIONS: (u64, u64) = (3, 4);

/// Reads `[events]`. How many events a page may have is bounded for everybody, so the setting only lowers it.
pub fn events(mut section: Section<'_, '_>) -> EventsSettings {
    let normal = EventsSettings::default();
    let pages = PageLimits::default();
    let live_entries = section.integer("live_buffer_size", normal.live_entries as u64, 16..=1_000_000);
    let live_bytes = section.size("live_buffer_bytes", normal.live_bytes as u64, 64 << 10..=1 << 30);
    let live_bytes_total = section.size("live_bytes_total", normal.live_bytes_total as u64, 64 << 10..=SIZE_MAX);
    let replay_events = section.integer("replay_max_batch", pages.events as u64, 1..=pages.events as u64);
    let replay_bytes = section.size("replay_max_bytes", pages.bytes as u64, 16 << 10..=16 << 20);
    let replay_bytes_total = section.size("replay_bytes_total", normal.replay_bytes_total as u64, 16 << 10..=SIZE_MAX);
    let max_payload_bytes = section.size("max_payload_bytes", normal.payload_bytes_max as u64, 1..=PAYLOAD_MAX);
    let retention = section.integer("retention_per_stream", normal.retention_events, 1..=EVENTS_MAX);
    let settings = EventsSettings {
        live_entries: usize_of(live_entries),
        live_bytes: usize_of(live_bytes),
        live_bytes_total: usize_of(live_bytes_total),
        replay: PageLimits { events: usize_of(replay_events), bytes: usize_of(replay_bytes) },
        replay_bytes_total: usize_of(replay_bytes_total),
        payload_bytes_max: usize_of(max_payload_bytes),
        retention_events: retention,
        keep_ids: section.duration("keep_ids", normal.keep_ids, SECOND),
        tombstone_keep: section.duration("tombstone_keep", normal.tombstone_keep, SECOND),
        feed_keep: section.duration("feed_keep", normal.feed_keep, SECOND),
        stall_timeout: section.duration("stall_timeout", normal.stall_timeout, SECOND),
        subscriptions_max: usize_of(section.integer(
            "subscriptions_max",
            normal.subscriptions_max as u64,
            1..=1_000_000,
        )),
    };
    within(&mut section, ("live_buffer_bytes", live_bytes), ("live_bytes_total", live_bytes_total));
    within(&mut section, ("replay_max_bytes", replay_bytes), ("replay_bytes_total", replay_bytes_total));
    section.done();
    settings
}

/// What one reader may have fits into what all of them have together.
fn within(section: &mut Section<'_, '_>, one: (&str, u64), all: (&str, u64)) {
    if one.1 <= all.1 {
        return;
    }
    let written = [one.0, all.0].into_iter().find_map(|key| section.written(key).map(|(_, origin)| origin));
    let set = Set { value: format_size(one.1), origin: written.unwrap_or(Origin::Default) };
    let all = format!("it is more than {} = {}", all.0, format_size(all.1));
    section.refuse(one.0, &set, all);
}

/// Leaves connections for other requests, and warns if somebody asked for more subscriptions than that.
pub fn bound_subscriptions(
    reader: &Reader<'_>,
    events: &mut EventsSettings,
    server: &ServerSettings,
    warnings: &mut Vec<String>,
) {
    let most = server.max_connections.saturating_mul(CONNECTIONS.0) / CONNECTIONS.1;
    let is_asked =
        reader.shown.iter().any(|shown| shown.path == "events.subscriptions_max" && shown.origin != Origin::Default);
    if is_asked && events.subscriptions_max as u64 > most {
        warnings.push(format!(
            "events.subscriptions_max = {}: at most three quarters of server.max_connections = {} may be subscriptions, which is {most}",
            events.subscriptions_max, server.max_connections
        ));
    }
    events.subscriptions_max = events.subscriptions_max.min(usize_of(most.max(1)));
}
