//! What the brokers may still send, by consumer: a share of the host's window in messages, and of its bytes by the size of what came
//! lately. Each consumer may be sent one message at least, else nobody would know that its partition has some. Pure.

use std::collections::HashMap;

/// Which part of the size of the largest message is forgotten with each one that comes: a large one counts for some hundreds.
const FORGOTTEN: usize = 64;

/// What may be unsettled of all consumers together.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Window {
    pub(crate) messages: u32,
    pub(crate) bytes: usize,
}

/// The permits of a session's consumers.
#[derive(Debug, Default)]
pub(crate) struct Permits {
    window: Window,
    /// Who shares the window.
    partitions: u32,
    /// Bytes of the largest message lately, as it was sent; 0: none has come.
    largest: usize,
    consumers: HashMap<u64, Consumer>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Consumer {
    /// Messages that it was allowed and hasn't sent; below zero after a batch that was larger.
    allowed: i64,
    /// Messages that came and aren't settled.
    unsettled: i64,
}

impl Permits {
    pub(crate) fn new(window: Window) -> Self {
        Self { window, partitions: 1, ..Self::default() }
    }

    /// So many partitions share the window from now on.
    pub(crate) fn share_among(&mut self, partitions: u32) {
        self.partitions = partitions.max(1);
    }

    pub(crate) fn add(&mut self, consumer: u64) {
        self.consumers.insert(consumer, Consumer::default());
    }

    pub(crate) fn remove(&mut self, consumer: u64) {
        self.consumers.remove(&consumer);
    }

    /// An entry of so many messages and bytes came. Answers whether it is of one of our consumers.
    pub(crate) fn receive(&mut self, consumer: u64, messages: u32, bytes: usize) -> bool {
        let Some(known) = self.consumers.get_mut(&consumer) else { return false };
        known.allowed -= i64::from(messages);
        let size = bytes.div_ceil(usize::try_from(messages.max(1)).unwrap_or(1)).max(1);
        self.largest = size.max(self.largest - self.largest.div_ceil(FORGOTTEN));
        true
    }

    /// So many messages more, or less, aren't settled.
    pub(crate) fn count(&mut self, consumer: u64, messages: i64) {
        if let Some(known) = self.consumers.get_mut(&consumer) {
            known.unsettled += messages;
        }
    }

    /// How many more messages each consumer may be sent. Told in large steps, each is a frame. `due`: acknowledgements of a consumer that
    /// its broker hasn't confirmed, which are unsettled too.
    pub(crate) fn grants(&mut self, due: impl Fn(u64) -> usize) -> Vec<(u64, u32)> {
        let share = self.share();
        let mut grants = Vec::new();
        for (consumer, known) in &mut self.consumers {
            let due = i64::try_from(due(*consumer)).unwrap_or(i64::MAX);
            let more = share.saturating_sub(known.unsettled).saturating_sub(known.allowed).saturating_sub(due);
            if more > 0 && (known.allowed <= 0 || more >= share / 2) {
                known.allowed += more;
                grants.push((*consumer, u32::try_from(more).unwrap_or(u32::MAX)));
            }
        }
        grants
    }

    /// Messages of one consumer that may be unsettled.
    fn share(&self) -> i64 {
        let by_count = i64::from((self.window.messages / self.partitions).max(1));
        let partitions = usize::try_from(self.partitions).unwrap_or(usize::MAX);
        // Nothing is known of the size of messages before the first one.
        let by_bytes = (self.window.bytes / partitions).checked_div(self.largest).unwrap_or(1).max(1);
        by_count.min(i64::try_from(by_bytes).unwrap_or(i64::MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn permits(messages: u32, bytes: usize) -> Permits {
        let mut permits = Permits::new(Window { messages, bytes });
        permits.add(1);
        permits
    }

    #[test]
    fn the_first_message_shows_how_many_fit() {
        let mut permits = permits(100, 1_000);
        assert_eq!(permits.grants(|_| 0), [(1, 1)]);
        assert!(permits.receive(1, 1, 100));
        permits.count(1, 1);
        assert_eq!(permits.grants(|_| 0), [(1, 9)], "ten of them fit, one is here");
        assert!(permits.receive(1, 9, 18_000));
        permits.count(1, 9);
        assert!(permits.grants(|_| 0).is_empty(), "of those that came since, none fits");
        permits.count(1, -10);
        assert_eq!(permits.grants(|_| 0), [(1, 1)], "one goes always");
        assert!(!permits.receive(7, 1, 1));
    }

    #[test]
    fn a_large_message_is_forgotten_in_time() {
        let mut permits = permits(100, 10_000);
        permits.receive(1, 1, 10_000);
        assert_eq!(permits.share(), 1);
        for _ in 0..1_000 {
            permits.receive(1, 1, 100);
        }
        assert_eq!(permits.share(), 100);
    }

    #[test]
    fn partitions_share_the_window_as_they_grow() {
        let mut permits = permits(100, 1_000_000);
        permits.receive(1, 0, 1);
        assert_eq!(permits.grants(|_| 0), [(1, 100)]);
        permits.share_among(4);
        assert!(permits.receive(1, 80, 80));
        permits.count(1, 80);
        assert!(permits.grants(|_| 0).is_empty());
        permits.count(1, -80);
        permits.receive(1, 20, 20);
        assert_eq!(permits.grants(|_| 0), [(1, 25)]);
    }

    #[test]
    fn what_the_broker_did_not_confirm_is_unsettled() {
        let mut permits = permits(10, 1_000_000);
        permits.receive(1, 0, 1);
        assert!(permits.grants(|_| 10).is_empty());
        assert_eq!(permits.grants(|_| 4), [(1, 6)]);
    }
}
