//! Reading conditions: what all filters have in common.

use std::time::Duration;

use jiff::Timestamp;
use jiff::civil::Date;
use jiff::tz::TimeZone;
use thiserror::Error;

use crate::glob::Glob;
use crate::suggest::nearest;
use crate::time::UnixMillis;

/// A filter that can't be read.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("filter {condition:?} isn't usable: {cause}")]
pub struct FilterError {
    pub condition: String,
    /// What is wrong, and what may be written.
    pub cause: String,
}

/// One condition of a filter, as far as all filters have it in common.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Condition {
    pub text: String,
    /// What stands before the sign.
    pub field: String,
    sign: char,
    /// What stands behind it, not empty.
    pub value: String,
    /// Of `age`, `since` and `until`: what they say of the instant.
    bound: Option<Bound>,
}

/// A bound of an instant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Bound {
    Before(UnixMillis),
    After(UnixMillis),
}

impl Condition {
    /// Takes up a condition on time: of several the narrowest holds. False when it is on something else.
    pub fn narrow(&self, before: &mut Option<UnixMillis>, after: &mut Option<UnixMillis>) -> bool {
        match self.bound {
            Some(Bound::Before(at)) => *before = Some(before.map_or(at, |other| other.min(at))),
            Some(Bound::After(at)) => *after = Some(after.map_or(at, |other| other.max(at))),
            None => return false,
        }
        true
    }

    /// Takes it up where one value is taken: a second one would silently take the first one's place, and an act would take more than was
    /// asked.
    pub fn once<T>(&self, slot: &mut Option<T>, value: T) -> Result<(), FilterError> {
        match slot.replace(value) {
            None => Ok(()),
            Some(_) => {
                Err(self.refuse(format!("{} stands twice, and it takes one value: join them with *", self.field)))
            }
        }
    }

    /// How the value is compared: `=`, `>` or `<`.
    pub(super) fn sign(&self) -> char {
        self.sign
    }

    pub fn refuse(&self, cause: impl Into<String>) -> FilterError {
        FilterError { condition: self.text.clone(), cause: cause.into() }
    }

    /// The error for a field that there isn't. `fields` says what may be written.
    pub fn unknown(&self, fields: &str) -> FilterError {
        let field = &self.field;
        let meant =
            nearest(field, names(fields)).map_or_else(String::new, |meant| format!(", did you mean {meant:?}?"));
        self.refuse(format!("there is no field {field:?}{meant}; write one of {fields}"))
    }
}

/// The names in a list of fields; what stands in brackets or behind a semicolon is about them.
fn names(fields: &str) -> impl Iterator<Item = &str> {
    fields.split(", ").filter_map(|part| part.split_whitespace().next()).filter(|word| is_word(word))
}

fn is_word(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_')
}

/// Reads conditions. `fields` says what may be written, for messages; ages count back from `now`.
pub fn conditions(text: &str, fields: &str, now: UnixMillis) -> Result<Vec<Condition>, FilterError> {
    split(text)?.into_iter().map(|(text, _)| condition(text, fields, now)).collect()
}

/// Conditions of a filter that are tried one by one.
const TRIED_MAX: usize = 32;

/// The conditions of a filter that can be read, as they were typed, and why not all can be. Where a quote isn't closed, none can.
pub fn readable<T>(text: &str, read: impl Fn(&str) -> Result<T, FilterError>) -> (String, Option<FilterError>) {
    let Err(error) = read(text) else { return (text.to_owned(), None) };
    let mut kept = String::new();
    for (_, typed) in split(text).unwrap_or_default().into_iter().take(TRIED_MAX) {
        let longer = if kept.is_empty() { typed.to_owned() } else { format!("{kept} {typed}") };
        if read(&longer).is_ok() {
            kept = longer;
        }
    }
    (kept, Some(error))
}

/// The tenant that a filter names, of whatever list it is: all write that alike. None where it names none, or can't be read.
pub fn tenant_in(text: &str) -> Option<Glob> {
    let read = conditions(text, "", UnixMillis(0)).ok()?;
    let named = read.into_iter().find(|condition| condition.field == "tenant")?;
    Some(Glob::new(named.value))
}

