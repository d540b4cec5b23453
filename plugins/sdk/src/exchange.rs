//! A conversation in which requests go out while answers to earlier ones come in: writing and reading overlap, in large
//! pieces, and silence that lasts too long ends it. What is said, and how many requests may wait, is the [`Side`]'s.

use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::task::Poll;

use futures_util::future::{Fuse, FusedFuture as _, FutureExt as _};

use crate::deadline::Deadline;
use crate::host::net_types::NetError;
use crate::net::Stream;
use crate::transport::PluginError;

/// Longest look at what a peer said before it closed, in milliseconds.
const LAST_WORDS_MS: u32 = 1_000;

/// Our side of the conversation.
pub trait Side {
    /// The next bytes to write: a whole piece at once, each is a crossing into the host. Empty: nothing can go out before
    /// something has come.
    fn outgoing(&mut self) -> Vec<u8>;

    /// Whether something is still to come.
    fn waits(&self) -> bool;

    /// Takes what has come.
    ///
    /// # Errors
    /// The conversation can't go on.
    fn incoming(&mut self, bytes: Vec<u8>) -> Result<(), PluginError>;

    /// Milliseconds after which `outgoing` is asked again although nothing has come: for a protocol with heartbeats.
    fn pulse(&self) -> Option<u32> {
        None
    }

    /// Whether the peer has asked to wait: then silence isn't counted, only the deadline.
    fn held(&self) -> bool {
        false
    }

    /// Whether an answer has been missing for too long, whatever else was said: for a protocol with heartbeats, which break
    /// the silence and answer nothing.
    fn overdue(&self) -> bool {
        false
    }
}

/// Bounds of a conversation.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// Milliseconds of silence after which it is given up. Silence begins with the end of each write and each read.
    pub silence: u32,
    /// When it has to end.
    pub deadline: Deadline,
}

impl Bounds {
    fn silence(&self) -> Deadline {
        self.deadline.at_most(self.silence)
    }
}

/// Why a conversation ended before everything was said.
#[derive(Clone, Debug, PartialEq)]
pub enum Broken {
    /// Nothing came for too long.
    Silent,
    /// The stream ended or broke.
    Lost(NetError),
    /// What came ended it.
    Refused(PluginError),
}

/// Talks until nothing is to be written and nothing is to come.
///
/// # Errors
/// The stream is of no more use: what was read of an answer is lost.
pub async fn exchange(stream: &Stream, side: &mut impl Side, bounds: Bounds) -> Result<(), Broken> {
    let mut writing = pin!(Fuse::terminated());
    let mut reading = pin!(Fuse::terminated());
    let mut silence = bounds.silence();
    loop {
        if writing.is_terminated() {
            if side.overdue() {
                return Err(Broken::Silent);
            }
            let piece = side.outgoing();
            if !piece.is_empty() {
                let time = bounds.deadline.left().ok_or(Broken::Lost(NetError::Timeout))?;
                writing.set(stream.write(piece, time).fuse());
            } else if !side.waits() && reading.is_terminated() {
                return Ok(());
            }
        }
        // A write that is done at once costs no read in vain; a read stays under way over many writes.
        match poll_fn(|context| Poll::Ready(writing.as_mut().poll(context))).await {
            Poll::Ready(Ok(())) => {
                silence = bounds.silence();
                continue;
            }
            Poll::Ready(Err(error)) => return Err(last_words(stream, side, reading, error).await),
            Poll::Pending => {}
        }
        // None is begun for nothing: what a read takes is lost when the conversation ends before it.
        if reading.is_terminated() && side.waits() {
            if side.held() {
                silence = bounds.deadline;
            }
            let until = if writing.is_terminated() { silence } else { bounds.silence() };
            let time = until.left().ok_or(Broken::Silent)?;
            reading.set(stream.receive(side.pulse().map_or(time, |pulse| pulse.min(time))).fuse());
        }
        let step = poll_fn(|context| match writing.as_mut().poll(context) {
            Poll::Ready(written) => Poll::Ready(Step::Written(written)),
            Poll::Pending => reading.as_mut().poll(context).map(Step::Received),
        });
        match step.await {
            Step::Written(Ok(())) => silence = bounds.silence(),
            Step::Received(Ok(bytes)) => {
                silence = bounds.silence();
                side.incoming(bytes).map_err(Broken::Refused)?;
            }
            // While a write is under way the peer has no reason to say anything yet.
            Step::Received(Err(NetError::Timeout)) if !writing.is_terminated() || silence.left().is_some() => {}
            Step::Received(Err(NetError::Timeout)) => return Err(Broken::Silent),
            Step::Written(Err(error)) => return Err(last_words(stream, side, reading, error).await),
            Step::Received(Err(error)) => return Err(Broken::Lost(error)),
        }
    }
}

/// A peer that takes no more may have answered, and said why it closes: that is there to be read after a write has failed.
async fn last_words<Read: Future<Output = Result<Vec<u8>, NetError>>>(
    stream: &Stream,
    side: &mut impl Side,
    reading: Pin<&mut Fuse<Read>>,
    error: NetError,
) -> Broken {
    let end = Deadline::after(LAST_WORDS_MS);
    let mut read = if reading.is_terminated() { Ok(Vec::new()) } else { reading.await };
    loop {
        match read {
            Ok(bytes) => {
                if let Err(refused) = side.incoming(bytes) {
                    return Broken::Refused(refused);
                }
            }
            Err(_) => return Broken::Lost(error),
        }
        read = match end.left() {
            Some(time) if side.waits() => stream.receive(time).await,
            _ => return Broken::Lost(error),
        };
    }
}

enum Step {
    Written(Result<(), NetError>),
    Received(Result<Vec<u8>, NetError>),
}
