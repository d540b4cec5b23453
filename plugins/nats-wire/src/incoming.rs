//! What comes in, and what of it concerns the connection itself.

use waybill_plugin::broker::Link;
use waybill_plugin::deadline::Deadline;
use waybill_plugin::net::Input;
use waybill_plugin::transport::PluginError;

use crate::codec::{self, Message, Operation};
use crate::info::Info;
use crate::refusal::{self, Refusal};

/// Bytes of CR LF behind a payload.
const END_BYTES: usize = 2;

/// What a server said that its caller has to look at.
pub enum Event<'a> {
    /// A message in our inbox: its number and what it holds.
    Answer(u64, Message<'a>),
    /// A message of a stream for our subscription, on the subject it was published to.
    Delivery(Message<'a>),
    /// The answer to our ping.
    Pong,
    /// We may not publish to this subject.
    NoPublish(String),
}

/// Bytes that were received, and the server as it described itself last.
pub struct Incoming {
    input: Input,
    pub(crate) info: Info,
    /// Subject prefix of our inbox, with its final dot.
    pub(crate) inbox: String,
    /// Bytes still to come of a payload that isn't taken.
    skip: usize,
    pong_due: bool,
    pub(crate) has_news: bool,
}

impl Incoming {
    pub(crate) fn new(inbox: String) -> Self {
        Self { input: Input::new(), info: Info::default(), inbox, skip: 0, pong_due: false, has_news: false }
    }

    /// Takes what was read.
    pub fn push(&mut self, bytes: Vec<u8>) {
        self.input.push(bytes);
    }

    /// Subject prefix of our inbox, with its final dot. A number behind it names a request.
    pub fn inbox(&self) -> &str {
        &self.inbox
    }

    /// Most bytes of headers and payload of one message, as the server told last.
    pub fn max_payload(&self) -> usize {
        self.info.max_payload
    }

    /// Whether the server pinged and wants its answer; asked once.
    pub fn take_pong_due(&mut self) -> bool {
        std::mem::take(&mut self.pong_due)
    }

    /// Whether everything that came was taken.
    pub(crate) fn is_empty(&self) -> bool {
        self.input.unread().is_empty()
    }

    pub(crate) async fn receive(&mut self, link: &Link, deadline: Deadline) -> Result<(), PluginError> {
        self.input.push(link.receive(deadline).await?);
        Ok(())
    }

    /// Goes through everything that is there whole; answers how many operations that were.
    ///
    /// # Errors
    /// The server ended the connection, or speaks no NATS.
    pub fn drain(&mut self, mut on: impl FnMut(Event<'_>)) -> Result<usize, PluginError> {
        let Self { input, info, inbox, skip, pong_due, has_news } = self;
        let mut count = 0;
        loop {
            let skipped = (*skip).min(input.unread().len());
            input.consume(skipped);
            *skip -= skipped;
            if *skip > 0 {
                return Ok(count);
            }
            let next = codec::next(input.unread()).map_err(|codec::Garbage(what)| no_nats(what))?;
            let Some((operation, length)) = next else { return Ok(count) };
            match operation {
                Operation::Message(message) => {
                    *skip = message.omitted.map_or(0, |omitted| omitted + END_BYTES);
                    match message.subject.strip_prefix(inbox.as_bytes()) {
                        Some(number) => {
                            if let Some(number) = codec::number(number) {
                                on(Event::Answer(number, message));
                            }
                        }
                        None => on(Event::Delivery(message)),
                    }
                }
                Operation::Info(json) => {
                    *info = Info::parse(json).ok_or_else(|| no_nats("an INFO that is no JSON"))?;
                    *has_news = true;
                }
                Operation::Ping => *pong_due = true,
                Operation::Pong => on(Event::Pong),
                Operation::Fine => {}
                Operation::Error(text) => match refusal::sort(text) {
                    Refusal::Publish(subject) => on(Event::NoPublish(subject)),
                    refusal @ Refusal::Connection { .. } => return Err(refusal.error()),
                },
            }
            input.consume(length);
            count += 1;
        }
    }
}

fn no_nats(what: &str) -> PluginError {
    PluginError::unavailable("NATS.PROTOCOL", format!("who answers there isn't a NATS server: {what}"))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn incoming() -> Incoming {
        Incoming::new("_INBOX.x.".to_owned())
    }

    fn drained(incoming: &mut Incoming, bytes: &[u8]) -> Vec<String> {
        incoming.push(bytes.to_vec());
        let mut events = Vec::new();
        incoming
            .drain(|event| {
                events.push(match event {
                    Event::Answer(number, message) => format!("answer {number} {}", message.payload.len()),
                    Event::Delivery(message) => format!(
                        "delivery {} {} {:?}",
                        String::from_utf8_lossy(message.subject),
                        message.payload.len(),
                        message.omitted
                    ),
                    Event::Pong => "pong".to_owned(),
                    Event::NoPublish(subject) => format!("no {subject}"),
                });
            })
            .unwrap();
        events
    }

    #[test]
    fn answers_have_the_number_of_their_request_and_what_a_stream_delivers_its_own_subject() {
        let mut incoming = incoming();
        let bytes = b"MSG _INBOX.x.7 1 2\r\nok\r\nMSG orders.a 1 $JS.ACK.S.C.1.2.3.4.5 2\r\nhi\r\nMSG _INBOX.x.a 1 0\r\n\r\nPONG\r\n";
        assert_eq!(drained(&mut incoming, bytes), ["answer 7 2", "delivery orders.a 2 None", "pong"]);
        drained(&mut incoming, b"PING\r\n");
        assert!(incoming.take_pong_due() && !incoming.take_pong_due());
    }

    #[test]
    fn a_payload_that_is_too_large_is_skipped_without_being_kept() {
        let mut incoming = incoming();
        let told = drained(&mut incoming, b"MSG orders.a 1 r 9000000\r\n");
        assert_eq!(told, ["delivery orders.a 0 Some(9000000)"]);
        for _ in 0..9 {
            assert!(drained(&mut incoming, &vec![b'x'; 1_000_000]).is_empty());
            assert!(incoming.is_empty());
        }
        assert_eq!(drained(&mut incoming, b"\r\nPONG\r\n"), ["pong"]);
    }
}
