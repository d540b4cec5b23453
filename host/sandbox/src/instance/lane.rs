//! One lane: the place of one instance, over all the instances that come and go in it.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use waybill_bindings::api::types::Opened;
use waybill_core::code::Code;
use waybill_core::endpoint::PluginLimits;
use waybill_core::one_line::one_line;
use waybill_core::port::transport::{CallError, ErrorKind, Fault};

use super::notices::NoticeBoard;
use crate::convert::millis;
use crate::host::Reported;
use crate::limits::ATTRIBUTE_BYTES_MAX;
use crate::text::{cut, cut_owned};

/// Shortest time between two ticks: a guest can't make the host spin.
const TICK_EVERY_MIN: Duration = Duration::from_millis(100);

/// Most abilities an instance may name.
const FEATURES_MAX: usize = 32;

/// A name of a guest, on one line and no longer than an attribute.
fn word(text: &str) -> String {
    cut_owned(one_line(cut(text, ATTRIBUTE_BYTES_MAX)).into_owned(), ATTRIBUTE_BYTES_MAX)
}

/// What an instance said of itself at `open`, within the host's limits.
#[derive(Clone, Debug)]
pub(crate) struct Facts {
    pub(crate) peer: Option<String>,
    pub(crate) max_batch: u32,
    pub(crate) max_payload_bytes: Option<u32>,
    pub(crate) calls: u32,
    pub(crate) tick_every: Option<Duration>,
    pub(crate) features: Vec<String>,
    /// Of a source: how long its peer waits at most before it delivers again.
    pub(crate) settle_within: Option<Duration>,
    /// Tells this instance from every other of this process.
    pub(crate) session: u64,
}

impl Facts {
    /// The smaller of what it wants and what it may.
    pub(crate) fn new(opened: &Opened, limits: &PluginLimits, session: u64) -> Self {
        Self {
            peer: opened.peer.as_deref().map(word),
            max_batch: opened.max_batch.unwrap_or(u32::MAX).clamp(1, limits.max_batch.max(1)),
            max_payload_bytes: opened.max_payload_bytes,
            calls: opened.max_concurrent_calls.clamp(1, limits.calls_per_instance.max(1)),
            tick_every: opened.tick_every.map(|ms| millis(ms).max(TICK_EVERY_MIN)),
            features: opened.features.iter().take(FEATURES_MAX).map(|feature| word(feature)).collect(),
            settle_within: settle_within(&opened.attributes),
            session,
        }
    }
}

/// Attribute of `opened` of a source, in milliseconds: the record has no field for it.
const SETTLE_WITHIN: &str = "settle-within";

fn settle_within(attributes: &[(String, String)]) -> Option<Duration> {
    let told = attributes.iter().find(|(name, _)| name == SETTLE_WITHIN)?;
    told.1.parse().ok().filter(|ms| *ms > 0).map(millis)
}

/// How a lane is.
#[derive(Clone, Debug)]
pub(crate) enum LaneStatus {
    /// An instance is being opened; calls wait for it.
    Opening,
    Serving,
    /// The breaker is open, or `open` found nobody: nothing is tried until then.
    Waiting {
        /// When the next try is.
        until: Instant,
        fault: Fault,
    },
    /// `open` was refused for good: nothing is tried until somebody asks for it.
    Refused {
        kind: ErrorKind,
        fault: Fault,
    },
    Closed,
}

/// What callers and the supervisor of one lane share.
pub(crate) struct Lane {
    pub(crate) number: u32,
    pub(super) status: Mutex<LaneStatus>,
    pub(crate) facts: Mutex<Option<Facts>>,
    pub(crate) reported: Reported,
    /// Of all lanes of the endpoint.
    pub(super) notices: Arc<NoticeBoard>,
    /// Asks for another `open` after it was refused.
    pub(crate) reopen: Notify,
    /// Ends the lane at once, whatever runs in it.
    pub(crate) abort: CancellationToken,
}

impl Lane {
    pub(super) fn new(number: u32, notices: Arc<NoticeBoard>) -> Self {
        Self {
            number,
            status: Mutex::new(LaneStatus::Opening),
            facts: Mutex::new(None),
            reported: Reported::default(),
            notices,
            reopen: Notify::new(),
            abort: CancellationToken::new(),
        }
    }

    pub(crate) fn status(&self) -> LaneStatus {
        self.status.lock().clone()
    }

    pub(super) fn set(&self, status: LaneStatus) {
        *self.status.lock() = status;
    }

    /// Why a call can't be taken now; none when it can.
    pub(crate) fn refusal(&self) -> Option<CallError> {
        match &*self.status.lock() {
            LaneStatus::Opening => None,
            LaneStatus::Serving => self.peer_blocked(),
            LaneStatus::Waiting { until, fault } => {
                let mut fault = fault.clone();
                fault.after = Some(until.saturating_duration_since(Instant::now()));
                fault.maybe_delivered = false;
                Some(CallError { kind: ErrorKind::Unavailable, fault })
            }
            LaneStatus::Refused { kind, fault } => {
                Some(CallError { kind: *kind, fault: Fault { maybe_delivered: false, ..fault.clone() } })
            }
            LaneStatus::Closed => Some(closed()),
        }
    }

    /// The peer asked to wait (`blocked`).
    fn peer_blocked(&self) -> Option<CallError> {
        let (left, why) = self.reported.blocked()?;
        let fault = Fault { after: Some(left), ..Fault::new(Code::PLUGIN_PEER_BLOCKED, why) };
        Some(CallError { kind: ErrorKind::Throttled, fault })
    }
}

/// The answer when no instance was free in the time given: nothing was handed to a guest.
pub(crate) fn busy() -> CallError {
    let fault =
        Fault::new(Code::PLUGIN_BUSY, "no instance was free in the time given: allow more instances, or send less");
    CallError { kind: ErrorKind::Unavailable, fault }
}

/// The answer of an endpoint that has ended.
pub(crate) fn closed() -> CallError {
    CallError { kind: ErrorKind::Cancelled, fault: Fault::new(Code::PLUGIN_CLOSED, "it has ended") }
}

/// The answer when nothing is known.
pub(crate) fn lost(why: &str) -> CallError {
    let fault = Fault { maybe_delivered: true, ..Fault::new(Code::PLUGIN_TRAPPED, why) };
    CallError { kind: ErrorKind::Trapped, fault }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_source_tells_of_its_time_is_a_number_above_zero() {
        let told = |value: &str| settle_within(&[("settle-within".to_owned(), value.to_owned())]);
        assert_eq!(["120000", "0", "soon"].map(told), [Some(Duration::from_secs(120)), None, None]);
        assert_eq!(settle_within(&[]), None);
    }
}
