//! Tables that are published directly.
