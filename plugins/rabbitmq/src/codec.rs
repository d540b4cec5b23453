//! What a server says (AMQP 0-9-1, sections 2.3 and 4.2), taken out of the bytes received: frames, the methods that a publisher
//! meets, and the properties of a returned message. Pure; never panics on garbage, never waits for more than its bounds.

use std::borrow::Cow;

/// Largest frame taken or written, with its 8 bytes around the payload; what RabbitMQ proposes by default.
pub(crate) const FRAME_BYTES_MAX: usize = 128 * 1024;
/// Bytes of a frame around its payload.
pub(crate) const FRAME_OVERHEAD: usize = 8;

pub(crate) const METHOD: u8 = 1;
pub(crate) const HEADER: u8 = 2;
pub(crate) const BODY: u8 = 3;
pub(crate) const HEARTBEAT: u8 = 8;
/// Last byte of each frame.
pub(crate) const END: u8 = 0xce;

/// What isn't AMQP 0-9-1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Garbage(pub(crate) &'static str);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Frame<'a> {
    /// `METHOD`, `HEADER`, `BODY` or `HEARTBEAT`.
    pub(crate) kind: u8,
    /// 0 is the connection itself.
    pub(crate) channel: u16,
    pub(crate) payload: &'a [u8],
}

/// Takes the first frame: it and its length. None: more bytes are needed.
///
/// # Errors
/// The bytes are no AMQP 0-9-1, or larger than what was agreed.
pub(crate) fn next(input: &[u8]) -> Result<Option<(Frame<'_>, usize)>, Garbage> {
    let Some(&kind) = input.first() else { return Ok(None) };
    match kind {
        METHOD | HEADER | BODY | HEARTBEAT => {}
        b'A' => return Err(Garbage("it speaks another version of AMQP")),
        // An alert or a handshake record.
        0x15 | 0x16 => return Err(Garbage("it speaks TLS: write amqps://")),
        _ => return Err(Garbage("an unknown kind of frame")),
    }
    let mut reader = Reader(input.get(1..).unwrap_or_default());
    let (Some(channel), Some(length)) = (reader.u16(), reader.u32()) else { return Ok(None) };
    let length = length as usize;
    if length + FRAME_OVERHEAD > FRAME_BYTES_MAX {
        return Err(Garbage("a frame that is too large"));
    }
    let (Some(payload), Some(&end)) = (reader.0.get(..length), reader.0.get(length)) else { return Ok(None) };
    if end != END {
        return Err(Garbage("a frame without an end"));
    }
    Ok(Some((Frame { kind, channel, payload }, length + FRAME_OVERHEAD)))
}

/// Why a server closes a connection or a channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Closing<'a> {
    pub(crate) code: u16,
    text: &'a [u8],
}

impl<'a> Closing<'a> {
    pub(crate) fn text(&self) -> Cow<'a, str> {
        String::from_utf8_lossy(self.text)
    }
}

/// The methods that a publisher meets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Method<'a> {
    Start {
        /// The server as it describes itself.
        properties: Table<'a>,
        /// SASL mechanisms, with spaces between.
        mechanisms: &'a [u8],
    },
    Tune {
        /// Most bytes of a frame; 0 = no bound.
        frame_max: u32,
        /// Seconds; 0 = none.
        heartbeat: u16,
    },
    /// `connection.open-ok`.
    Opened,
    /// `connection.close`.
    Close(Closing<'a>),
    CloseOk,
    /// `connection.blocked`, with the server's reason.
    Blocked(&'a [u8]),
    Unblocked,
    /// `channel.open-ok`.
    ChannelOpened,
    /// `channel.flow`: whether to go on.
    Flow(bool),
    ChannelClose(Closing<'a>),
    ChannelCloseOk,
    /// `exchange.declare-ok`, `queue.declare-ok`, `queue.bind-ok`.
    Done,
    /// `confirm.select-ok`.
    Selected,
    /// `basic.return`: the content follows.
    Return(Closing<'a>),
    /// `basic.ack` and `basic.nack`.
    Confirm {
        /// Number of the message on its channel.
        tag: u64,
        /// All up to it.
        multiple: bool,
        /// Whether the server took it.
        taken: bool,
    },
}

/// Reads the payload of a method frame.
///
/// # Errors
/// It is none of these methods, or cut short.
pub(crate) fn method(payload: &[u8]) -> Result<Method<'_>, Garbage> {
    let mut reader = Reader(payload);
    read_method(&mut reader).ok_or(Garbage("a method that is cut short"))?
}

fn read_method<'a>(reader: &mut Reader<'a>) -> Option<Result<Method<'a>, Garbage>> {
    let (class, number) = (reader.u16()?, reader.u16()?);
    let method = match (class, number) {
        (10, 10) => {
            let _version = reader.u16()?;
            Method::Start { properties: reader.table()?, mechanisms: reader.long()? }
        }
        (10, 30) => {
            let _channels = reader.u16()?;
            Method::Tune { frame_max: reader.u32()?, heartbeat: reader.u16()? }
        }
        (10, 41) => Method::Opened,
        (10, 50) => Method::Close(reader.closing()?),
        (10, 51) => Method::CloseOk,
        (10, 60) => Method::Blocked(reader.short()?),
        (10, 61) => Method::Unblocked,
        (20, 11) => Method::ChannelOpened,
        (20, 20) => Method::Flow(reader.u8()? & 1 == 1),
        (20, 40) => Method::ChannelClose(reader.closing()?),
        (20, 41) => Method::ChannelCloseOk,
        (40, 11) | (50, 11 | 21) => Method::Done,
        (60, 50) => Method::Return(reader.closing()?),
        (60, 80) => Method::Confirm { tag: reader.u64()?, multiple: reader.u8()? & 1 == 1, taken: true },
        (60, 120) => Method::Confirm { tag: reader.u64()?, multiple: reader.u8()? & 1 == 1, taken: false },
        (85, 11) => Method::Selected,
        _ => return Some(Err(Garbage("a method that nobody asked for"))),
    };
    Some(Ok(method))
}