fn condition(text: String, fields: &str, now: UnixMillis) -> Result<Condition, FilterError> {
    let refuse = |cause: String| FilterError { condition: text.clone(), cause };
    let at = text.find(SIGNS).ok_or_else(|| {
        refuse(format!(
            "it has no =; a value with spaces stands in quotes, e.g. error=\"answered 422\", and a field is one of {fields}"
        ))
    })?;
    let (field, rest) = text.split_at(at);
    let (sign, value) = rest.split_at(1);
    if value.is_empty() {
        return Err(refuse(format!("it needs a value after {sign:?}")));
    }
    let bound = match (field, sign) {
        ("age", "=") => return Err(refuse("compare an age with > or <".into())),
        ("age", sign) => {
            let age =
                parse_age(value).ok_or_else(|| refuse("an age is a number with s, m, h or d, e.g. age>90m".into()))?;
            let ms = u64::try_from(age.as_millis()).unwrap_or(u64::MAX);
            let at = UnixMillis(now.0.saturating_sub(ms));
            Some(if sign == ">" { Bound::Before(at) } else { Bound::After(at) })
        }
        (field, "<" | ">") if !NUMBERS.contains(&field) => {
            if is_word(field) && !fields.is_empty() && names(fields).all(|name| name != field) {
                let (field, value) = (field.to_owned(), value.to_owned());
                return Err(Condition { field, sign: '=', value, bound: None, text: text.clone() }.unknown(fields));
            }
            return Err(refuse(format!("only age and replayed take {sign:?}; use =")));
        }
        ("since" | "until", _) => {
            let at = instant(value).ok_or_else(|| refuse(format!("{field} takes {INSTANTS}")))?;
            // From that instant on, and before it.
            Some(if field == "until" { Bound::Before(at) } else { Bound::After(UnixMillis(at.0.saturating_sub(1))) })
        }
        _ => None,
    };
    let sign = sign.chars().next().unwrap_or('=');
    let (field, value) = (field.to_owned(), value.to_owned());
    Ok(Condition { field, sign, value, bound, text })
}

/// `90m`, `1h`, `30d`, `15s`, `500ms`.
fn parse_age(text: &str) -> Option<Duration> {
    humantime::parse_duration(text).ok()
}

/// How an instant is written where [`instant`] reads it.
pub const INSTANTS: &str = "an instant like 2026-12-01T14:00:00Z, or a day like 2026-12-01 (UTC)";

/// An instant with its offset, or the beginning of a day in UTC.
pub fn instant(text: &str) -> Option<UnixMillis> {
    // What is more than a day isn't cut down to one.
    let date = || text.parse::<Date>().ok().filter(|date| date.to_string() == text);
    let day = || date()?.to_zoned(TimeZone::UTC).ok().map(|zoned| zoned.timestamp());
    let instant = text.parse::<Timestamp>().ok().or_else(day)?;
    u64::try_from(instant.as_millisecond()).ok().map(UnixMillis)
}

/// Fields that are numbers, which may be compared.
const NUMBERS: [&str; 2] = ["replayed", "replays"];

/// What may stand between field and value.
const SIGNS: [char; 3] = ['=', '>', '<'];

/// Splits at spaces outside quotes; quotes are dropped. One opens at the beginning of a condition or of a value and ends at the same
/// mark; between them a backslash takes its special meaning from a mark or a backslash. Each comes with itself as it was typed.
fn split(text: &str) -> Result<Vec<(String, &str)>, FilterError> {
    let mut conditions = Vec::new();
    let mut current = String::new();
    let mut from = 0;
    let mut quote = None;
    let mut letters = text.char_indices().peekable();
    while let Some((at, letter)) = letters.next() {
        match (letter, quote) {
            (end, Some(begin)) if end == begin => quote = None,
            ('\\', Some(mark)) => {
                let meant = letters.next_if(|(_, next)| *next == mark || *next == '\\');
                current.push(meant.map_or('\\', |(_, next)| next));
            }
            (letter, Some(_)) => current.push(letter),
            ('"' | '\'', None) if may_open(&current) => quote = Some(letter),
            (space, None) if space.is_whitespace() => {
                if !current.is_empty() {
                    conditions.push((std::mem::take(&mut current), text.get(from..at).unwrap_or_default()));
                }
                from = at + space.len_utf8();
            }
            (letter, None) => current.push(letter),
        }
    }
    if let Some(mark) = quote {
        let cause = format!("a quote isn't closed: write key={mark}a b{mark}, and \\{mark} for the mark itself");
        return Err(FilterError { condition: text.to_owned(), cause });
    }
    if !current.is_empty() {
        conditions.push((current, text.get(from..).unwrap_or_default()));
    }
    Ok(conditions)
}

/// Whether a quote may open behind what was read of a condition: an apostrophe within a word is one.
fn may_open(current: &str) -> bool {
    current.is_empty() || current.find(SIGNS).is_some_and(|sign| sign + 1 == current.len())
}
