//! What an author does, as a person would do it: `waybill plugin new`, the project's own tests, `build`, `test`, `check`, `dev`, with
//! the real binary and the real tools of each language; and the conformance suites themselves, against good and bad plugins.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

mod broken;
mod bundled;
mod dev;
mod foreign;
mod honest;
mod mistakes;
mod projects;
mod support;
