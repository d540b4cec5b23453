//! What the receiver of a run answers: mostly yes, sometimes not now, seldom never, and often after a moment, so that
//! kills land while deliveries are under way.

use std::time::Duration;

use serde::Deserialize;

use crate::receiver::{Answer, Delivered, OneIn};

/// One attempt in so many is answered 503.
const UNAVAILABLE_ONE_IN: u64 = 8;
/// One message in so many is answered 422, always.
const REJECTED_ONE_IN: u64 = 60;
/// One attempt in so many is held before it is answered.
const HELD_ONE_IN: u64 = 5;
/// Longest hold, in milliseconds.
const HOLD_MS_MAX: u64 = 40;

/// The harness's own part of a payload.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct Body {
    /// Name of the message.
    pub(super) tag: String,
    pub(super) pad: String,
    /// [`checksum`] of the ballast.
    pub(super) sum: u64,
}

/// Tells whether ballast came through unchanged.
pub(super) fn checksum(pad: &str) -> u64 {
    // 53 bits: the same number in every JSON implementation.
    OneIn { many: 1, seed: 0 }.draw(pad.as_bytes(), 0) >> 11
}

/// Whether a message is one that the receiver never takes.
pub(super) fn is_rejected(seed: u64, tag: &str) -> bool {
    OneIn { many: REJECTED_ONE_IN, seed: seed ^ 1 }.chooses(tag.as_bytes(), 0)
}

/// The judge of a run.
pub(super) fn judge(seed: u64) -> impl Fn(&Delivered) -> Answer {
    move |delivered| {
        // What isn't ours is taken, so that the check finds it in the ledger.
        let Ok(body) = serde_json::from_slice::<Body>(&delivered.body) else { return Answer::status(204) };
        let tag = body.tag.as_bytes();
        let status = if is_rejected(seed, &body.tag) {
            422
        } else if (OneIn { many: UNAVAILABLE_ONE_IN, seed: seed ^ 2 }).chooses(tag, delivered.attempt) {
            503
        } else {
            204
        };
        let hold = OneIn { many: HELD_ONE_IN, seed: seed ^ 3 };
        if hold.chooses(tag, delivered.attempt) {
            let ms = 1 + OneIn { many: 1, seed: seed ^ 4 }.draw(tag, delivered.attempt) % HOLD_MS_MAX;
            return Answer::status(status).after(Duration::from_millis(ms));
        }
        Answer::status(status)
    }
}
