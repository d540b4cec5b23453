//! Bounds what waits for a commit, so that a slow store makes callers wait or come back, not memory grow.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use waybill_core::port::service::ServiceError;

/// Counts of what waits.
#[derive(Debug)]
pub(crate) struct Admission {
    messages: AtomicUsize,
    bytes: AtomicUsize,
    messages_max: usize,
    bytes_max: usize,
}

/// Room taken by one request, given back when dropped.
#[derive(Debug)]
pub(crate) struct Admitted {
    admission: Arc<Admission>,
    messages: usize,
    bytes: usize,
}

impl Admission {
    pub fn new(messages_max: usize, bytes_max: usize) -> Arc<Self> {
        Arc::new(Self { messages: AtomicUsize::new(0), bytes: AtomicUsize::new(0), messages_max, bytes_max })
    }

    /// Takes room for a request. One that is larger than the bound by itself is taken when nothing else waits.
    pub fn admit(self: &Arc<Self>, messages: usize, bytes: usize) -> Result<Admitted, ServiceError> {
        let waiting = self.messages.fetch_add(messages, Ordering::AcqRel);
        let waiting_bytes = self.bytes.fetch_add(bytes, Ordering::AcqRel);
        let admitted = Admitted { admission: Arc::clone(self), messages, bytes };
        if waiting > 0 && waiting + messages > self.messages_max {
            return Err(ServiceError::Busy {
                what: "the queue of messages waiting for a commit",
                count: waiting,
                count_max: self.messages_max,
            });
        }
        if waiting_bytes > 0 && waiting_bytes + bytes > self.bytes_max {
            return Err(ServiceError::Busy {
                what: "the queue of bytes waiting for a commit",
                count: waiting_bytes,
                count_max: self.bytes_max,
            });
        }
        Ok(admitted)
    }
}

impl Drop for Admitted {
    fn drop(&mut self) {
        self.admission.messages.fetch_sub(self.messages, Ordering::AcqRel);
        self.admission.bytes.fetch_sub(self.bytes, Ordering::AcqRel);
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn past_the_bound_callers_are_told_to_come_back_until_there_is_room() {
        let admission = Admission::new(10, 1000);
        let first = admission.admit(8, 10).unwrap();
        assert!(matches!(admission.admit(3, 10), Err(ServiceError::Busy { count: 8, .. })));
        assert!(admission.admit(1, 995).is_err());
        let second = admission.admit(2, 10).unwrap();
        drop(first);
        drop(second);
        assert!(admission.admit(11, 10).is_ok());
    }
}
