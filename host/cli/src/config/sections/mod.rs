//! What each section of `waybill.toml` takes, with defaults and bounds.

mod alert;
mod consumer;
mod events;
mod idempotency;
mod inbox;
mod oidc;
mod otel;
mod outbox;
mod participant;
mod plugins;
mod relay;
mod saga;
mod server;
mod source;
mod store;
mod stream;
mod transport;
mod ui;

use std::num::NonZeroU32;
use std::time::Duration;

use waybill_core::limits::SchedulerLimits;
use waybill_core::outbox::rates::Rate;

use super::kinds::Set;
use super::model::{AuditSettings, DeadSettings, LimitSettings, LogFormat, LogSettings, OnDead, TenantSettings};
use super::reader::Section;

pub use alert::alert;
pub use consumer::{ReadConsumer, Tables, consumer};
pub use events::{bound_subscriptions, events};
pub use idempotency::idempotency;
pub use inbox::{check_dedup_window, inbox};
pub use oidc::oidc;
pub use otel::otel;
pub use outbox::outbox;
pub use participant::participant;
pub use plugins::plugin_settings;
pub use relay::{Transports, for_all_relays, relay};
pub use saga::saga;
pub use server::{check_listen, server};
pub use source::source;
pub use store::store;
pub use stream::stream;
pub use transport::{route, transport};
pub use ui::ui;

const SECOND: Duration = Duration::from_secs(1);
const DAY: Duration = Duration::from_secs(24 * 3600);
/// No bound but the type's.
const U32: u64 = u32::MAX as u64;
/// Largest size a setting takes: no machine has more memory, and sums can't overflow.
const SIZE_MAX: u64 = 1 << 44;

/// Largest rate that a setting takes, in messages a second: more than a host sends.
const RATE_MAX: u64 = 1_000_000;

/// Most events of a stream that a setting counts.
const EVENTS_MAX: u64 = 1_000_000_000_000;

/// Whether it is an HTTP address without a login, a query and a fragment.
fn is_address(text: &str) -> bool {
    url::Url::parse(text).is_ok_and(|url| {
        matches!(url.scheme(), "http" | "https")
            && url.has_host()
            && url.username().is_empty()
            && url.password().is_none()
            && url.query().is_none()
            && url.fragment().is_none()
    })
}

/// The number as `u32`; readers have checked the range.
fn u32_of(number: u64) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}

/// The number as `usize`; readers have checked the range.
fn usize_of(number: u64) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}

pub fn dead(mut section: Section<'_, '_>) -> DeadSettings {
    let keep = section.duration("keep", 30 * DAY, Duration::ZERO);
    let on_dead =
        section.choice("on_dead", "free_key", &[("free_key", OnDead::FreeKey), ("hold_key", OnDead::HoldKey)]);
    let alert_at = section.integer("alert_at", 100, 0..=U32);
    section.done();
    DeadSettings { keep, on_dead: on_dead.unwrap_or(OnDead::FreeKey), alert_at }
}

pub fn audit(mut section: Section<'_, '_>) -> AuditSettings {
    let messages = section.boolean("messages", true);
    let keep = section.duration("keep", 90 * DAY, DAY);
    section.done();
    AuditSettings { messages, keep }
}

pub fn tenant(mut section: Section<'_, '_>) -> Option<(Set<String>, TenantSettings)> {
    let name = section.required_text("name", "a tenant", "\"acme\"");
    let weight = section.integer("weight", 1, 1..=1000);
    let rate = rate(&mut section);
    if let Some(written) = &name
        && let Err(error) = waybill_core::ids::Tenant::new(&written.value)
    {
        section.refuse("name", written, error.to_string());
    }
    section.done();
    let name = name?;
    Some((name.clone(), TenantSettings { name: name.value, weight: u32_of(weight), rate }))
}

/// `rate` and `burst`: messages a second, and how many go at once after a pause.
fn rate(section: &mut Section<'_, '_>) -> Option<Rate> {
    let per_second = section.optional_integer("rate", 1..=RATE_MAX);
    let burst = section.optional_integer("burst", 1..=RATE_MAX);
    let number = |count: u64| NonZeroU32::new(u32_of(count));
    match (per_second, burst) {
        (Some(per_second), burst) => {
            Some(Rate { per_second: number(per_second)?, burst: number(burst.unwrap_or(per_second))? })
        }
        (None, None) => None,
        (None, Some(burst)) => {
            let set = Set { value: burst, origin: section.at.clone() };
            section.refuse("burst", &set, "it has no effect without rate".to_owned());
            None
        }
    }
}

pub fn limits(mut section: Section<'_, '_>) -> LimitSettings {
    let normal = SchedulerLimits::default();
    let mut count = |key: &'static str, default: usize, least: u64| {
        usize_of(section.integer(key, default as u64, least..=100_000_000))
    };
    let window_messages = count("window_messages", normal.window_messages, 100);
    let key_messages = count("key_messages", normal.key_messages, 1);
    let open_segments = count("open_segments", normal.open_segments, 2);
    let resume_points = count("resume_points", normal.resume_points, 100);
    let door_page = count("door_page", normal.door_page, 10);
    let scheduled_page = count("scheduled_page", normal.scheduled_page, 10);
    let settle_max = count("settle_max", normal.settle_max, 100);
    let parked_per_tenant = count("parked_per_tenant", 5_000, 10);
    let waiting_messages = count("waiting_messages", 50_000, 100);
    let waiting_bytes = usize_of(section.size("waiting_bytes", 128 << 20, 64 << 20..=SIZE_MAX));
    let window_bytes = usize_of(section.size("window_bytes", normal.window_bytes as u64, 1 << 20..=SIZE_MAX));
    section.done();
    let scheduler = SchedulerLimits {
        window_messages,
        window_bytes,
        key_messages,
        open_segments,
        resume_points,
        door_page,
        scheduled_page,
        settle_max,
        commit_bytes: normal.commit_bytes,
    };
    LimitSettings { scheduler, parked_per_tenant, waiting_messages, waiting_bytes }
}

pub fn log(mut section: Section<'_, '_>) -> LogSettings {
    let level = section.text(
        "level",
        "error, warn, info, debug, trace, or directives such as \"info,waybill_engine=debug\"",
        "info",
    );
    if !level.value.split(',').all(is_directive) {
        section.refuse(
            "level",
            &level,
            "it takes error, warn, info, debug or trace, also per module: \"info,waybill_engine=debug\"",
        );
    }
    let format = section.choice("format", "text", &[("text", LogFormat::Text), ("json", LogFormat::Json)]);
    section.done();
    LogSettings { level: level.value, format: format.unwrap_or(LogFormat::Text) }
}

/// `info`, or `module=debug`. A lone module name would mean its every trace, which nobody wants to find out by a typo.
fn is_directive(text: &str) -> bool {
    let (module, level) = text.trim().split_once('=').unwrap_or(("any", text.trim()));
    let level_is_one = matches!(level, "error" | "warn" | "info" | "debug" | "trace" | "off");
    level_is_one && !module.is_empty() && module.bytes().all(|c| c.is_ascii_alphanumeric() || c == b'_' || c == b':')
}
