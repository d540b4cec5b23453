//! waybill-tests

pub mod guests;
