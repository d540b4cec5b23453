//! The misbehaving guests of `tests/guests`, built by this crate's build script: a constant with the path of each component, e.g.
//! [`SEND_PANICS`], the list [`ALL`], and [`for_each_guest!`](crate::for_each_guest).
//!
//! A test file that must know every fixture has a test function of each fixture's name, and
//! ```ignore
//! macro_rules! has_a_test {
//!     ($name:ident) => {
//!         #[allow(unused_imports)]
//!         use self::$name as _;
//!     };
//! }
//! waybill_tests::for_each_guest!(has_a_test);
//! ```
//! A fixture without a test then fails the build.

include!(concat!(env!("OUT_DIR"), "/guests.rs"));
