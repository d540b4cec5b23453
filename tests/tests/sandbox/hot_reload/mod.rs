//! Plugins replaced while messages flow: on the real engine, with real components, files and signatures.

mod support;

mod policies;
mod refused;
mod remembered;
mod swaps;
mod watching;
