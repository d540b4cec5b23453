//! Makes a data directory of today's version with its manifest: `golden FOLDER`. What `cargo xtask golden` runs.
//!
//! An example of the store, because what only a damaged disk or a client of the database leaves behind is written below it.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

mod inbox;
mod make;
mod raw;
mod streams;

use std::path::PathBuf;

#[tokio::main]
async fn main() {
    let Some(folder) = std::env::args_os().nth(1).map(PathBuf::from) else {
        eprintln!("usage: golden FOLDER");
        std::process::exit(2);
    };
    make::make(&folder, env!("CARGO_PKG_VERSION")).await;
}
