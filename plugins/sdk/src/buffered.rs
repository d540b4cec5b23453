//! A byte stream with a buffer on each side: reads by line, by length or by frame, and small writes that go out together. Both
//! buffers are bounded.
//!
//! ```ignore
//! let mut peer = Buffered::new(stream);
//! peer.put(b"HELLO\r\n")?;
//! peer.flush(deadline).await?;
//! let greeting = peer.read_line(1_024, deadline).await?;
//! ```

use crate::deadline::Deadline;
use crate::host::net_types::NetError;
use crate::net::{Input, Stream};

/// Most bytes that wait to be written.
const OUTPUT_BYTES_MAX: usize = 4 * 1024 * 1024;

/// What is read from and written to: a [`Stream`], or a stand-in in a test.
#[allow(async_fn_in_trait, reason = "an instance has one thread; nothing here can be `Send`")]
pub trait Pipe {
    /// Waits for bytes and answers all that are there, at least one. See [`Stream::receive`].
    ///
    /// # Errors
    /// None came in time, or the stream ended.
    async fn receive(&self, timeout: u32) -> Result<Vec<u8>, NetError>;

    /// Writes all of it. See [`Stream::write`].
    ///
    /// # Errors
    /// It may be partly sent.
    async fn write(&self, bytes: Vec<u8>, timeout: u32) -> Result<(), NetError>;
}

impl Pipe for Stream {
    async fn receive(&self, timeout: u32) -> Result<Vec<u8>, NetError> {
        Self::receive(self, timeout).await
    }

    async fn write(&self, bytes: Vec<u8>, timeout: u32) -> Result<(), NetError> {
        Self::write(self, bytes, timeout).await
    }
}

/// A stream with buffers.
#[derive(Debug)]
pub struct Buffered<P = Stream> {
    pipe: P,
    input: Input,
    output: Vec<u8>,
}

impl<P: Pipe> Buffered<P> {
    /// Buffers what is read from the pipe and written to it.
    pub fn new(pipe: P) -> Self {
        Self { pipe, input: Input::new(), output: Vec::new() }
    }

    /// The stream itself, e.g. for [`Stream::start_tls`]: nothing may be unread or unwritten then.
    pub fn pipe(&self) -> &P {
        &self.pipe
    }

    /// The stream and what was read of it beyond what was asked for.
    pub fn into_parts(self) -> (P, Input) {
        (self.pipe, self.input)
    }

    /// Whether everything that came was taken.
    pub fn is_read_empty(&self) -> bool {
        self.input.unread().is_empty()
    }

    /// Bytes to be written by the next [`Self::flush`].
    ///
    /// # Errors
    /// `limit`: flush first.
    pub fn put(&mut self, bytes: &[u8]) -> Result<(), NetError> {
        if self.output.len() + bytes.len() > OUTPUT_BYTES_MAX {
            return Err(NetError::Limit(format!(
                "more than {OUTPUT_BYTES_MAX} bytes wait to be written: flush before"
            )));
        }
        self.output.extend_from_slice(bytes);
        Ok(())
    }

    /// Writes everything that was put.
    ///
    /// # Errors
    /// It may be partly sent: the stream takes no more.
    pub async fn flush(&mut self, deadline: Deadline) -> Result<(), NetError> {
        if self.output.is_empty() {
            return Ok(());
        }
        let time = deadline.left().ok_or(NetError::Timeout)?;
        self.pipe.write(std::mem::take(&mut self.output), time).await
    }

    /// Exactly so many bytes.
    ///
    /// # Errors
    /// `closed` if the stream ends before; what had come stays unread.
    pub async fn read_exact(&mut self, count: usize, deadline: Deadline) -> Result<Vec<u8>, NetError> {
        self.read_frame(count, deadline, |unread| Ok(unread.get(..count).map(|bytes| (count, bytes.to_vec())))).await
    }

    /// The bytes before `delimiter`, which is taken too; at most `max` of them.
    ///
    /// # Errors
    /// `limit` if it isn't in the first `max` bytes; `closed` if the stream ends before.
    pub async fn read_until(&mut self, delimiter: &[u8], max: usize, deadline: Deadline) -> Result<Vec<u8>, NetError> {
        let width = delimiter.len().max(1);
        let mut searched = 0_usize;
        self.read_frame(max + width, deadline, |unread| {
            let from = searched.saturating_sub(width - 1);
            let rest = unread.get(from..).unwrap_or_default();
            let found = rest.windows(width).position(|piece| piece == delimiter).map(|place| from + place);
            searched = unread.len();
            match found {
                Some(place) if place <= max => {
                    Ok(Some((place + width, unread.get(..place).unwrap_or_default().to_vec())))
                }
                Some(_) => Err(too_large(max)),
                None => Ok(None),
            }
        })
        .await
    }

    /// A line without its end (`\n` or `\r\n`), of at most `max` bytes.
    ///
    /// # Errors
    /// As [`Self::read_until`].
    pub async fn read_line(&mut self, max: usize, deadline: Deadline) -> Result<Vec<u8>, NetError> {
        let mut line = self.read_until(b"\n", max, deadline).await?;
        if line.last() == Some(&b'\r') {
            line.pop();
        }
        Ok(line)
    }

