//! Tools for authors of plugins. They need no configuration, no store and no host of their own, so that they can become a program
//! by themselves: what they take of this one comes in as arguments.
//!
//! | file | holds |
//! |---|---|
//! | `contract` | the contract's types |
//! | `project` | a plugin's folder, language and manifest |
//! | `tool` | the languages' own tools, found and run |
//! | `sandbox` | the sandbox that commands run plugins in |
//!
//! The others are a command each.

pub mod build;
pub mod call;
mod contract;
pub mod dev;
pub mod inspect;
pub mod new;
pub mod place;
mod project;
pub mod sandbox;
pub mod signing;
pub mod test;
mod tool;
