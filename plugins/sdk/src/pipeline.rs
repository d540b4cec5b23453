//! Requests that go out before the answers to earlier ones are in, where answers come in the order of the requests: the way
//! to speed for most protocols. Matching by an id of one's own is a [`Window`].
//!
//! ```ignore
//! let bounds = Bounds { silence: 5_000, deadline: Deadline::of_call(call.timeout) };
//! let requests = batch.iter().map(|message| line(message));
//! pipeline(&stream, requests, 64, bounds, read_line, |index, reply| call.settled(index, &outcome(reply))).await?;
//! ```
//! For anything else there is [`crate::exchange`].

use std::collections::VecDeque;

use crate::exchange::{Bounds, Broken, Side, exchange};
use crate::net::{Input, Stream};
use crate::transport::PluginError;

/// Bytes of requests that go out in one write, at least one request: a write is one crossing into the host.
const PIECE_BYTES: usize = 64 * 1024;
/// Bytes of one answer that isn't whole yet, at most: a peer that never ends an answer must not fill the memory.
const ANSWER_BYTES_MAX: usize = 1024 * 1024;

/// Sends all requests, at most `window` of them without an answer. `read` looks at what has come: the length of the first
/// answer and what it says, none while it isn't whole. `answered` is called with each request's place, in order.
///
/// # Errors
/// The stream is of no more use; what was answered until then was told.
pub async fn pipeline<R>(
    stream: &Stream,
    requests: impl IntoIterator<Item = Vec<u8>>,
    window: usize,
    bounds: Bounds,
    read: impl FnMut(&[u8]) -> Result<Option<(usize, R)>, PluginError>,
    answered: impl FnMut(usize, R),
) -> Result<(), Broken> {
    let requests = requests.into_iter();
    let mut side = InOrder { requests, window: window.max(1), sent: 0, seen: 0, input: Input::new(), read, answered };
    exchange(stream, &mut side, bounds).await
}

struct InOrder<I, F, A> {
    requests: I,
    window: usize,
    sent: usize,
    seen: usize,
    input: Input,
    read: F,
    answered: A,
}

impl<R, I, F, A> Side for InOrder<I, F, A>
where
    I: Iterator<Item = Vec<u8>>,
    F: FnMut(&[u8]) -> Result<Option<(usize, R)>, PluginError>,
    A: FnMut(usize, R),
{
    fn outgoing(&mut self) -> Vec<u8> {
        let mut piece = Vec::new();
        while self.sent - self.seen < self.window && piece.len() < PIECE_BYTES {
            let Some(request) = self.requests.next() else { break };
            piece.extend(request);
            self.sent += 1;
        }
        piece
    }

    fn waits(&self) -> bool {
        self.seen < self.sent
    }

    fn incoming(&mut self, bytes: Vec<u8>) -> Result<(), PluginError> {
        self.input.push(bytes);
        while let Some((length, reply)) = (self.read)(self.input.unread())? {
            if self.seen >= self.sent {
                return Err(PluginError::unavailable("NET.UNASKED", "the peer answers what nobody asked"));
            }
            self.input.consume(length);
            (self.answered)(self.seen, reply);
            self.seen += 1;
        }
        if self.input.unread().len() > ANSWER_BYTES_MAX {
            let why = format!("an answer of the peer has more than {ANSWER_BYTES_MAX} bytes");
            return Err(PluginError::unavailable("NET.ANSWER_TOO_LARGE", why));
        }
        Ok(())
    }
}

/// Requests without an answer, by the number each was given: for protocols whose answers name what they answer (a packet id,
/// a delivery tag), one or all up to one.
#[derive(Clone, Debug)]
pub struct Window<T> {
    limit: usize,
    next: u64,
    waiting: VecDeque<(u64, T)>,
}

impl<T> Window<T> {
    /// For at most `limit` requests at once; the first gets the number 1.
    pub fn new(limit: usize) -> Self {
        Self { limit: limit.max(1), next: 1, waiting: VecDeque::new() }
    }

    /// Whether another may go out.
    pub fn has_room(&self) -> bool {
        self.waiting.len() < self.limit
    }

