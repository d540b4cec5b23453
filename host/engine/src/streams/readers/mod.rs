//! Subscriptions: a reader's place, its bounds, and how it ends.
//!
//! A reader reads only when somebody takes what it has. A page of replay counts against the bound of all pages until it is taken; who
//! takes nothing for a second gives it back and reads it again later, and who takes nothing for long is cut off.
//!
//! | file | holds |
//! |---|---|
//! | `named` | readers of named streams; a cursor is a number a stream |
//! | `many` | a reader of a selector; its cursor is a token |
//! | `cursor` | cursors of named streams as text |
//! | `places` | the bound of all pages, and who watches it |
//! | `subscription` | what a surface holds |

mod cursor;
mod many;
mod named;
mod places;
pub(super) mod subscription;

use std::sync::Arc;

use waybill_core::ids::ShardId;
use waybill_core::port::service::ServiceError;
use waybill_core::port::service::streams::{EventPiece, StreamError, SubscriptionEnd};
use waybill_core::port::stream_store::{FeedSlice, ScanQuery, StreamSlice};
use waybill_core::streams::name::{StreamKey, StreamName};
use waybill_core::streams::reading::{Restart, Selector};

use super::Shared;
use many::Many;
use named::Named;

pub(super) use cursor::{positions, text_of};
pub(super) use many::{begin as begin_many, read_many};
pub(super) use named::begin as begin_named;
pub(crate) use places::Readers;
pub(super) use places::sweep;

/// Bytes of events that a surface gets at once: what it holds unsent.
const PIECE_BYTES: usize = 32 * 1024;
/// Bytes of a look that mostly finds nothing.
const LOOK_BYTES: usize = 64 * 1024;

/// What a reader needs of the store.
enum Ask {
    /// A stream after a number; `at` = its place among the named ones.
    Slice {
        at: usize,
        stream: StreamKey,
        after: u64,
        bytes_max: usize,
    },
    Ends,
    Scan(ScanQuery),
    Feed(ShardId, u64),
    /// Whether a stream ever had an event that this selects.
    Selected(StreamKey, Selector),
}

/// What the store said.
enum Answer {
    Slice { at: usize, slice: StreamSlice },
    Ends(Vec<u64>),
    Scan(Option<(StreamName, StreamSlice)>),
    Feed(Option<FeedSlice>),
    Selected(bool),
}

/// What a reader does next.
enum Step {
    Read(Ask),
    /// Something was taken: look again.
    Again,
    /// It has had everything.
    Wait,
}

impl Ask {
    /// Bytes that the answer is counted with. How much a record of a feed names isn't known before.
    fn bytes(&self) -> usize {
        match self {
            Self::Slice { bytes_max, .. } => *bytes_max,
            Self::Scan(query) => query.bytes_max,
            Self::Feed(..) => waybill_core::streams::limits::REPLAY_BYTES_MAX,
            Self::Ends | Self::Selected(..) => 0,
        }
    }

    async fn read(&self, shared: &Shared) -> Result<Answer, ServiceError> {
        let store = &shared.store;
        Ok(match self {
            Self::Slice { at, stream, after, bytes_max } => {
                Answer::Slice { at: *at, slice: shared.slice(stream, *after, *bytes_max).await? }
            }
            Self::Ends => Answer::Ends(store.feed_ends(shared.shards()).await?),
            Self::Scan(query) => Answer::Scan(store.scan_streams(query).await?),
            Self::Feed(shard, pos) => Answer::Feed(store.feed_slice(*shard, *pos).await?),
            Self::Selected(stream, selector) => Answer::Selected(store.is_selected(stream, selector).await?),
        })
    }
}

/// A reader of either kind.
pub(super) enum Reader {
    Named(Named),
    Many(Box<Many>),
}

impl Reader {
    /// What is there to hand on, up to [`PIECE_BYTES`]. The cursor is behind it from then on.
    fn ready(&mut self) -> Vec<EventPiece> {
        match self {
            Self::Named(named) => named.ready(),
            Self::Many(many) => many.ready(),
        }
    }

    fn step(&mut self) -> Result<Step, SubscriptionEnd> {
        match self {
            Self::Named(named) => named.step(),
            Self::Many(many) => many.step(),
        }
    }

    fn take(&mut self, answer: Answer) -> Result<(), SubscriptionEnd> {
        match self {
            Self::Named(named) => named.take(answer),
            Self::Many(many) => many.take(answer),
        }
    }

    /// Forgets what it has read and not handed on.
    fn drop_page(&mut self) {
        match self {
            Self::Named(named) => named.drop_page(),
            Self::Many(many) => many.drop_page(),
        }
    }

    /// The look of every second.
    fn look_again(&mut self) {
        match self {
            Self::Named(named) => named.look_again(),
            Self::Many(many) => many.look_again(),
        }
    }

    fn cursor(&self) -> Option<Arc<str>> {
        match self {
            Self::Named(named) => Some(named.cursor()),
            Self::Many(many) => many.cursor(),
        }
    }
}

fn failed(error: impl Into<StreamError>) -> SubscriptionEnd {
    SubscriptionEnd::Failed(error.into().into())
}

/// Why a reader of many streams can't go on, as people are told.
fn ended(restart: Restart) -> SubscriptionEnd {
    match restart {
        Restart::Lagged => SubscriptionEnd::Lagged,
        Restart::Expired => failed(StreamError::Expired),
        Restart::Unreadable(reason) => failed(StreamError::Unreadable(reason)),
    }
}
