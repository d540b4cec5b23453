//! Steps that are called by HTTP.

use async_trait::async_trait;
use bytes::Bytes;
use parking_lot::Mutex;
use waybill_core::port::participant::{StepDone, StepError, StepOutput};
use waybill_core::port::saga::{HttpStep, HttpSteps};

/// Answers every call the same way, and remembers all of them.
#[derive(Default)]
pub struct FakeHttp {
    pub posted: Mutex<Vec<HttpStep>>,
    /// None = `{"ok":true}`.
    pub answer: Mutex<Option<Result<StepDone, StepError>>>,
}

#[async_trait]
impl HttpSteps for FakeHttp {
    async fn post(&self, step: HttpStep) -> Result<StepDone, StepError> {
        self.posted.lock().push(step);
        let answer = self.answer.lock().clone();
        let done = || StepOutput { data: Bytes::from_static(b"{\"ok\":true}"), ..StepOutput::default() };
        answer.unwrap_or_else(|| Ok(StepDone::Output(done())))
    }
}
