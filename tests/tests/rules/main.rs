//! The rules of the outbox protocol, on the real owner: sentence by sentence, and under random schedules.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

mod model;
mod owner;
