//! How large a value can be at most, in bytes of memory.
//!
//! Inside a loop, a closure called for every item, or a SELECT, what stands for one item isn't given the size of the largest: all
//! items together are as large as what they come from. So a size counts, beside its own bytes, how many times it holds the item of
//! each loop around it. Level 0 isn't a loop: it is what rows of the database hold.

use std::ops::Bound;

use waybill_surreal::{Number, OBJECT_BYTES, Object, READ_BYTES_MIN, RecordIdKey, VALUE_BYTES, Value, weight};

/// Bytes of a value itself, without what it points to.
pub const VALUE: u64 = VALUE_BYTES;
/// What rows of the database count as, wherever a statement mentions them: nobody knows before it runs.
pub const ROWS_BYTES: u64 = 512 * 1024;
/// Rows that a table counts as when no LIMIT bounds them. The wall counts a row as [`READ_BYTES_MIN`] at least: so these are all that
/// can be read with [`ROWS_BYTES`], and a statement that may read so many times the bytes may read as many times the rows.
pub const ROWS: u64 = ROWS_BYTES / READ_BYTES_MIN;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Size {
    /// Bytes that don't depend on any item.
    pub fixed: u64,
    /// Of each level: how many times its item is in it.
    pub of: Vec<u64>,
    /// Items that it has at most, if something tells: the length of a literal or of a value that is there, the rounds of a loop.
    /// Whatever is made of a value forgets it, and then its bytes tell ([`super::Sizes::items`]).
    pub count: Option<u64>,
    /// The number that it is, if that is known.
    pub number: Option<i64>,
    /// Whether record ids can be in it: a path then reads rows.
    pub ids: bool,
    /// Whether tables or ranges of record ids can be in it: each of them names any number of rows.
    pub tables: bool,
    /// Whether ranges can be in it: they have more items than bytes.
    pub ranges: bool,
    /// Whether it is a range itself: its items are numbers.
    pub numbers: bool,
}

impl Size {
    pub fn fixed(bytes: u64) -> Self {
        Self { fixed: bytes, ..Self::default() }
    }

    /// A number, a flag, a short text.
    pub fn scalar() -> Self {
        Self::fixed(VALUE)
    }

    /// A list of this many items that take these bytes together, themselves included.
    pub fn list(items: u64, bytes: u64) -> Self {
        Self { count: Some(items), ..Self::fixed(bytes.saturating_add(VALUE)) }
    }

    /// A range: its items are far more than its bytes.
    pub fn range(self, count: Option<u64>) -> Self {
        Self { count, number: None, ranges: true, numbers: true, ..self }
    }

    /// Something that lies in it, or that was made of it.
    pub fn part(self) -> Self {
        Self { count: None, number: None, numbers: false, ..self }
    }

    /// The item of a level.
    pub fn item(level: usize) -> Self {
        let mut of = vec![0; level];
        of.push(1);
        Self { of, ..Self::default() }
    }

    /// What rows of the database hold.
    pub fn rows() -> Self {
        Self { fixed: VALUE, ids: true, tables: true, ..Self::item(0) }
    }

    /// Both of them together.
    pub fn and(mut self, other: Self) -> Self {
        self.fixed = self.fixed.saturating_add(other.fixed);
        if self.of.len() < other.of.len() {
            self.of.resize(other.of.len(), 0);
        }
        for (mine, other) in self.of.iter_mut().zip(&other.of) {
            *mine = mine.saturating_add(*other);
        }
        self.ids |= other.ids;
        self.tables |= other.tables;
        self.ranges |= other.ranges;
        self.part()
    }

    /// The same so many times.
    pub fn times(mut self, count: u64) -> Self {
        self.fixed = self.fixed.saturating_mul(count);
        self.of.iter_mut().for_each(|mine| *mine = mine.saturating_mul(count));
        self.part()
    }

    /// What is left of it after a loop at `level` over `source` that was run `rounds` times, each result kept.
    ///
    /// If the source is itself an item of a loop around this one, its rounds are counted by its bytes, since each of its items has at
    /// least [`VALUE`] of them: over all rounds of that loop they are no more than what that one goes over.
    pub fn kept(&self, level: usize, source: &Self, rounds: u64) -> Self {
        let by_bytes = rounds > VALUE && !source.ranges && source.of.iter().skip(1).any(|count| *count > 0);
        match by_bytes && source.of.first().is_none_or(|rows| *rows == 0) {
            true => {
                let own = source.clone().times(self.fixed.div_ceil(VALUE));
                Size { count: Some(rounds), ..Size { fixed: 0, ..self.clone() }.left(level, source, rounds).and(own) }
            }
            false => self.left(level, source, rounds),
        }
    }

