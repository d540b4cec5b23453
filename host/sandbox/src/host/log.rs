//! `log`: structured entries into the host's log, at a bounded rate.

use std::collections::BTreeMap;

use parking_lot::Mutex;
use tokio::time::Instant;
use tracing::Level;
use waybill_bindings::api::log::{Host, Level as GuestLevel};

use super::context::EndpointContext;
use super::state::InstanceState;
use crate::limits::{LOG_FIELDS_MAX, LOG_MESSAGE_BYTES_MAX};
use crate::log_book::Entry;

/// Seconds' worth of entries that may come at once.
const BURST_SECONDS: f64 = 10.0;

/// The rate of one endpoint's entries.
pub(crate) struct LogGate {
    per_second: f64,
    bucket: Mutex<Bucket>,
}

struct Bucket {
    tokens: f64,
    filled: Instant,
    dropped: u64,
}

impl LogGate {
    pub(crate) fn new(per_second: u32) -> Self {
        let per_second = f64::from(per_second);
        let bucket = Bucket { tokens: per_second * BURST_SECONDS, filled: Instant::now(), dropped: 0 };
        Self { per_second, bucket: Mutex::new(bucket) }
    }

    /// Whether one more entry may be written. What was dropped meanwhile is told by the first that may.
    pub(crate) fn admit(&self) -> bool {
        let mut bucket = self.bucket.lock();
        let now = Instant::now();
        let elapsed = now.saturating_duration_since(bucket.filled).as_secs_f64();
        bucket.filled = now;
        bucket.tokens = elapsed.mul_add(self.per_second, bucket.tokens).min(self.per_second * BURST_SECONDS);
        if bucket.tokens < 1.0 {
            bucket.dropped = bucket.dropped.saturating_add(1);
            return false;
        }
        bucket.tokens -= 1.0;
        let dropped = std::mem::take(&mut bucket.dropped);
        drop(bucket);
        if dropped > 0 {
            tracing::warn!(target: "waybill::plugin", dropped, "log entries were dropped: the plugin writes too many");
        }
        true
    }
}

/// Writes one entry with the labels of its instance. What the plugin names besides goes into the host's log as one JSON object: names
/// of its own can't be fields there.
pub(super) fn write(
    context: &EndpointContext,
    instance: u32,
    level: Level,
    message: String,
    fields: BTreeMap<String, String>,
) {
    let (transport, plugin, generation) = (&context.name, &context.plugin, context.generation);
    // Texts by texts always make an object.
    let object = (!fields.is_empty()).then(|| serde_json::to_string(&fields).unwrap_or_default());
    let object = object.map(tracing::field::display);
    macro_rules! entry {
        ($level:expr) => {
            tracing::event!(target: "waybill::plugin", $level, %transport, %plugin, generation, instance, fields = object, "{message}")
        };
    }
    match level {
        Level::TRACE => entry!(Level::TRACE),
        Level::DEBUG => entry!(Level::DEBUG),
        Level::INFO => entry!(Level::INFO),
        Level::WARN => entry!(Level::WARN),
        Level::ERROR => entry!(Level::ERROR),
    }
    let entry = Entry { level: word(level), generation, instance: Some(instance), message, fields };
    context.log_page.write(entry);
}

fn word(level: Level) -> &'static str {
    match level {
        Level::TRACE => "trace",
        Level::DEBUG => "debug",
        Level::INFO => "info",
        Level::WARN => "warn",
        Level::ERROR => "error",
    }
}

fn enabled(level: Level) -> bool {
    match level {
        Level::TRACE => tracing::enabled!(target: "waybill::plugin", Level::TRACE),
        Level::DEBUG => tracing::enabled!(target: "waybill::plugin", Level::DEBUG),
        Level::INFO => tracing::enabled!(target: "waybill::plugin", Level::INFO),
        Level::WARN => tracing::enabled!(target: "waybill::plugin", Level::WARN),
        Level::ERROR => tracing::enabled!(target: "waybill::plugin", Level::ERROR),
    }
}

fn level_of(level: GuestLevel) -> Level {
    match level {
        GuestLevel::Trace => Level::TRACE,
        GuestLevel::Debug => Level::DEBUG,
        GuestLevel::Info => Level::INFO,
        GuestLevel::Warn => Level::WARN,
        GuestLevel::Error => Level::ERROR,
    }
}

impl Host for InstanceState {
    fn log(&mut self, level: GuestLevel, message: String, fields: Vec<(String, String)>) -> wasmtime::Result<()> {
        let level = level_of(level);
        if !enabled(level) {
            return Ok(());
        }
        if !self.context.log.admit() {
            self.context.log_dropped();
            return Ok(());
        }
        let redactor = &self.context.redactor;
        let message = redactor.clean_and_cut(message, LOG_MESSAGE_BYTES_MAX);
        let mut room = LOG_MESSAGE_BYTES_MAX;
        let mut kept = BTreeMap::new();
        for (name, value) in fields.into_iter().take(LOG_FIELDS_MAX) {
            let name = redactor.clean_and_cut(name, room);
            room = room.saturating_sub(name.len());
            let value = redactor.clean_and_cut(value, room);
            room = room.saturating_sub(value.len());
            if room == 0 {
                break;
            }
            kept.insert(name, value);
        }
        write(&self.context, self.instance, level, message, kept);
        Ok(())
    }

    fn enabled(&mut self, level: GuestLevel) -> wasmtime::Result<bool> {
        Ok(enabled(level_of(level)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[tokio::test(start_paused = true)]
    async fn a_flood_is_cut_and_the_rate_comes_back() {
        let gate = LogGate::new(2);
        let burst = (0..1_000).filter(|_| gate.admit()).count();
        assert_eq!(burst, 20);
        tokio::time::advance(Duration::from_secs(3)).await;
        assert_eq!((0..1_000).filter(|_| gate.admit()).count(), 6);
    }
}
