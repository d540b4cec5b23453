//! Steps that are called by HTTP.

use std::collections::BTreeMap;

use async_trait::async_trait;
use bytes::Bytes;
use parking_lot::Mutex;
use waybill_core::port::participant::{StepDone, StepError, StepOutput};
use waybill_core::port::saga::{HttpStep, HttpSteps};

/// Answers every call the same way but for addresses that fail, and remembers all of them.
#[derive(Default)]
pub struct FakeHttp {
    pub posted: Mutex<Vec<HttpStep>>,
    /// None = `{"ok":true}`.
    pub answer: Mutex<Option<Result<StepDone, StepError>>>,
    failing: Mutex<BTreeMap<String, StepError>>,
}

impl FakeHttp {
    /// From now on this address answers an error.
    pub fn fail(&self, url: &str, error: StepError) {
        self.failing.lock().insert(url.to_owned(), error);
    }

    /// No address fails any more.
    pub fn fail_nothing(&self) {
        self.failing.lock().clear();
    }
}

#[async_trait]
impl HttpSteps for FakeHttp {
    async fn post(&self, step: HttpStep) -> Result<StepDone, StepError> {
        let failing = self.failing.lock().get(&*step.url).cloned();
        self.posted.lock().push(step);
        if let Some(error) = failing {
            return Err(error);
        }
        let answer = self.answer.lock().clone();
        let done = || StepOutput { data: Bytes::from_static(b"{\"ok\":true}"), ..StepOutput::default() };
        answer.unwrap_or_else(|| Ok(StepDone::Output(done())))
    }
}
