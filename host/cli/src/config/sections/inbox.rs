//! `[inbox]`.

use std::time::Duration;

use waybill_core::inbox::limits::{DEDUP_MEMORY_DEFAULT, DEDUP_WINDOW_DEFAULT, KEEP_DONE_DEFAULT};
use waybill_core::limits::PAYLOAD_BYTES_MAX_DEFAULT;

use super::{SIZE_MAX, usize_of};
use crate::config::inbound::InboxSettings;
use crate::config::model::DeadSettings;
use crate::config::problem::{Origin, Problem};
use crate::config::reader::{Reader, Section};

/// Least `dedup_window`. What is forgotten is found by notes that stand for a minute each, and the note of the minute that runs isn't made
/// twice: a window that ends within it would remove that note under the ids that are still coming.
const DEDUP_WINDOW_LEAST: Duration = Duration::from_secs(120);

pub fn inbox(mut section: Section<'_, '_>) -> InboxSettings {
    let dedup_window = section.duration("dedup_window", DEDUP_WINDOW_DEFAULT, DEDUP_WINDOW_LEAST);
    let dedup_memory = section.size("dedup_memory", DEDUP_MEMORY_DEFAULT as u64, 0..=SIZE_MAX);
    let keep_done = section.duration("keep_done", KEEP_DONE_DEFAULT, Duration::ZERO);
    let max_payload_bytes = section.size("max_payload_bytes", PAYLOAD_BYTES_MAX_DEFAULT as u64, 1..=64 << 20);
    section.done();
    InboxSettings {
        dedup_window,
        dedup_memory: usize_of(dedup_memory),
        keep_done,
        max_payload_bytes: usize_of(max_payload_bytes),
    }
}

/// A message that was processed has to be known as such for as long as its dead letter may be replayed.
pub fn check_dedup_window(reader: &mut Reader<'_>, inbox: &InboxSettings, dead: &DeadSettings) {
    let (window, keep) = (inbox.dedup_window, dead.keep);
    if window >= keep {
        return;
    }
    let origin_of = |path: &str| reader.shown.iter().find(|shown| shown.path == path).map(|shown| shown.origin.clone());
    let written = origin_of("inbox.dedup_window").filter(|origin| *origin != Origin::Default);
    let origin = written.or_else(|| origin_of("dead.keep")).unwrap_or(Origin::Default);
    let words = |time: Duration| humantime::format_duration(time).to_string().replace(' ', "");
    let problem = Problem::BadValue {
        key: "inbox.dedup_window".to_owned(),
        value: format!("{:?}", words(window)),
        cause: format!(
            "it is shorter than dead.keep = {:?}, so a dead letter replayed late would be processed twice: set \
             inbox.dedup_window to {} or more, or dead.keep to {} or less",
            words(keep),
            words(keep),
            words(window)
        ),
    };
    reader.problem(problem, origin);
}
