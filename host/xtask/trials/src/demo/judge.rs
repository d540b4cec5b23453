//! What the demo's receiver answers: the same to the same orders in every run.

use waybill_testkit::receiver::{Answer, Delivered, OneIn};

/// One attempt in so many fails.
const FAILS: OneIn = OneIn { many: 10, seed: 1 };
/// One order in so many is never taken.
const REJECTED: OneIn = OneIn { many: 200, seed: 6 };

/// By the order's id and the attempt.
pub fn judge(delivered: &Delivered) -> Answer {
    let id = super::evidence::order_in(&delivered.body).unwrap_or_default();
    let id = id.as_bytes();
    if REJECTED.chooses(id, 0) {
        return Answer::status(422);
    }
    if FAILS.chooses(id, delivered.attempt) {
        return Answer::status(if (FAILS.draw(id, delivered.attempt) >> 32).is_multiple_of(2) { 503 } else { 500 });
    }
    Answer::status(204)
}
