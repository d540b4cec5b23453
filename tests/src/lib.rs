//! What tests and measurements of the whole share: the misbehaving guests, a host to let them loose on, certificates, and what
//! tests of transports and sources need.

pub mod certificates;
pub mod examples;
pub mod guests;
pub mod hostile;
pub mod source;
pub mod transport;
