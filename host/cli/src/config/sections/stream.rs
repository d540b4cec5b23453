//! `[[stream]]`.

use waybill_core::streams::limits::COMPACT_LAG_DEFAULT;
use waybill_core::streams::name::StreamPattern;
use waybill_core::streams::settings::PatternSettings;
use waybill_core::streams::upkeep::Retention;

use super::{EVENTS_MAX, SECOND, SIZE_MAX};
use crate::config::kinds::Set;
use crate::config::reader::Section;

/// What begins the names of sagas' histories, which are kept as sagas are.
const SAGAS: &str = "saga.";

/// Reads one `[[stream]]`; its pattern is answered with where it stands.
pub fn stream(mut section: Section<'_, '_>) -> Option<Set<PatternSettings>> {
    let written = section.required_text("match", "a pattern of stream names", "\"task.**\"");
    let pattern = written.as_ref().and_then(|written| pattern(&mut section, written));
    if let Some(written) = written.as_ref().filter(|written| written.value.starts_with(SAGAS)) {
        section.refuse("match", written, "such streams are the histories of sagas, which saga.keep_done decides about");
    }
    let retention = Retention {
        keep_count: section.optional_integer("keep_count", 1..=EVENTS_MAX),
        keep_age: section.optional_duration("keep_age", None, SECOND),
        keep_bytes: section.optional_size("keep_bytes", 1 << 10..=SIZE_MAX),
    };
    let is_compacted = section.boolean("compact", false);
    let lag = section.optional_duration("compact_lag", is_compacted.then_some(COMPACT_LAG_DEFAULT), SECOND);
    if let Some((value, origin)) = section.written("compact_lag").filter(|_| !is_compacted) {
        section.refuse("compact_lag", &Set { value, origin }, "it has no effect without compact = true");
    }
    let schema_versions = schema_versions(&mut section);
    section.done();
    let settings = PatternSettings { retention, compact_lag: lag, schema_versions, ..PatternSettings::new(pattern?) };
    Some(Set { value: settings, origin: written?.origin })
}

/// Reads a pattern of stream names.
pub(super) fn pattern(section: &mut Section<'_, '_>, written: &Set<String>) -> Option<StreamPattern> {
    match StreamPattern::parse(&written.value) {
        Ok(pattern) => Some(pattern),
        Err(error) => {
            section.refuse("match", written, error.to_string());
            None
        }
    }
}

/// Versions that are taken: `"1..=3"`, or one alone.
fn schema_versions(section: &mut Section<'_, '_>) -> Option<(u32, u32)> {
    let written = section.optional_text("schema_versions", "the versions of payloads that are taken, \"1..=3\"")?;
    let text = written.value.as_str();
    let (first, last) = text.split_once("..=").unwrap_or((text, text));
    let range = first.trim().parse::<u32>().ok().zip(last.trim().parse::<u32>().ok());
    let range = range.filter(|(first, last)| *first > 0 && first <= last);
    if range.is_none() {
        section.refuse("schema_versions", &written, "it takes a first and a last version from 1, e.g. \"1..=3\"");
    }
    range
}