    fn left(&self, level: usize, source: &Self, rounds: u64) -> Self {
        let own = self.of.get(level).copied().unwrap_or(0);
        let mut outer = self.clone();
        outer.of.truncate(level);
        let ids = self.ids || (own > 0 && source.ids);
        let tables = self.tables || (own > 0 && source.tables);
        let ranges = self.ranges || (own > 0 && source.ranges);
        let all = outer.times(rounds).and(source.clone().times(own));
        Self { count: Some(rounds), ids, tables, ranges, ..all }
    }
}

/// The size of a value that is there.
pub fn of_value(value: &Value) -> Size {
    let mut seen = Size { fixed: weight(value), ..Size::default() };
    see(value, &mut seen);
    let count = match value {
        Value::Array(items) => Some(items.len() as u64),
        _ => None,
    };
    let number = match value {
        Value::Number(Number::Int(number)) => Some(*number),
        _ => None,
    };
    Size { count, number, numbers: matches!(value, Value::Range(_)), ..seen }
}

/// Notes whether record ids, tables and ranges are in a value.
fn see(value: &Value, seen: &mut Size) {
    match value {
        Value::Array(items) => items.iter().for_each(|item| see(item, seen)),
        Value::Set(items) => items.0.iter().for_each(|item| see(item, seen)),
        Value::Object(fields) => see_fields(fields, seen),
        Value::RecordId(id) => {
            seen.ids = true;
            see_key(&id.key, seen);
        }
        Value::Table(_) => (seen.ids, seen.tables) = (true, true),
        Value::Range(range) => {
            seen.ranges = true;
            for bound in [&range.start, &range.end] {
                if let Bound::Included(value) | Bound::Excluded(value) = bound {
                    see(value, seen);
                }
            }
        }
        Value::None
        | Value::Null
        | Value::Bool(_)
        | Value::Number(_)
        | Value::String(_)
        | Value::Bytes(_)
        | Value::Duration(_)
        | Value::Datetime(_)
        | Value::Uuid(_)
        | Value::Geometry(_)
        | Value::File(_)
        | Value::Regex(_)
        | Value::Closure(_) => {}
    }
}

fn see_fields(fields: &Object, seen: &mut Size) {
    for (_, value) in fields.iter() {
        see(value, seen);
    }
}

fn see_key(key: &RecordIdKey, seen: &mut Size) {
    match key {
        RecordIdKey::Number(_) | RecordIdKey::Uuid(_) | RecordIdKey::String(_) => {}
        RecordIdKey::Array(items) => items.iter().for_each(|item| see(item, seen)),
        RecordIdKey::Object(fields) => see_fields(fields, seen),
        RecordIdKey::Range(range) => {
            seen.tables = true;
            for bound in [&range.start, &range.end] {
                if let Bound::Included(key) | Bound::Excluded(key) = bound {
                    see_key(key, seen);
                }
            }
        }
    }
}

/// The size of what a binding becomes.
pub fn of_json(json: &serde_json::Value) -> Size {
    let count = match json {
        serde_json::Value::Array(items) => Some(items.len() as u64),
        serde_json::Value::Object(_) => None,
        _ => Some(1),
    };
    Size { count, number: json.as_i64(), ..Size::fixed(json_bytes(json)) }
}

/// What a binding takes once, beside [`of_json`], where it is handed over to SurrealDB: its objects are maps there.
pub fn handed_over(json: &serde_json::Value) -> u64 {
    match json {
        serde_json::Value::Array(items) => items.iter().map(handed_over).sum(),
        serde_json::Value::Object(fields) if !fields.is_empty() => {
            fields.values().map(handed_over).sum::<u64>().saturating_add(OBJECT_BYTES)
        }
        serde_json::Value::Object(_)
        | serde_json::Value::String(_)
        | serde_json::Value::Null
        | serde_json::Value::Bool(_)
        | serde_json::Value::Number(_) => 0,
    }
}

fn json_bytes(json: &serde_json::Value) -> u64 {
    let inside = match json {
        serde_json::Value::String(text) => text.len() as u64,
        serde_json::Value::Array(items) => items.iter().map(json_bytes).sum(),
        serde_json::Value::Object(fields) => {
            fields.iter().map(|(name, value)| VALUE + name.len() as u64 + json_bytes(value)).sum()
        }
        serde_json::Value::Null | serde_json::Value::Bool(_) | serde_json::Value::Number(_) => 0,
    };
    inside.saturating_add(VALUE)
}