/// What the properties of a returned message say of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Content<'a> {
    /// Bytes of the body that follows.
    pub(crate) body: u64,
    pub(crate) message_id: Option<&'a [u8]>,
    pub(crate) headers: Option<Table<'a>>,
}

/// Property flags, the first is the highest bit.
pub(crate) const CONTENT_TYPE: u16 = 1 << 15;
const CONTENT_ENCODING: u16 = 1 << 14;
pub(crate) const HEADERS: u16 = 1 << 13;
pub(crate) const DELIVERY_MODE: u16 = 1 << 12;
pub(crate) const PRIORITY: u16 = 1 << 11;
pub(crate) const CORRELATION_ID: u16 = 1 << 10;
pub(crate) const REPLY_TO: u16 = 1 << 9;
pub(crate) const EXPIRATION: u16 = 1 << 8;
pub(crate) const MESSAGE_ID: u16 = 1 << 7;
pub(crate) const TIMESTAMP: u16 = 1 << 6;
pub(crate) const TYPE: u16 = 1 << 5;

/// Reads the payload of a content header frame, as far as `message-id`.
///
/// # Errors
/// It is cut short.
pub(crate) fn content(payload: &[u8]) -> Result<Content<'_>, Garbage> {
    read_content(&mut Reader(payload)).ok_or(Garbage("a content header that is cut short"))
}

fn read_content<'a>(reader: &mut Reader<'a>) -> Option<Content<'a>> {
    let (_class, _weight) = (reader.u16()?, reader.u16()?);
    let (body, flags) = (reader.u64()?, reader.u16()?);
    let mut content = Content { body, message_id: None, headers: None };
    for flag in [CONTENT_TYPE, CONTENT_ENCODING] {
        if flags & flag != 0 {
            reader.short()?;
        }
    }
    if flags & HEADERS != 0 {
        content.headers = Some(reader.table()?);
    }
    for flag in [DELIVERY_MODE, PRIORITY] {
        if flags & flag != 0 {
            reader.u8()?;
        }
    }
    for flag in [CORRELATION_ID, REPLY_TO, EXPIRATION] {
        if flags & flag != 0 {
            reader.short()?;
        }
    }
    if flags & MESSAGE_ID != 0 {
        content.message_id = Some(reader.short()?);
    }
    Some(content)
}

/// The bytes of a field table (section 4.2.5.5), read entry by entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Table<'a>(&'a [u8]);

/// A value in a table, as far as it matters here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Value<'a> {
    Text(&'a [u8]),
    Flag(bool),
    Number(i64),
    Table(Table<'a>),
    Other,
}

impl<'a> Table<'a> {
    /// The first value of this name.
    pub(crate) fn get(&self, name: &str) -> Option<Value<'a>> {
        let mut reader = Reader(self.0);
        while let Some(found) = reader.short() {
            let value = reader.value()?;
            if found == name.as_bytes() {
                return Some(value);
            }
        }
        None
    }

    /// The first value of this name, if it is a text.
    pub(crate) fn text(&self, name: &str) -> Option<Cow<'a, str>> {
        match self.get(name)? {
            Value::Text(bytes) => Some(String::from_utf8_lossy(bytes)),
            _ => None,
        }
    }
}

/// Takes values off the front.
struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let (first, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(first)
    }

    fn bytes<const N: usize>(&mut self) -> Option<[u8; N]> {
        self.take(N)?.try_into().ok()
    }

    fn u8(&mut self) -> Option<u8> {
        self.bytes().map(|[byte]| byte)
    }

    fn u16(&mut self) -> Option<u16> {
        self.bytes().map(u16::from_be_bytes)
    }

    fn u32(&mut self) -> Option<u32> {
        self.bytes().map(u32::from_be_bytes)
    }

    fn u64(&mut self) -> Option<u64> {
        self.bytes().map(u64::from_be_bytes)
    }

    fn short(&mut self) -> Option<&'a [u8]> {
        let length = self.u8()?;
        self.take(usize::from(length))
    }

    fn long(&mut self) -> Option<&'a [u8]> {
        let length = self.u32()?;
        self.take(length as usize)
    }

    fn table(&mut self) -> Option<Table<'a>> {
        self.long().map(Table)
    }

    fn closing(&mut self) -> Option<Closing<'a>> {
        Some(Closing { code: self.u16()?, text: self.short()? })
    }

    /// A value with its kind, in the letters that RabbitMQ uses (its errata of 0-9-1).
    fn value(&mut self) -> Option<Value<'a>> {
        let value = match self.u8()? {
            b'S' => Value::Text(self.long()?),
            b't' => Value::Flag(self.u8()? != 0),
            b'F' => Value::Table(self.table()?),
            b'l' | b'L' => Value::Number(i64::from_be_bytes(self.bytes()?)),
            b'I' => Value::Number(i64::from(i32::from_be_bytes(self.bytes()?))),
            kind => {
                let length = match kind {
                    b'b' | b'B' => 1,
                    b's' | b'u' | b'U' => 2,
                    b'i' | b'f' => 4,
                    b'D' => 5,
                    b'd' | b'T' => 8,
                    b'V' => 0,
                    b'x' | b'A' => self.u32()? as usize,
                    _ => return None,
                };
                self.take(length)?;
                Value::Other
            }
        };
        Some(value)
    }
}

#[cfg(test)]
#[path = "codec_tests.rs"]
mod tests;
