//! What the server answers to statements.

use std::ops::Range;

use bytes::Bytes;
use fallible_iterator::FallibleIterator as _;
use postgres_protocol::message::backend::DataRowBody;

use super::frames::Garbage;

/// The answer to one statement.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Answer {
    pub(crate) rows: Vec<Row>,
    /// What was done, e.g. `UPDATE 3`.
    pub(crate) tag: String,
}

/// A row of an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Row {
    bytes: Bytes,
    columns: Vec<Option<Range<usize>>>,
}

impl Row {
    pub(super) fn new(body: &DataRowBody) -> Result<Self, Garbage> {
        let columns = body.ranges().collect().map_err(|_| Garbage("a row that can't be read"))?;
        Ok(Self { bytes: body.buffer_bytes().clone(), columns })
    }

    /// A row of these texts.
    #[cfg(test)]
    pub(crate) fn of(values: &[Option<&str>]) -> Self {
        let (mut bytes, mut columns) = (Vec::new(), Vec::new());
        for value in values {
            columns.push(value.map(|text| {
                let start = bytes.len();
                bytes.extend_from_slice(text.as_bytes());
                start..bytes.len()
            }));
        }
        Self { bytes: bytes.into(), columns }
    }

    /// A column's bytes; none if it is NULL.
    pub(crate) fn bytes(&self, column: usize) -> Option<&[u8]> {
        self.bytes.get(self.columns.get(column)?.clone()?)
    }

    /// The same as text.
    pub(crate) fn text(&self, column: usize) -> Option<&str> {
        std::str::from_utf8(self.bytes(column)?).ok()
    }

    /// The same as a whole number.
    pub(crate) fn number(&self, column: usize) -> Option<u32> {
        self.text(column)?.parse().ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_has_texts_numbers_and_nothing() {
        let row = Row::of(&[Some("7"), None, Some("größe"), Some("")]);
        assert_eq!((row.number(0), row.text(1), row.text(2)), (Some(7), None, Some("größe")));
        assert_eq!((row.bytes(3), row.bytes(4)), (Some(b"".as_slice()), None));
    }
}
