//! Plugins replaced while messages flow: on the real engine, with real components, files and signatures.

mod support;

mod handlers;
mod participants;
mod policies;
mod refused;
mod remembered;
mod retry_policies;
mod swaps;
mod watching;
