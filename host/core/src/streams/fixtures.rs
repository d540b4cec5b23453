//! What tests of streams are made of.

use super::event::tests::event;
use super::event::{EventLimits, NewEvent};
use super::name::{StreamKey, StreamName};
use super::records::Append;
use crate::ids::Tenant;

pub(crate) fn stream(name: &str) -> StreamKey {
    StreamKey { tenant: Tenant::unnamed(), name: StreamName::new(name).unwrap() }
}

pub(crate) fn new_event(id: &str) -> NewEvent {
    event(id).admit(&StreamName::new("a").unwrap(), &EventLimits::default(), true).unwrap()
}

pub(crate) fn append(name: &str, ids: &[&str]) -> Append {
    Append::new(stream(name), ids.iter().map(|id| new_event(id)).collect())
}
