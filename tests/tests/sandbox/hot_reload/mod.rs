//! Plugins replaced while messages flow: on the real engine, with real components, files and signatures.

mod support;

mod handlers;
mod policies;
mod refused;
mod remembered;
mod swaps;
mod watching;
