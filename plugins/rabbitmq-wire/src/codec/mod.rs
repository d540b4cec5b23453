//! What a server says (AMQP 0-9-1, sections 2.3 and 4.2), taken out of the bytes received: frames, the methods that publishers
//! and consumers meet, and the properties of a message. Pure; never panics on garbage, never waits for more than its bounds.

mod content;
mod table;

use std::borrow::Cow;

pub use content::{
    CONTENT_TYPE, CORRELATION_ID, Content, DELIVERY_MODE, EXPIRATION, HEADERS, MESSAGE_ID, PRIORITY, REPLY_TO,
    TIMESTAMP, TYPE, content,
};
use table::Reader;
pub use table::{Table, Value};

/// Largest frame taken or written, with its 8 bytes around the payload; what RabbitMQ proposes by default.
pub const FRAME_BYTES_MAX: usize = 128 * 1024;
/// Bytes of a frame around its payload.
pub const FRAME_OVERHEAD: usize = 8;

/// Kind of a frame: a method.
pub const METHOD: u8 = 1;
/// Kind of a frame: the properties of a message and the size of its body.
pub const HEADER: u8 = 2;
/// Kind of a frame: a piece of a message's body.
pub const BODY: u8 = 3;
/// Kind of a frame: a sign of life.
pub const HEARTBEAT: u8 = 8;
/// Last byte of each frame.
pub const END: u8 = 0xce;

/// What isn't AMQP 0-9-1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Garbage(
    /// What is wrong, for the operator.
    pub &'static str,
);

/// One frame of either side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame<'a> {
    /// `METHOD`, `HEADER`, `BODY` or `HEARTBEAT`.
    pub kind: u8,
    /// 0 is the connection itself.
    pub channel: u16,
    /// What is in it, by its kind.
    pub payload: &'a [u8],
}

/// Takes the first frame: it and its length. None: more bytes are needed.
///
/// # Errors
/// The bytes are no AMQP 0-9-1, or larger than what was agreed.
pub fn next(input: &[u8]) -> Result<Option<(Frame<'_>, usize)>, Garbage> {
    let Some(&kind) = input.first() else { return Ok(None) };
    match kind {
        METHOD | HEADER | BODY | HEARTBEAT => {}
        b'A' => return Err(Garbage("it speaks another version of AMQP")),
        // An alert or a handshake record.
        0x15 | 0x16 => return Err(Garbage("it speaks TLS: write amqps://")),
        _ => return Err(Garbage("an unknown kind of frame")),
    }
    let mut reader = Reader::new(input.get(1..).unwrap_or_default());
    let (Some(channel), Some(length)) = (reader.u16(), reader.u32()) else { return Ok(None) };
    let length = length as usize;
    if length + FRAME_OVERHEAD > FRAME_BYTES_MAX {
        return Err(Garbage("a frame that is too large"));
    }
    let rest = reader.rest();
    let (Some(payload), Some(&end)) = (rest.get(..length), rest.get(length)) else { return Ok(None) };
    if end != END {
        return Err(Garbage("a frame without an end"));
    }
    Ok(Some((Frame { kind, channel, payload }, length + FRAME_OVERHEAD)))
}

/// Why a server closes a connection or a channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Closing<'a> {
    /// Number of the reason, e.g. 320.
    pub code: u16,
    text: &'a [u8],
}

impl<'a> Closing<'a> {
    /// The server's own words.
    pub fn text(&self) -> Cow<'a, str> {
        String::from_utf8_lossy(self.text)
    }
}

/// The methods that publishers and consumers meet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method<'a> {
    /// `connection.start`: the greeting.
    Start {
        /// The server as it describes itself.
        properties: Table<'a>,
        /// SASL mechanisms, with spaces between.
        mechanisms: &'a [u8],
    },
    /// `connection.tune`: what the server proposes.
    Tune {
        /// Most bytes of a frame; 0 = no bound.
        frame_max: u32,
        /// Seconds; 0 = none.
        heartbeat: u16,
    },
    /// `connection.open-ok`.
    Opened,
    /// `connection.close`, with the server's reason.
    Close(Closing<'a>),
    /// `connection.close-ok`: the answer to our goodbye.
    CloseOk,
    /// `connection.blocked`, with the server's reason.
    Blocked(&'a [u8]),
    /// `connection.unblocked`: it goes on.
    Unblocked,
    /// `channel.open-ok`.
    ChannelOpened,
    /// `channel.flow`: whether to go on.
    Flow(bool),
    /// `channel.close`, with the server's reason.
    ChannelClose(Closing<'a>),
    /// `channel.close-ok`: the answer to ours.
    ChannelCloseOk,
    /// `exchange.declare-ok`, `queue.bind-ok`, `basic.qos-ok`.
    Done,
    /// `queue.declare-ok`: the queue is there.
    Queue {
        /// Messages that wait for a consumer.
        messages: u32,
        /// Consumers of the queue.
        consumers: u32,
    },
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
    /// `basic.consume-ok`: deliveries follow.
    Consuming,
    /// `basic.deliver`: the content follows.
    Deliver(Deliver<'a>),
    /// `basic.cancel`: the server ends the consumer, e.g. because its queue was deleted.
    Cancel,
    /// `basic.cancel-ok`: no more deliveries follow.
    CancelOk,
}

fn closing<'a>(reader: &mut Reader<'a>) -> Option<Closing<'a>> {
    Some(Closing { code: reader.u16()?, text: reader.short()? })
}

/// What a server says before the content of a delivery.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Deliver<'a> {
    /// Number of the delivery on its channel, for settling it.
    pub tag: u64,
    /// It was delivered before, to us or to another consumer.
    pub redelivered: bool,
    /// Exchange it was published to.
    pub exchange: &'a [u8],
    /// Routing key it was published with.
    pub routing_key: &'a [u8],
}

/// Reads the payload of a method frame.
///
/// # Errors
/// It is none of these methods, or cut short.
pub fn method(payload: &[u8]) -> Result<Method<'_>, Garbage> {
    let mut reader = Reader::new(payload);
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
        (10, 50) => Method::Close(closing(reader)?),
        (10, 51) => Method::CloseOk,
        (10, 60) => Method::Blocked(reader.short()?),
        (10, 61) => Method::Unblocked,
        (20, 11) => Method::ChannelOpened,
        (20, 20) => Method::Flow(reader.u8()? & 1 == 1),
        (20, 40) => Method::ChannelClose(closing(reader)?),
        (20, 41) => Method::ChannelCloseOk,
        (40, 11) | (50, 21) | (60, 11) => Method::Done,
        (50, 11) => {
            let _name = reader.short()?;
            Method::Queue { messages: reader.u32()?, consumers: reader.u32()? }
        }
        (60, 21) => Method::Consuming,
        (60, 30) => Method::Cancel,
        (60, 31) => Method::CancelOk,
        (60, 60) => {
            let _consumer = reader.short()?;
            Method::Deliver(Deliver {
                tag: reader.u64()?,
                redelivered: reader.u8()? & 1 == 1,
                exchange: reader.short()?,
                routing_key: reader.short()?,
            })
        }
        (60, 50) => Method::Return(closing(reader)?),
        (60, 80) => Method::Confirm { tag: reader.u64()?, multiple: reader.u8()? & 1 == 1, taken: true },
        (60, 120) => Method::Confirm { tag: reader.u64()?, multiple: reader.u8()? & 1 == 1, taken: false },
        (85, 11) => Method::Selected,
        _ => return Some(Err(Garbage("a method that nobody asked for"))),
    };
    Some(Ok(method))
}

#[cfg(test)]
mod tests;
