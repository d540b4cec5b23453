//! Signs of life: the server ends a connection on which nothing was sent for one and a half times the agreed silence.

use std::time::{Duration, Instant};

/// When something was sent and heard last.
#[derive(Clone, Copy, Debug)]
pub struct Beat {
    /// The agreed silence; none = any.
    silence: Option<Duration>,
    sent: Instant,
    /// When a sign of life was asked for, if nothing was heard since.
    asked: Option<Instant>,
}

impl Beat {
    /// From now on, with so many seconds of agreed silence; 0 = any.
    pub fn new(seconds: u16) -> Self {
        let silence = (seconds > 0).then(|| Duration::from_secs(u64::from(seconds)));
        Self { silence, sent: Instant::now(), asked: None }
    }

    /// Milliseconds after which something is to be sent, whatever else goes on: half of the agreed silence.
    pub fn every(&self) -> Option<u32> {
        self.silence.and_then(|silence| u32::try_from(silence.as_millis() / 2).ok())
    }

    /// Something was sent.
    pub fn spoke(&mut self) {
        self.sent = Instant::now();
    }

    /// Something was heard.
    pub fn heard(&mut self) {
        self.asked = None;
    }

    /// A sign of life was asked for.
    pub fn asked(&mut self) {
        self.spoke();
        self.asked.get_or_insert(self.sent);
    }

    /// Whether a sign of life is to be asked for.
    pub fn is_due(&self) -> bool {
        self.silence.is_some_and(|silence| self.sent.elapsed() >= silence / 2)
    }

    /// Whether it was asked for so many milliseconds ago and nothing was heard since. For one who has listened meanwhile.
    pub fn is_dead(&self, millis: u32) -> bool {
        self.asked.is_some_and(|asked| asked.elapsed() >= Duration::from_millis(u64::from(millis)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_is_dead_when_it_was_asked_and_said_nothing() {
        let mut beat = Beat::new(30);
        assert_eq!((beat.every(), beat.is_due(), beat.is_dead(0)), (Some(15_000), false, false));
        beat.asked();
        assert!(beat.is_dead(0) && !beat.is_dead(60_000));
        beat.heard();
        assert!(!beat.is_dead(0));
        assert_eq!(Beat::new(0).every(), None);
    }
}
