//! waybill-tests

pub mod certificates;
pub mod guests;
pub mod transport;
