//! Values, and tables of them (section 4.2.5.5).

use std::borrow::Cow;

/// The bytes of a field table (section 4.2.5.5), read entry by entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Table<'a>(pub(super) &'a [u8]);

/// A value in a table, as far as it matters here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Value<'a> {
    /// Text, or bytes that are called so.
    Text(&'a [u8]),
    /// Yes or no.
    Flag(bool),
    /// A whole number of any width.
    Number(i64),
    /// An instant, in seconds since 1970.
    Time(u64),
    /// A table in a table.
    Table(Table<'a>),
    /// A kind that says nothing here: an array, a fraction, nothing.
    Other,
}

impl<'a> Table<'a> {
    /// Names and values in their order, up to the first that can't be read.
    pub fn entries(&self) -> impl Iterator<Item = (&'a [u8], Value<'a>)> + use<'a> {
        let mut reader = Reader(self.0);
        std::iter::from_fn(move || Some((reader.short()?, reader.value()?)))
    }

    /// The first value of this name.
    pub fn get(&self, name: &str) -> Option<Value<'a>> {
        self.entries().find(|(found, _)| *found == name.as_bytes()).map(|(_, value)| value)
    }

    /// The first value of this name, if it is a text.
    pub fn text(&self, name: &str) -> Option<Cow<'a, str>> {
        match self.get(name)? {
            Value::Text(bytes) => Some(String::from_utf8_lossy(bytes)),
            _ => None,
        }
    }
}

/// Takes values off the front.
pub(super) struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    /// What wasn't taken yet.
    pub(super) fn rest(&self) -> &'a [u8] {
        self.0
    }

    fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let (first, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(first)
    }

    fn bytes<const N: usize>(&mut self) -> Option<[u8; N]> {
        self.take(N)?.try_into().ok()
    }

    pub(super) fn u8(&mut self) -> Option<u8> {
        self.bytes().map(|[byte]| byte)
    }

    pub(super) fn u16(&mut self) -> Option<u16> {
        self.bytes().map(u16::from_be_bytes)
    }

    pub(super) fn u32(&mut self) -> Option<u32> {
        self.bytes().map(u32::from_be_bytes)
    }

    pub(super) fn u64(&mut self) -> Option<u64> {
        self.bytes().map(u64::from_be_bytes)
    }

    pub(super) fn short(&mut self) -> Option<&'a [u8]> {
        let length = self.u8()?;
        self.take(usize::from(length))
    }

    pub(super) fn long(&mut self) -> Option<&'a [u8]> {
        let length = self.u32()?;
        self.take(length as usize)
    }

    pub(super) fn table(&mut self) -> Option<Table<'a>> {
        self.long().map(Table)
    }

    /// A value with its kind, in the letters that RabbitMQ uses (its errata of 0-9-1).
    fn value(&mut self) -> Option<Value<'a>> {
        let value = match self.u8()? {
            b'S' => Value::Text(self.long()?),
            b't' => Value::Flag(self.u8()? != 0),
            b'F' => Value::Table(self.table()?),
            b'l' | b'L' => Value::Number(i64::from_be_bytes(self.bytes()?)),
            b'I' => Value::Number(i64::from(i32::from_be_bytes(self.bytes()?))),
            b'i' => Value::Number(i64::from(self.u32()?)),
            b's' | b'U' => Value::Number(i64::from(i16::from_be_bytes(self.bytes()?))),
            b'u' => Value::Number(i64::from(self.u16()?)),
            b'b' => Value::Number(i64::from(i8::from_be_bytes(self.bytes()?))),
            b'B' => Value::Number(i64::from(self.u8()?)),
            b'T' => Value::Time(self.u64()?),
            b'x' => Value::Text(self.long()?),
            kind => {
                let length = match kind {
                    b'f' => 4,
                    b'D' => 5,
                    b'd' => 8,
                    b'V' => 0,
                    b'A' => self.u32()? as usize,
                    _ => return None,
                };
                self.take(length)?;
                Value::Other
            }
        };
        Some(value)
    }
}
