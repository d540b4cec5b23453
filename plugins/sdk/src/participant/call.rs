//! One call of a step.

use super::StepContext;
use crate::deadline::Deadline;
use crate::transport::CallInfo;

/// One call of a step: what the host says about it.
#[derive(Clone, Debug)]
pub struct StepCall {
    /// The call, for `control`.
    pub info: CallInfo,
    /// In which saga, for which step.
    pub context: StepContext,
}

impl StepCall {
    /// Pass it on as Idempotency-Key: the same on every attempt of this step in this saga and direction.
    pub fn idempotency_key(&self) -> &str {
        &self.context.idempotency_key
    }

    /// Whose saga it is.
    pub fn tenant(&self) -> &str {
        &self.context.tenant
    }

    /// Above 1 it may have been done already.
    pub fn attempt(&self) -> u32 {
        self.context.attempt
    }

    /// The first header of a name, whatever its case.
    pub fn header(&self, name: &str) -> Option<&str> {
        let found = self.context.headers.iter().find(|(key, _)| key.eq_ignore_ascii_case(name));
        found.map(|(_, value)| value.as_str())
    }

    /// When the answer has to be on its way.
    pub fn deadline(&self) -> Deadline {
        Deadline::of_call(self.info.timeout)
    }
}
