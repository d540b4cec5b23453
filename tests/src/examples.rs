//! Components of `examples/`, built by this crate's build script.

include!(concat!(env!("OUT_DIR"), "/examples.rs"));
