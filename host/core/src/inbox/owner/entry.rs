//! One message of one consumer in memory.

use std::sync::Arc;
use std::time::Duration;

use super::hand::DeliveryId;
use crate::ids::{ConsumerName, Seq, SourceName};
use crate::inbox::fingerprint::{ContentDigest, Fingerprint, OrderTag};
use crate::inbox::message::InboundMessage;
use crate::inbox::records::{LastError, RowHead, Take};
use crate::inbox::settings::{ConsumerId, SourceId};
use crate::inbox::verdict::Leavings;
use crate::port::transport::Fault;
use crate::time::{Monotonic, UnixMillis};

/// What the store knows of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Durable {
    Nothing,
    /// Its take, under this beat.
    Taken(u64),
    Row,
}

/// How far it is.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Stage {
    /// A take of an earlier owner whose message hasn't come again.
    Orphan,
    /// The seen set is asked.
    LookUp,
    Idle,
    Called,
    /// Waits for the next commit.
    Decided(Decision),
    /// In the commit that is out.
    Committing(DecisionKind),
}

/// What the next commit makes of it.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Decision {
    Finish(End),
    /// A failed attempt: a row, or a dead letter when it was the last.
    Retry {
        fault: Fault,
        delay: Duration,
    },
    /// An orphan gives its place up.
    Expire,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DecisionKind {
    Finish,
    Retry,
    Expire,
    Replay,
}

impl Decision {
    pub fn kind(&self) -> DecisionKind {
        match self {
            Self::Finish(_) => DecisionKind::Finish,
            Self::Retry { .. } => DecisionKind::Retry,
            Self::Expire => DecisionKind::Expire,
        }
    }
}

#[derive(Clone, Debug, PartialEq)]
pub(super) enum End {
    Processed(Leavings),
    Duplicate,
    Dead { code: String, reason: String, attempted: bool },
}

#[derive(Clone, Debug)]
pub(super) struct Entry {
    pub seq: Seq,
    pub fingerprint: Fingerprint,
    pub order: Option<OrderTag>,
    pub digest: ContentDigest,
    pub source: Option<SourceId>,
    pub source_name: SourceName,
    /// None: an orphan, what no consumer takes, or a row of one that isn't configured any more.
    pub consumer: Option<ConsumerId>,
    pub consumer_name: Option<ConsumerName>,
    /// None: an orphan, or a row that is read when its turn has come.
    pub message: Option<Arc<InboundMessage>>,
    pub stage: Stage,
    pub durable: Durable,
    pub attempts: u32,
    pub last_error: Option<LastError>,
    /// It isn't called before.
    pub due: Monotonic,
    pub due_at: UnixMillis,
    pub delay: Duration,
    /// A row that may be acknowledged at its source before it is finished.
    pub releasable: bool,
    /// Deliveries of it that aren't settled.
    pub copies: Vec<DeliveryId>,
    /// It is stored before it is called: its source brings it a few times more only, or it has no id.
    pub store_first: bool,
    /// The commit that is out takes or stores it.
    pub flying: bool,
    /// Its last delivery was revoked while that commit was out. If that never goes in, it is dropped as it would have been then: its
    /// source brings it again, behind what comes before it in its key.
    pub withdrawn: bool,
    /// Messages its consumer had processed when it last asked for a pause or a hold.
    pub asked: Option<u64>,
    pub maybe_handled: bool,
    /// Decides its fate without a call, once the seen set was asked.
    pub refusal: Option<Fault>,
    /// Its id is none of its sender's: there is no use in remembering it.
    pub anonymous: bool,
    /// It stands for an id that was used for something else: its fingerprint is that of id and content.
    pub reused: bool,
    /// Of a row: what it is counted under.
    pub context: Arc<str>,
    pub received_at: UnixMillis,
}

impl Entry {
    /// What a source just brought.
    pub fn new(seq: Seq, fingerprint: Fingerprint, digest: ContentDigest, message: Arc<InboundMessage>) -> Self {
        Self {
            seq,
            fingerprint,
            order: None,
            digest,
            source: None,
            source_name: message.source.clone(),
            consumer: None,
            consumer_name: None,
            context: Arc::from(message.context.as_str()),
            received_at: message.received_at,
            message: Some(message),
            stage: Stage::LookUp,
            durable: Durable::Nothing,
            attempts: 0,
            last_error: None,
            due: Monotonic::default(),
            due_at: UnixMillis::default(),
            delay: Duration::ZERO,
            releasable: false,
            copies: Vec::new(),
            store_first: false,
            flying: false,
            withdrawn: false,
            asked: None,
            maybe_handled: false,
            refusal: None,
            anonymous: false,
            reused: false,
        }
    }

    /// A take whose message isn't here.
    pub fn orphan(take: &Take, beat: u64) -> Self {
        Self {
            seq: take.seq,
            fingerprint: take.fingerprint,
            order: Some(take.order),
            digest: ContentDigest::default(),
            source: None,
            source_name: take.source.clone(),
            consumer: None,
            consumer_name: None,
            message: None,
            stage: Stage::Orphan,
            durable: Durable::Taken(beat),
            attempts: 0,
            last_error: None,
            due: Monotonic::default(),
            due_at: UnixMillis::default(),
            delay: Duration::ZERO,
            releasable: false,
            copies: Vec::new(),
            store_first: false,
            flying: false,
            withdrawn: false,
            asked: None,
            // Its owner may have called it.
            maybe_handled: true,
            refusal: None,
            anonymous: false,
            reused: false,
            context: Arc::from(""),
            received_at: UnixMillis::default(),
        }
    }

    /// A row as a new owner finds it: the last one may have called it.
    pub fn row(head: &RowHead, due: Monotonic) -> Self {
        Self {
            seq: head.seq,
            fingerprint: head.fingerprint,
            order: head.order,
            digest: head.digest,
            source: None,
            source_name: head.source.clone(),
            consumer: None,
            consumer_name: Some(head.consumer.clone()),
            message: None,
            stage: Stage::Idle,
            durable: Durable::Row,
            attempts: head.attempts,
            last_error: None,
            due,
            due_at: head.due,
            delay: head.delay,
            releasable: true,
            copies: Vec::new(),
            store_first: false,
            flying: false,
            withdrawn: false,
            asked: None,
            maybe_handled: true,
            refusal: None,
            anonymous: false,
            reused: false,
            context: Arc::clone(&head.context),
            received_at: head.received_at,
        }
    }

    pub fn is_row(&self) -> bool {
        self.durable == Durable::Row
    }

    /// It has its place for a next owner, too.
    pub fn is_durable(&self) -> bool {
        self.durable != Durable::Nothing
    }

    /// It waits for its message, so whatever comes under its id is it.
    pub fn is_orphan(&self) -> bool {
        match self.stage {
            Stage::Orphan | Stage::Decided(Decision::Expire) => true,
            Stage::Committing(DecisionKind::Expire) => self.copies.is_empty(),
            _ => false,
        }
    }

    /// Nothing is lost when it is dropped with its last delivery: it comes again.
    pub fn may_be_dropped(&self) -> bool {
        self.copies.is_empty()
            && !self.is_durable()
            && !self.flying
            && matches!(self.stage, Stage::Idle | Stage::LookUp)
    }

    /// In memory without a delivery and without a row: it counts against the window.
    pub fn is_loose(&self) -> bool {
        self.copies.is_empty() && !self.is_row() && self.stage != Stage::Orphan
    }
}
