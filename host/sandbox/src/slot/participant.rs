//! A slot whose generations are participants, as the participant port sees it.

use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use waybill_core::code::Code;
use waybill_core::port::participant::{Answered, Participant, StepContext, StepDone, StepError, StepInfo, StepOutput};
use waybill_core::port::transport::{CallError, HealthReport, PluginIdentity};

use super::Slot;
use super::pinned::{Pinned, is_untried, rolled_back};
use crate::participant::StepAnswer;

/// What a component lacks that serves: known before it became live, so it says nothing of how it does.
const LACKS: [Code; 2] = [Code::PLUGIN_NO_STEP, Code::PLUGIN_NO_COMPENSATION];

/// A participant whose plugin can be replaced: a call under way ends on the generation that it began on. Cheap to clone.
#[derive(Clone, Debug)]
pub struct ParticipantSlot(pub(crate) Slot);

impl Deref for ParticipantSlot {
    type Target = Slot;
    fn deref(&self) -> &Slot {
        &self.0
    }
}

impl ParticipantSlot {
    fn pinned(&self) -> Pinned {
        Pinned::new(Arc::clone(&self.0.0))
    }

    /// What a call on a generation came to, which is noted. What waited for one that was rolled back goes to the one that came back.
    fn answered<T>(&self, number: u32, by: PluginIdentity, answer: StepAnswer<T>) -> Answered<T> {
        self.heard(number, &answer);
        let result = match answer.result {
            Err(StepError::Release(fault)) if is_untried(&fault) && !self.0.0.closed.is_cancelled() => {
                Err(StepError::Release(rolled_back()))
            }
            result => result,
        };
        Answered { by, result }
    }

    /// Notes what a call on a generation came to.
    fn heard<T>(&self, number: u32, answer: &StepAnswer<T>) {
        match &answer.result {
            _ if answer.by_guest => self.0.0.heard(number, None),
            // It can't be opened, or its breaker is open.
            Err(StepError::Blocked { fault, .. }) if !LACKS.iter().any(|code| fault.code == code.as_str()) => {
                self.0.0.failed(number, fault);
            }
            // What was lost is told by the instance; the rest says nothing of the plugin.
            _ => {}
        }
    }
}

/// No guest was asked.
fn not_asked<T>(by: PluginIdentity, error: CallError) -> Answered<T> {
    Answered { by, result: Err(StepError::Release(error.fault)) }
}

#[async_trait]
impl Participant for ParticipantSlot {
    fn name(&self) -> &str {
        self.0.0.configured_name()
    }

    fn identity(&self) -> PluginIdentity {
        self.0.0.current().served.identity()
    }

    fn steps(&self) -> Vec<StepInfo> {
        self.0.0.current().recipe.steps.to_vec()
    }

    async fn execute(&self, name: &str, context: &StepContext, input: Bytes, timeout: Duration) -> Answered<StepDone> {
        let pinned = self.pinned();
        let (hold, left) = match pinned.held(timeout).await {
            Ok(held) => held,
            Err(error) => return not_asked(pinned.served().identity(), error),
        };
        let by = hold.served.identity();
        let answer = match hold.served.participant() {
            Ok(participant) => participant.ask_to_execute(name, context, input, left).await,
            Err(error) => return not_asked(by, error),
        };
        self.answered(hold.number, by, answer)
    }

    async fn compensate(
        &self,
        name: &str,
        context: &StepContext,
        input: Bytes,
        output: Option<Bytes>,
        timeout: Duration,
    ) -> Answered<StepOutput> {
        let pinned = self.pinned();
        let (hold, left) = match pinned.held(timeout).await {
            Ok(held) => held,
            Err(error) => return not_asked(pinned.served().identity(), error),
        };
        let by = hold.served.identity();
        let answer = match hold.served.participant() {
            Ok(participant) => participant.ask_to_compensate(name, context, input, output, left).await,
            Err(error) => return not_asked(by, error),
        };
        self.answered(hold.number, by, answer)
    }

    fn health(&self) -> HealthReport {
        self.0.0.current().served.health_seen()
    }

    async fn close(&self, timeout: Duration) {
        self.0.0.close(timeout).await;
    }
}
