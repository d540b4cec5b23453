//! What configuration says of sources and consumers, as far as the state machine needs it.

use std::time::Duration;

use super::limits::{
    CONCURRENCY_DEFAULT, DEDUP_WINDOW_DEFAULT, MAX_ATTEMPTS_DEFAULT, ORPHAN_WAIT_FACTOR, SETTLE_WITHIN_DEFAULT,
    STORED_MAX_DEFAULT, WINDOW_BYTES_DEFAULT, WINDOW_DEFAULT,
};
use crate::backoff::RetryPolicy;
use crate::ids::{ConsumerName, SourceName};

/// Number of a source in [`InboxSettings::sources`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SourceId(pub u16);

/// Number of a consumer in [`InboxSettings::consumers`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConsumerId(pub u16);

/// All sources whose home lies in one shard, and their consumers. Another configuration takes the shard's inbox over anew.
#[derive(Clone, Debug, PartialEq)]
pub struct InboxSettings {
    pub sources: Vec<SourceSettings>,
    pub consumers: Vec<ConsumerSettings>,
    /// How long, in owned time, an id is remembered after it was finished.
    pub dedup_window: Duration,
}

impl Default for InboxSettings {
    fn default() -> Self {
        Self { sources: Vec::new(), consumers: Vec::new(), dedup_window: DEDUP_WINDOW_DEFAULT }
    }
}

impl InboxSettings {
    pub fn source(&self, source: SourceId) -> Option<&SourceSettings> {
        self.sources.get(usize::from(source.0))
    }

    pub fn consumer(&self, consumer: ConsumerId) -> Option<&ConsumerSettings> {
        self.consumers.get(usize::from(consumer.0))
    }

    pub fn source_named(&self, name: &SourceName) -> Option<SourceId> {
        let at = self.sources.iter().position(|source| source.name == *name)?;
        u16::try_from(at).ok().map(SourceId)
    }

    pub fn consumer_named(&self, name: &ConsumerName) -> Option<ConsumerId> {
        let at = self.consumers.iter().position(|consumer| consumer.name == *name)?;
        u16::try_from(at).ok().map(ConsumerId)
    }
}

/// What a source can and how much it may bring.
#[derive(Clone, Debug, PartialEq)]
pub struct SourceSettings {
    pub name: SourceName,
    /// Deliveries that aren't settled, at most.
    pub window: usize,
    /// Payload bytes of them, past which nothing is pulled: it is overshot by one pull at most.
    pub window_bytes: usize,
    /// After a redelivery it brings the messages of a key in their order (feature `replays-in-order`), so none of them needs a take.
    pub replays_in_order: bool,
    /// It settles by offsets: what is revoked is dropped, for it comes again as it lay there.
    pub by_offsets: bool,
    /// It acknowledges in the order in which it brought (feature `ordered-acks`): one that isn't settled keeps all behind it.
    pub ordered_acks: bool,
    /// It prolongs `settle-within` (feature `extend`).
    pub extends: bool,
    /// It has a place of its own for what is refused (feature `reject`).
    pub rejects: bool,
    /// `settle-within` of deliveries that tell none.
    pub settle_within: Duration,
    /// How long a take waits for its message, counted from when its source is pulled; none = some times `settle_within`, which the
    /// source may tell when it is opened.
    pub orphan_wait: Option<Duration>,
    /// Who takes messages from it: with several, the ids of DLQ messages name theirs, and while the rows of one are at their bound it
    /// isn't pulled.
    pub consumers: Vec<ConsumerId>,
    /// The bucket of its ids follows `occurred-at` (`id_time = "occurred_at"`).
    pub id_time_occurred: bool,
}

impl SourceSettings {
    /// A source with every bound at its default.
    pub fn new(name: SourceName) -> Self {
        Self {
            name,
            window: WINDOW_DEFAULT as usize,
            window_bytes: WINDOW_BYTES_DEFAULT as usize,
            replays_in_order: false,
            by_offsets: false,
            ordered_acks: false,
            extends: false,
            rejects: false,
            settle_within: SETTLE_WITHIN_DEFAULT,
            orphan_wait: None,
            consumers: Vec::new(),
            id_time_occurred: false,
        }
    }

    /// How long a take waits for its message: what was in hand at a crash has come again by then.
    pub fn orphan_wait(&self) -> Duration {
        self.orphan_wait.unwrap_or_else(|| self.settle_within.saturating_mul(ORPHAN_WAIT_FACTOR))
    }

    /// Whether a message with a key has to be taken in a commit before it is handled.
    pub fn needs_takes(&self) -> bool {
        !self.replays_in_order && !self.by_offsets
    }
}

/// What happens with a consumer's messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    /// A handler is called, over HTTP or in a component.
    Handler,
    /// It becomes a message of the outbox, or a signal or reply of a saga. Nothing is called.
    Forward,
}

/// What an id that was used for another content leads to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnReusedId {
    /// A dead letter, once.
    #[default]
    Dead,
    /// Its sender renders anew what it sends again: it is a duplicate.
    Duplicate,
}

/// When a row that failed is acknowledged at its source.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AcknowledgeRows {
    /// When it is finished, while the window has room: until then its source shows it as pending.
    #[default]
    WhenFinished,
    /// As soon as it is stored.
    AtOnce,
}

/// A consumer's bounds and choices.
#[derive(Clone, Debug, PartialEq)]
pub struct ConsumerSettings {
    pub name: ConsumerName,
    pub target: Target,
    pub concurrency: usize,
    /// Rows, past which its sources wait.
    pub stored_max: usize,
    /// Backoff between failures, with the number of attempts in all.
    pub retry: RetryPolicy,
    pub on_reused_id: OnReusedId,
    pub acknowledge_rows: AcknowledgeRows,
    /// False: there is no seen set for it, and every delivery is handled.
    pub idempotent: bool,
    /// Dead letters leave a message behind: its subject. `{context}` and `{subject}` stand for the message's.
    pub dlq_subject: Option<String>,
}

impl ConsumerSettings {
    /// A consumer with every bound at its default and no DLQ.
    pub fn new(name: ConsumerName, target: Target) -> Self {
        Self {
            name,
            target,
            concurrency: CONCURRENCY_DEFAULT as usize,
            stored_max: STORED_MAX_DEFAULT,
            retry: RetryPolicy { max_attempts: MAX_ATTEMPTS_DEFAULT, ..RetryPolicy::default() },
            on_reused_id: OnReusedId::default(),
            acknowledge_rows: AcknowledgeRows::default(),
            idempotent: true,
            dlq_subject: None,
        }
    }
}
