//! A lane whose breaker is open, for the feed of changes: an endpoint's is open from its first such lane on until it has none.

use waybill_core::port::transport::Fault;

use crate::host::EndpointContext;

/// Its breaker is open as long as this is held.
pub(super) struct Broken<'a>(&'a EndpointContext);

impl<'a> Broken<'a> {
    /// `fault` is what it failed with last.
    pub fn new(context: &'a EndpointContext, fault: &Fault) -> Self {
        context.breaker_opened(fault);
        Self(context)
    }
}

impl Drop for Broken<'_> {
    fn drop(&mut self) {
        self.0.breaker_closed();
    }
}
