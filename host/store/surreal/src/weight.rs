//! How much memory a value takes.

use std::iter::once;
use std::ops::Bound;

use surrealdb_datastore::val::Geometry;

use crate::{Object, RecordIdKey, Value};

/// Bytes of a value itself, without what it points to. SurrealDB (3.3.5) keeps it at or below this.
pub const VALUE_BYTES: u64 = 64;
/// The least that a row which callers' statements read or write counts as: so what is made for each of them, whatever it holds, is
/// bounded by their number.
pub const READ_BYTES_MIN: u64 = 256;
/// What an object takes beside its fields, if it has any, where it is handed over between SurrealDB and us: a node of its map has room
/// for eleven of them.
pub const OBJECT_BYTES: u64 = 640;
/// What a file's name or a regular expression counts as: its parts aren't counted one by one.
const OPAQUE_BYTES: u64 = 64 * 1024;
/// What a point of a shape counts as: it is answered as a list of two numbers.
const POINT_BYTES: u64 = 3 * VALUE_BYTES;
/// What a shape counts as beside its points: it is answered as an object of two fields.
const SHAPE_BYTES: u64 = 1024;

/// At most these bytes: [`VALUE_BYTES`] a value and its text, a field as much again with its name, [`OBJECT_BYTES`] an object. A closure
/// counts as without bound, since what it has captured can't be seen.
pub fn weight(value: &Value) -> u64 {
    let inside = match value {
        Value::String(text) => bytes(text.as_str().len()),
        Value::Bytes(content) => bytes(content.0.len()),
        Value::Array(items) => sum(items.iter().map(weight)),
        Value::Set(items) => sum(items.0.iter().map(weight)),
        Value::Object(fields) => of_fields(fields),
        Value::RecordId(id) => bytes(id.table.as_str().len()).saturating_add(of_key(&id.key)),
        Value::Table(name) => bytes(name.as_str().len()),
        Value::Range(range) => of_bound(&range.start, weight).saturating_add(of_bound(&range.end, weight)),
        Value::Geometry(shape) => shape_weight(shape),
        Value::File(_) | Value::Regex(_) => OPAQUE_BYTES,
        Value::Closure(_) => u64::MAX,
        Value::None
        | Value::Null
        | Value::Bool(_)
        | Value::Number(_)
        | Value::Duration(_)
        | Value::Datetime(_)
        | Value::Uuid(_) => 0,
    };
    VALUE_BYTES.saturating_add(inside)
}

/// At most these bytes, as a shape lies in memory and as it is answered: the second is ten times as much.
pub fn shape_weight(shape: &Geometry) -> u64 {
    let polygons = match shape {
        Geometry::Polygon(polygon) => std::slice::from_ref(polygon),
        Geometry::MultiPolygon(polygons) => polygons.0.as_slice(),
        _ => &[],
    };
    let inside = match shape {
        Geometry::Point(_) => POINT_BYTES,
        Geometry::Line(line) => of_line(line.0.len()),
        Geometry::MultiPoint(points) => of_line(points.0.len()),
        Geometry::MultiLine(lines) => sum(lines.0.iter().map(|line| of_line(line.0.len()))),
        Geometry::Polygon(_) | Geometry::MultiPolygon(_) => sum(polygons.iter().map(|polygon| {
            let holes = polygon.interiors().iter().map(|hole| of_line(hole.0.len()));
            sum(once(VALUE_BYTES).chain(once(of_line(polygon.exterior().0.len()))).chain(holes))
        })),
        Geometry::Collection(shapes) => sum(shapes.iter().map(shape_weight)),
    };
    SHAPE_BYTES.saturating_add(inside)
}

/// A list of so many points.
fn of_line(points: usize) -> u64 {
    bytes(points).saturating_mul(POINT_BYTES).saturating_add(VALUE_BYTES)
}

fn bytes(length: usize) -> u64 {
    u64::try_from(length).unwrap_or(u64::MAX)
}

fn sum(parts: impl Iterator<Item = u64>) -> u64 {
    parts.fold(0, u64::saturating_add)
}

fn of_fields(fields: &Object) -> u64 {
    let own = if fields.is_empty() { 0 } else { OBJECT_BYTES };
    let of = |name: usize, value: &Value| VALUE_BYTES.saturating_add(bytes(name)).saturating_add(weight(value));
    own.saturating_add(sum(fields.iter().map(|(name, value)| of(name.as_str().len(), value))))
}

fn of_key(key: &RecordIdKey) -> u64 {
    let inside = match key {
        RecordIdKey::Number(_) | RecordIdKey::Uuid(_) => 0,
        RecordIdKey::String(text) => bytes(text.as_str().len()),
        RecordIdKey::Array(items) => sum(items.iter().map(weight)),
        RecordIdKey::Object(fields) => of_fields(fields),
        RecordIdKey::Range(range) => of_bound(&range.start, of_key).saturating_add(of_bound(&range.end, of_key)),
    };
    VALUE_BYTES.saturating_add(inside)
}

fn of_bound<T>(bound: &Bound<T>, of: impl Fn(&T) -> u64) -> u64 {
    match bound {
        Bound::Included(inside) | Bound::Excluded(inside) => of(inside),
        Bound::Unbounded => 0,
    }
}
