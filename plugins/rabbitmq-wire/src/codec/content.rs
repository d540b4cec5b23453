//! The content header of a message (section 4.2.6.1): its properties, and the size of its body.

use super::Garbage;
use super::table::{Reader, Table};

/// What the properties of a message say of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Content<'a> {
    /// Bytes of the body that follows.
    pub body: u64,
    /// Media type of the body.
    pub content_type: Option<&'a [u8]>,
    /// Its headers, one table.
    pub headers: Option<Table<'a>>,
    /// Ties an answer to its request.
    pub correlation_id: Option<&'a [u8]>,
    /// Where an answer is expected.
    pub reply_to: Option<&'a [u8]>,
    /// The sender's name for it.
    pub message_id: Option<&'a [u8]>,
    /// When it was made, in seconds since 1970, as its sender said.
    pub timestamp: Option<u64>,
    /// What it is about.
    pub kind: Option<&'a [u8]>,
}

/// Property flags, the first is the highest bit.
pub const CONTENT_TYPE: u16 = 1 << 15;
const CONTENT_ENCODING: u16 = 1 << 14;
/// Flag of the headers, a table.
pub const HEADERS: u16 = 1 << 13;
/// Flag of the delivery mode, one byte.
pub const DELIVERY_MODE: u16 = 1 << 12;
/// Flag of the priority, one byte.
pub const PRIORITY: u16 = 1 << 11;
/// Flag of the correlation id.
pub const CORRELATION_ID: u16 = 1 << 10;
/// Flag of the reply address.
pub const REPLY_TO: u16 = 1 << 9;
/// Flag of the time to live, a text.
pub const EXPIRATION: u16 = 1 << 8;
/// Flag of the sender's id.
pub const MESSAGE_ID: u16 = 1 << 7;
/// Flag of the timestamp, eight bytes.
pub const TIMESTAMP: u16 = 1 << 6;
/// Flag of the type's name.
pub const TYPE: u16 = 1 << 5;

/// Reads the payload of a content header frame, as far as the type's name.
///
/// # Errors
/// It is cut short.
pub fn content(payload: &[u8]) -> Result<Content<'_>, Garbage> {
    read(&mut Reader::new(payload)).ok_or(Garbage("a content header that is cut short"))
}

fn read<'a>(reader: &mut Reader<'a>) -> Option<Content<'a>> {
    let (_class, _weight) = (reader.u16()?, reader.u16()?);
    let (body, flags) = (reader.u64()?, reader.u16()?);
    let has = |flag: u16| flags & flag != 0;
    let mut content = Content { body, ..Content::default() };
    if has(CONTENT_TYPE) {
        content.content_type = Some(reader.short()?);
    }
    if has(CONTENT_ENCODING) {
        reader.short()?;
    }
    if has(HEADERS) {
        content.headers = Some(reader.table()?);
    }
    for flag in [DELIVERY_MODE, PRIORITY] {
        if has(flag) {
            reader.u8()?;
        }
    }
    if has(CORRELATION_ID) {
        content.correlation_id = Some(reader.short()?);
    }
    if has(REPLY_TO) {
        content.reply_to = Some(reader.short()?);
    }
    if has(EXPIRATION) {
        reader.short()?;
    }
    if has(MESSAGE_ID) {
        content.message_id = Some(reader.short()?);
    }
    if has(TIMESTAMP) {
        content.timestamp = Some(reader.u64()?);
    }
    if has(TYPE) {
        content.kind = Some(reader.short()?);
    }
    Some(content)
}
