//! `[saga]`, `[saga.default_retry]` and `[saga.allow]`.

use std::path::Path;
use std::time::Duration;

use waybill_core::backoff::RetryPolicy;
use waybill_core::endpoint::{Grants, LOOPBACK};
use waybill_core::saga::limits::{
    ATTEMPTS_MAX, RETRY_ATTEMPTS_DEFAULT, RETRY_BASE_DEFAULT, RETRY_CAP_DEFAULT, RETRY_FACTOR_DEFAULT,
    RETRY_JITTER_DEFAULT, SagaLimits,
};

use super::{DAY, SECOND, SIZE_MAX, U32, is_address, u32_of, usize_of};
use crate::config::kinds::{Set, beside};
use crate::config::model::SagaSettings;
use crate::config::problem::Origin;
use crate::config::reader::Section;

/// Largest input or output that may be allowed: what the API takes in one request, in bytes.
const DATA_MAX: u64 = 4 << 20;

/// Reads `[saga]`. When nobody names others, `http:` steps reach this machine only.
pub fn saga(mut section: Section<'_, '_>, file: &Path, warnings: &mut Vec<String>) -> SagaSettings {
    let normal = SagaLimits::default();
    let definitions = section.optional_text("definitions", "a folder of definitions, .toml and .json");
    if section.given("heartbeat") {
        warnings.push(
            "saga.heartbeat has no effect: sagas are taken over with their shard, by outbox.owner_ttl".to_owned(),
        );
    }
    section.duration("heartbeat", Duration::from_secs(5), SECOND);
    let keep_done = section.duration("keep_done", 7 * DAY, Duration::ZERO);
    let max_input_bytes = section.size("max_input_bytes", normal.input_bytes_max as u64, 64..=DATA_MAX);
    let max_output_bytes = section.size("max_output_bytes", normal.output_bytes_max as u64, 64..=DATA_MAX);
    let max_running = section.integer("max_running", normal.running_max as u64, 1..=100_000_000);
    let running_bytes = normal.running_bytes_max as u64;
    let max_running_bytes = section.size("max_running_bytes", running_bytes, 1 << 20..=SIZE_MAX);
    let rest_after = section.duration("rest_after", normal.rest_after, Duration::from_millis(100));
    let max_calls = section.integer("max_calls", 256, 1..=100_000);
    let max_calls_per_tenant = section.integer("max_calls_per_tenant", 128, 1..=100_000);
    let approval_key = section.secret("approval_key");
    let public_url = public_url(&mut section);
    let default_retry = retry(section.sub("default_retry"));
    let mut allow = section.sub("allow");
    let peers = allow.texts("http", "an array of origins, e.g. [\"https://*.example.com\"]", LOOPBACK);
    let internal = allow.boolean("internal", false);
    allow.done();
    section.done();
    let place = |set: Set<String>| match set {
        Set { value, origin: Origin::File { .. } } => beside(file, &value),
        Set { value, .. } => value.into(),
    };
    SagaSettings {
        definitions: definitions.map(place),
        keep_done,
        max_input_bytes: usize_of(max_input_bytes),
        max_output_bytes: usize_of(max_output_bytes),
        max_running: usize_of(max_running),
        max_running_bytes: usize_of(max_running_bytes),
        rest_after,
        max_calls: usize_of(max_calls),
        max_calls_per_tenant: usize_of(max_calls_per_tenant),
        default_retry,
        grants: Grants { peers: peers.into_iter().map(|set| set.value).collect(), internal, ..Grants::none() },
        approval_key: approval_key.map(|set| set.value),
        public_url,
    }
}

/// The address that links begin with: a path may be behind the host, nothing else.
fn public_url(section: &mut Section<'_, '_>) -> Option<String> {
    let written = section.optional_text("public_url", "an address, e.g. \"https://waybill.example.com\"")?;
    if !is_address(&written.value) {
        let fix =
            "it takes an address that begins with http:// or https://, without a query: https://waybill.example.com";
        section.refuse("public_url", &written, fix);
    }
    Some(written.value)
}

/// What a step that says nothing about retries gets.
fn retry(mut section: Section<'_, '_>) -> RetryPolicy {
    let ms = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(U32);
    let max_attempts = section.integer("max_attempts", u64::from(RETRY_ATTEMPTS_DEFAULT), 1..=u64::from(ATTEMPTS_MAX));
    let base_ms = section.integer("base_ms", ms(RETRY_BASE_DEFAULT), 1..=U32);
    let factor = section.number("factor", RETRY_FACTOR_DEFAULT, 1.0..=100.0);
    let jitter = section.number("jitter", RETRY_JITTER_DEFAULT, 0.0..=1.0);
    let cap_ms = section.integer("cap_ms", ms(RETRY_CAP_DEFAULT), 1..=U32);
    if cap_ms < base_ms {
        let set = Set { value: cap_ms, origin: section.at.clone() };
        section.refuse("cap_ms", &set, format!("it is below base_ms = {base_ms}"));
    }
    section.done();
    RetryPolicy { max_attempts: u32_of(max_attempts), base_ms, factor, jitter, cap_ms, floor_ms: None }
}