    /// How many requests wait for an answer.
    pub fn len(&self) -> usize {
        self.waiting.len()
    }

    /// Whether every request has its answer.
    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// One goes out; answers its number. Look at [`Self::has_room`] before.
    pub fn begin(&mut self, request: T) -> u64 {
        let number = self.next;
        self.next += 1;
        self.waiting.push_back((number, request));
        number
    }

    /// The request of a number; none if it doesn't wait (any more).
    pub fn answer(&mut self, number: u64) -> Option<T> {
        let place = self.waiting.binary_search_by_key(&number, |(number, _)| *number).ok()?;
        self.waiting.remove(place).map(|(_, request)| request)
    }

    /// All requests up to and including a number, oldest first.
    pub fn answer_up_to(&mut self, number: u64) -> Vec<T> {
        let count = self.waiting.partition_point(|(waiting, _)| *waiting <= number);
        self.waiting.drain(..count).map(|(_, request)| request).collect()
    }

    /// All that wait, oldest first: the stream is lost and nobody knows what became of them.
    pub fn abandon(&mut self) -> Vec<T> {
        self.waiting.drain(..).map(|(_, request)| request).collect()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    /// Answers end with `;`.
    fn until_semicolon(bytes: &[u8]) -> Result<Option<(usize, String)>, PluginError> {
        let end = bytes.iter().position(|byte| *byte == b';');
        Ok(end.map(|end| (end + 1, String::from_utf8_lossy(bytes.get(..end).unwrap_or_default()).into_owned())))
    }

    #[test]
    fn no_more_go_out_than_the_window_holds_and_answers_are_told_in_order() {
        let mut told = Vec::new();
        let requests = ["a", "b", "c", "d"].map(|text| text.as_bytes().to_vec());
        let mut side = InOrder {
            requests: requests.into_iter(),
            window: 2,
            sent: 0,
            seen: 0,
            input: Input::new(),
            read: until_semicolon,
            answered: |place, reply: String| told.push((place, reply)),
        };
        assert_eq!(side.outgoing(), b"ab");
        assert!(side.outgoing().is_empty() && side.waits());
        side.incoming(b"one;tw".to_vec()).unwrap();
        assert_eq!(side.outgoing(), b"c");
        side.incoming(b"o;three;".to_vec()).unwrap();
        assert_eq!(side.outgoing(), b"d");
        side.incoming(b"four;".to_vec()).unwrap();
        assert!(side.outgoing().is_empty() && !side.waits());
        assert_eq!(side.incoming(b"five;".to_vec()).unwrap_err().fault.code, "NET.UNASKED");
        let expected = ["one", "two", "three", "four"].map(str::to_owned).into_iter().enumerate().collect::<Vec<_>>();
        assert_eq!(told, expected);
    }

    #[test]
    fn an_answer_without_an_end_does_not_fill_the_memory() {
        let requests = [b"a".to_vec()].into_iter();
        let (read, answered) = (until_semicolon, |_, _: String| {});
        let mut side = InOrder { requests, window: 1, sent: 0, seen: 0, input: Input::new(), read, answered };
        side.outgoing();
        side.incoming(vec![b'x'; ANSWER_BYTES_MAX]).unwrap();
        assert_eq!(side.incoming(vec![b'x']).unwrap_err().fault.code, "NET.ANSWER_TOO_LARGE");
    }

    #[test]
    fn answers_find_their_requests_by_number() {
        let mut window = Window::new(3);
        let numbers: Vec<u64> = ["a", "b", "c"].map(|request| window.begin(request)).into();
        assert_eq!(numbers, [1, 2, 3]);
        assert!(!window.has_room());
        assert_eq!(window.answer(2), Some("b"));
        assert_eq!(window.answer(2), None);
        assert!(window.has_room());
        assert_eq!(window.begin("d"), 4);
        assert_eq!(window.answer_up_to(3), ["a", "c"]);
        assert_eq!(window.abandon(), ["d"]);
        assert!(window.is_empty() && window.len() == 0);
    }
}
