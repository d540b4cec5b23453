//! The core on files of the repository: examples' definitions, and tables of cases.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

mod example_definitions;
mod routes;
