//! `[outbox]` and `[outbox.backoff]`.

use std::time::Duration;

use waybill_core::backoff::RetryPolicy;
use waybill_core::endpoint::{EndpointSettings, SlotPolicy};
use waybill_core::limits::{PAYLOAD_BYTES_MAX_DEFAULT, REQUEST_MESSAGES_MAX, RETRY_AFTER_MAX_DEFAULT};

use super::transport::sha256;
use super::{DAY, SECOND, U32, u32_of, usize_of};
use crate::config::kinds::Set;
use crate::config::model::{BackoffSettings, OutboxSettings};
use crate::config::plugins::Known;
use crate::config::reader::{Key, Section, same, times};

/// What the retry policy is known by: the section that names its plugin.
const POLICY: &str = "outbox.backoff";

pub fn outbox(mut section: Section<'_, '_>, known: &Known<'_>) -> OutboxSettings {
    let max_attempts = section.integer(
        Key::new("max_attempts")
            .aliases(const { &[same("max_retries")] })
            .env(const { &[same("OUTBOX_MAX_ATTEMPTS")] }),
        u64::from(RetryPolicy::default().max_attempts),
        1..=10_000,
    );
    let batch = section.integer(
        Key::new("batch").aliases(const { &[same("batch_size")] }).env(const { &[same("OUTBOX_BATCH_SIZE")] }),
        50,
        1..=REQUEST_MESSAGES_MAX as u64,
    );
    let batch_bytes = section.size("batch_bytes", 4 << 20, 1 << 10..=256 << 20);
    let max_payload_bytes = section.size("max_payload_bytes", PAYLOAD_BYTES_MAX_DEFAULT as u64, 1..=64 << 20);
    let keep_done = section.duration("keep_done", DAY, Duration::ZERO);
    let owner_ttl = section.duration(
        Key::new("owner_ttl").aliases(const { &[same("lease_ms"), times("lease_seconds", 1000)] }),
        Duration::from_secs(10),
        SECOND,
    );
    let shards = section.optional_integer("shards", 1..=u64::from(waybill_store::SHARDS_MAX));
    let poll_interval = section.duration(
        Key::new("poll_interval").env(const { &[same("OUTBOX_POLL_INTERVAL_MS")] }),
        Duration::from_millis(250),
        Duration::from_millis(10),
    );
    let send_timeout = section.duration("send_timeout", Duration::from_secs(30), Duration::from_millis(100));
    let retry_after_max = section.duration("retry_after_max", RETRY_AFTER_MAX_DEFAULT, Duration::ZERO);
    let backoff = backoff(section.sub("backoff"), u32_of(max_attempts), known);
    section.done();
    OutboxSettings {
        batch: u32_of(batch),
        batch_bytes: u32_of(batch_bytes),
        max_payload_bytes: usize_of(max_payload_bytes),
        keep_done,
        owner_ttl,
        shards: shards.and_then(|shards| u16::try_from(shards).ok()),
        poll_interval,
        send_timeout,
        retry_after_max,
        backoff,
    }
}

fn backoff(mut section: Section<'_, '_>, max_attempts: u32, known: &Known<'_>) -> BackoffSettings {
    let normal = RetryPolicy::default();
    // Source documents 2 and 4 start their exponent one higher: base * 2^1 after the first failure.
    let base_ms = section.integer(
        Key::new("base_ms")
            .aliases(const { &[times("base_seconds", 2000)] })
            .env(const { &[times("OUTBOX_BACKOFF_BASE_MS", 2)] }),
        normal.base_ms,
        1..=U32,
    );
    let factor = section.number("factor", normal.factor, 1.0..=100.0);
    let jitter =
        section.number(Key::new("jitter").aliases(const { &[same("jitter_factor")] }), normal.jitter, 0.0..=1.0);
    let cap_ms = section.integer(
        Key::new("cap_ms")
            .aliases(const { &[same("max_ms"), times("max_seconds", 1000)] })
            .env(const { &[same("OUTBOX_MAX_BACKOFF_MS")] }),
        normal.cap_ms,
        1..=U32,
    );
    let floor_ms = section.optional_integer("floor_ms", 0..=U32);
    if cap_ms < base_ms {
        let set = Set { value: cap_ms, origin: section.at.clone() };
        section.refuse("cap_ms", &set, format!("it is below base_ms = {base_ms}"));
    }
    let plugin = section.optional_text("plugin", "a bundled policy, or the path of a .wasm");
    let component = EndpointSettings::new(POLICY);
    let component = EndpointSettings {
        sha256: sha256(&mut section),
        watch: section.boolean("watch", component.watch),
        config: section.document("config"),
        policy: SlotPolicy {
            probation: section.duration("probation", component.policy.probation, Duration::ZERO),
            ..component.policy
        },
        ..component
    };
    let source = plugin.and_then(|written| known.source(&mut section, &written));
    section.done();
    BackoffSettings {
        policy: RetryPolicy { max_attempts, base_ms, factor, jitter, cap_ms, floor_ms },
        plugin: source.map(|plugin| EndpointSettings { plugin, ..component }),
    }
}
