//! Sections of the configuration that belong to parts which this version doesn't have. They are refused by name, so that
//! nobody believes them to be in force.

/// Section and what it configures.
pub const LATER: &[(&str, &str)] = &[("otel", "OpenTelemetry export")];

/// What a section configures, if it is one of them.
pub fn part_of(section: &str) -> Option<&'static str> {
    LATER.iter().find(|(name, _)| *name == section).map(|(_, part)| *part)
}
