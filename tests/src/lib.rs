//! waybill-tests

pub mod certificates;
pub mod examples;
pub mod guests;
pub mod transport;
