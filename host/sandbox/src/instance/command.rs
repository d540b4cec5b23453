//! What is asked of an instance, and how the answer comes back.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use tokio::sync::oneshot;
use tokio::time::Instant;
use waybill_core::port::transport::CallError;

use super::work::{Answer, Work};

/// Where the answer goes.
pub(crate) type Reply = oneshot::Sender<Result<Answer, CallError>>;

/// One request to an instance.
pub(crate) struct Command {
    pub(crate) work: Work,
    pub(crate) deadline: Instant,
    pub(crate) claim: Arc<Claim>,
    pub(crate) reply: Reply,
}

/// Who has a command: exactly one of the instance that takes it and the caller that gives it up while it waits. So a
/// caller knows for certain whether its batch was ever handed to a guest.
#[derive(Debug, Default)]
pub(crate) struct Claim(AtomicU8);

impl Claim {
    const WAITING: u8 = 0;
    const TAKEN: u8 = 1;
    const GIVEN_UP: u8 = 2;

    fn change(&self, to: u8) -> bool {
        self.0.compare_exchange(Self::WAITING, to, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }

    /// The instance takes it; false when the caller gave it up before.
    pub(crate) fn take(&self) -> bool {
        self.change(Self::TAKEN)
    }

    /// The caller gives it up; false when an instance has it already.
    pub(crate) fn give_up(&self) -> bool {
        self.change(Self::GIVEN_UP)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_goes_to_exactly_one_side() {
        let claim = Claim::default();
        assert!(claim.take() && !claim.give_up() && !claim.take());
        let claim = Claim::default();
        assert!(claim.give_up() && !claim.take());
    }
}
