//! What `cargo xtask` does, and what `trials` shares with it: cargo, the set-up of the toolchain, stages.

pub mod build;
pub mod cargo;
pub mod dist;
pub mod features;
pub mod fuzz;
pub mod golden;
pub mod lint;
pub mod plugins;
pub mod setup;
pub mod stage;
pub mod test;
pub mod tidy;
pub mod trials;
