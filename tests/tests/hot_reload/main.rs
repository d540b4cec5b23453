//! Plugins replaced while messages flow: on the real engine, with real components, files and signatures.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, missing_docs)]

mod support;

mod policies;
mod refused;
mod remembered;
mod swaps;
mod watching;