    /// A frame as `read` finds it in what is unread: its length and what it says, none while it isn't whole. A frame has at most
    /// `max` bytes.
    ///
    /// # Errors
    /// What `read` says; `limit` for a larger frame; `closed` if the stream ends before.
    pub async fn read_frame<T>(
        &mut self,
        max: usize,
        deadline: Deadline,
        mut read: impl FnMut(&[u8]) -> Result<Option<(usize, T)>, NetError>,
    ) -> Result<T, NetError> {
        loop {
            if let Some((length, frame)) = read(self.input.unread())? {
                self.input.consume(length);
                return Ok(frame);
            }
            if self.input.unread().len() > max {
                return Err(too_large(max));
            }
            let time = deadline.left().ok_or(NetError::Timeout)?;
            self.input.push(self.pipe.receive(time).await?);
        }
    }
}

fn too_large(max: usize) -> NetError {
    NetError::Limit(format!("the peer sends more than {max} bytes at once"))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic)]
    use super::*;
    use std::cell::RefCell;
    use std::collections::VecDeque;
    use std::future::Future;
    use std::task::{Context, Poll, Waker};

    /// Gives these pieces one by one, then ends.
    #[derive(Default)]
    struct Pieces {
        come: RefCell<VecDeque<Vec<u8>>>,
        gone: RefCell<Vec<Vec<u8>>>,
    }

    impl Pipe for Pieces {
        async fn receive(&self, _: u32) -> Result<Vec<u8>, NetError> {
            self.come.borrow_mut().pop_front().ok_or(NetError::Closed)
        }
        async fn write(&self, bytes: Vec<u8>, _: u32) -> Result<(), NetError> {
            self.gone.borrow_mut().push(bytes);
            Ok(())
        }
    }

    fn buffered(pieces: &[&str]) -> Buffered<Pieces> {
        let come = pieces.iter().map(|piece| piece.as_bytes().to_vec()).collect();
        Buffered::new(Pieces { come: RefCell::new(come), gone: RefCell::default() })
    }

    /// Nothing here ever waits.
    fn now<T>(work: impl Future<Output = T>) -> T {
        match std::pin::pin!(work).poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(done) => done,
            Poll::Pending => panic!("it waits"),
        }
    }

    fn soon() -> Deadline {
        Deadline::after(10_000)
    }

    #[test]
    fn lines_are_found_wherever_the_stream_was_cut() {
        let mut peer = buffered(&["HEL", "LO\r", "\nwor", "ld\n\n", "rest"]);
        assert_eq!(now(peer.read_line(10, soon())).unwrap(), b"HELLO");
        assert_eq!(now(peer.read_line(10, soon())).unwrap(), b"world");
        assert_eq!(now(peer.read_line(10, soon())).unwrap(), b"");
        assert_eq!(now(peer.read_line(10, soon())), Err(NetError::Closed));
        assert_eq!(now(peer.read_exact(4, soon())).unwrap(), b"rest", "what had come is still there");
        assert!(peer.is_read_empty());
    }

    #[test]
    fn a_delimiter_of_several_bytes_may_be_cut_too() {
        let mut peer = buffered(&["a\r", "\n", "\r\nbody"]);
        assert_eq!(now(peer.read_until(b"\r\n\r\n", 100, soon())).unwrap(), b"a");
        assert_eq!(now(peer.read_exact(4, soon())).unwrap(), b"body");
    }

    #[test]
    fn what_has_no_end_is_given_up() {
        for pieces in [&["xxxxxxxxxx", "xxxx"][..], &["xxxxxxxx\n"][..]] {
            let mut peer = buffered(pieces);
            assert!(matches!(now(peer.read_line(4, soon())), Err(NetError::Limit(_))), "{pieces:?}");
        }
        let mut peer = buffered(&["12345", "\n"]);
        assert_eq!(now(peer.read_line(5, soon())).unwrap(), b"12345");
    }

    #[test]
    fn frames_are_read_as_the_protocol_says() {
        // One byte of length, then as many bytes.
        let read = |unread: &[u8]| {
            let Some((length, rest)) = unread.split_first() else { return Ok(None) };
            let length = usize::from(*length);
            Ok(rest.get(..length).map(|body| (1 + length, body.to_vec())))
        };
        let mut peer = buffered(&["\x03ab", "c\x01", "d"]);
        assert_eq!(now(peer.read_frame(256, soon(), read)).unwrap(), b"abc");
        assert_eq!(now(peer.read_frame(256, soon(), read)).unwrap(), b"d");
    }

    #[test]
    fn small_writes_go_out_together_and_not_without_bound() {
        let mut peer = buffered(&[]);
        now(peer.flush(soon())).unwrap();
        peer.put(b"a").unwrap();
        peer.put(b"b").unwrap();
        now(peer.flush(soon())).unwrap();
        assert_eq!(*peer.pipe().gone.borrow(), [b"ab".to_vec()]);
        assert!(matches!(peer.put(&vec![0; OUTPUT_BYTES_MAX + 1]), Err(NetError::Limit(_))));
        peer.put(b"c").unwrap();
        assert_eq!(now(peer.flush(Deadline::after(0))), Err(NetError::Timeout));
    }
}
