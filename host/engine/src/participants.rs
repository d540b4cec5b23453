//! The configured participants by name: what a saga's `fn:` steps are called through.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use bytes::Bytes;
use thiserror::Error;
use waybill_core::code::Code;
use waybill_core::port::participant::{Answered, Participant, StepContext, StepDone, StepInfo, StepOutput};
use waybill_core::step_address::{BadStepAddress, StepAddress};

/// Why an address leads to no step.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum StepLookupError {
    #[error(transparent)]
    Address(#[from] BadStepAddress),
    /// No participant of that name.
    #[error("no participant {participant:?} is configured{}: add [participant.{participant}], or correct the name", known(.configured))]
    NoParticipant { participant: String, configured: Vec<String> },
    /// It doesn't serve that step, or nobody does.
    #[error("{} {step:?}{}: correct the name", served_by(.participant), known(.served))]
    NoStep {
        /// As named; none = any.
        participant: Option<String>,
        step: String,
        served: Vec<String>,
    },
    /// Several participants serve it.
    #[error("step {step:?} is served by {}: write which one is meant, e.g. fn:{}/{step}", .participants.join(", "), .participants.first().map_or("", String::as_str))]
    Ambiguous {
        step: String,
        /// All that serve it.
        participants: Vec<String>,
    },
}

fn known(names: &[String]) -> String {
    if names.is_empty() { String::new() } else { format!(" (there are {})", names.join(", ")) }
}

fn served_by(participant: &Option<String>) -> String {
    participant
        .as_ref()
        .map_or("no participant serves a step".to_owned(), |name| format!("participant {name:?} serves no step"))
}

impl StepLookupError {
    pub fn code(&self) -> Code {
        match self {
            Self::Address(error) => error.code(),
            Self::NoParticipant { .. } => Code::PLUGIN_NO_PARTICIPANT,
            Self::NoStep { .. } => Code::PLUGIN_NO_STEP,
            Self::Ambiguous { .. } => Code::PLUGIN_AMBIGUOUS_STEP,
        }
    }
}

/// All participants of a host. Replacing them leaves calls under way alone.
#[derive(Default)]
pub struct Participants(ArcSwap<BTreeMap<String, Arc<dyn Participant>>>);

impl std::fmt::Debug for Participants {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_set().entries(self.0.load().keys()).finish()
    }
}

impl Participants {
    /// These participants, each by its own name.
    pub fn new(all: impl IntoIterator<Item = Arc<dyn Participant>>) -> Self {
        let participants = Self::default();
        participants.replace(all);
        participants
    }

    /// From now on these; answers those whose names aren't among them any more, for the caller to close. One of the same name is taken
    /// to be the same one.
    pub fn replace(&self, all: impl IntoIterator<Item = Arc<dyn Participant>>) -> Vec<Arc<dyn Participant>> {
        let next = all.into_iter().map(|participant| (participant.name().to_owned(), participant));
        let next: Arc<BTreeMap<_, _>> = Arc::new(next.collect());
        let before = self.0.swap(Arc::clone(&next));
        before.iter().filter(|(name, _)| !next.contains_key(*name)).map(|(_, left)| Arc::clone(left)).collect()
    }

    pub fn all(&self) -> Vec<Arc<dyn Participant>> {
        self.0.load().values().cloned().collect()
    }

    /// Who serves an address now, and what the step says of itself.
    pub fn find(&self, address: &str) -> Result<(Arc<dyn Participant>, StepInfo), StepLookupError> {
        let StepAddress { participant, step } = StepAddress::parse(address)?;
        let all = self.0.load();
        let Some(name) = participant else { return only(&all, step) };
        let Some(found) = all.get(&name) else {
            let configured = all.keys().cloned().collect();
            return Err(StepLookupError::NoParticipant { participant: name, configured });
        };
        let steps = found.steps();
        match steps.iter().find(|info| info.name == step) {
            Some(info) => Ok((Arc::clone(found), info.clone())),
            None => {
                let served = steps.into_iter().map(|info| info.name).collect();
                Err(StepLookupError::NoStep { participant: Some(name), step, served })
            }
        }
    }

    /// Who is meant by an address, and the step's name there. A named participant isn't asked whether it serves the step: its
    /// answer to the call says so.
    pub fn at<'a>(&self, address: &'a StepAddress) -> Result<(Arc<dyn Participant>, &'a str), StepLookupError> {
        let all = self.0.load();
        let Some(name) = &address.participant else {
            return only(&all, address.step.clone()).map(|(participant, _)| (participant, address.step.as_str()));
        };
        let found = all.get(name).ok_or_else(|| {
            let configured = all.keys().cloned().collect();
            StepLookupError::NoParticipant { participant: name.clone(), configured }
        })?;
        Ok((Arc::clone(found), &address.step))
    }

    /// Does the step of an address; see [`Participant::execute`].
    pub async fn call(
        &self,
        address: &str,
        context: &StepContext,
        input: Bytes,
        timeout: Duration,
    ) -> Result<Answered<StepDone>, StepLookupError> {
        let (participant, info) = self.find(address)?;
        Ok(participant.execute(&info.name, context, input, timeout).await)
    }

    /// Undoes the step of an address; see [`Participant::compensate`].
    pub async fn compensate(
        &self,
        address: &str,
        context: &StepContext,
        input: Bytes,
        output: Option<Bytes>,
        timeout: Duration,
    ) -> Result<Answered<StepOutput>, StepLookupError> {
        let (participant, info) = self.find(address)?;
        Ok(participant.compensate(&info.name, context, input, output, timeout).await)
    }

    /// Ends all of them, each within `timeout`.
    pub async fn close(&self, timeout: Duration) {
        let all = self.replace([]);
        futures::future::join_all(all.iter().map(|participant| participant.close(timeout))).await;
    }
}

/// The one participant that serves a step.
fn only(
    all: &BTreeMap<String, Arc<dyn Participant>>,
    step: String,
) -> Result<(Arc<dyn Participant>, StepInfo), StepLookupError> {
    let mut found = Vec::new();
    let mut served = Vec::new();
    for participant in all.values() {
        for info in participant.steps() {
            if info.name == step {
                found.push((Arc::clone(participant), info));
            } else {
                served.push(format!("{}/{}", participant.name(), info.name));
            }
        }
    }
    if found.len() > 1 {
        let participants = found.iter().map(|(participant, _)| participant.name().to_owned()).collect();
        return Err(StepLookupError::Ambiguous { step, participants });
    }
    found.pop().ok_or(StepLookupError::NoStep { participant: None, step, served })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use async_trait::async_trait;
    use waybill_core::port::participant::StepError;
    use waybill_core::port::transport::{Fault, Health, HealthReport, PluginIdentity};

    struct Named(&'static str, &'static [&'static str]);

    #[async_trait]
    impl Participant for Named {
        fn name(&self) -> &str {
            self.0
        }
        fn identity(&self) -> PluginIdentity {
            let text = || self.0.to_owned();
            PluginIdentity { plugin: text(), version: text(), digest: text(), generation: 1 }
        }
        fn steps(&self) -> Vec<StepInfo> {
            let info = |name: &&str| StepInfo {
                name: (*name).to_owned(),
                compensates: false,
                idempotent: true,
                summary: String::new(),
                attributes: Vec::new(),
            };
            self.1.iter().map(info).collect()
        }
        async fn execute(&self, name: &str, _: &StepContext, _: Bytes, _: Duration) -> Answered<StepDone> {
            Answered { by: self.identity(), result: Err(StepError::Permanent(Fault::new("TEST.CALLED", name))) }
        }
        async fn compensate(
            &self,
            _: &str,
            _: &StepContext,
            _: Bytes,
            _: Option<Bytes>,
            _: Duration,
        ) -> Answered<StepOutput> {
            Answered { by: self.identity(), result: Ok(StepOutput::default()) }
        }
        fn health(&self) -> HealthReport {
            HealthReport { health: Health::Ready, detail: None }
        }
        async fn close(&self, _: Duration) {}
    }

    fn participants() -> Participants {
        let orders: Arc<dyn Participant> = Arc::new(Named("orders", &["reserve", "audit"]));
        Participants::new([orders, Arc::new(Named("billing", &["charge", "audit"]))])
    }

    fn refused(address: &str) -> (&'static str, String) {
        let error = participants().find(address).map(|_| ()).unwrap_err();
        (error.code().as_str(), error.to_string())
    }

    #[tokio::test]
    async fn a_step_is_found_by_its_address_and_called_by_its_name() {
        for (address, by) in
            [("fn:orders/reserve", "orders"), ("fn:charge", "billing"), ("fn:billing/audit", "billing")]
        {
            let context = StepContext::new("s", "d", "x");
            let answered = participants().call(address, &context, Bytes::new(), Duration::from_secs(1)).await.unwrap();
            assert_eq!(answered.by.digest, by);
            let step = address.rsplit(['/', ':']).next().unwrap();
            assert_eq!(answered.result.unwrap_err().fault().reason, step);
        }
    }

    #[test]
    fn those_that_are_there_no_more_are_handed_back_to_be_closed() {
        let participants = participants();
        let billing: Arc<dyn Participant> = Arc::new(Named("billing", &["charge"]));
        let left = participants.replace([billing]);
        assert_eq!(left.iter().map(|left| left.name()).collect::<Vec<_>>(), ["orders"]);
        assert!(participants.find("fn:orders/reserve").is_err() && participants.find("fn:billing/charge").is_ok());
    }

    #[test]
    fn what_leads_nowhere_says_why_and_what_there_is() {
        let (code, text) = refused("fn:shipping/send");
        assert!(code == "PLUGIN.NO_PARTICIPANT" && text.contains("billing, orders"), "{text}");
        let (code, text) = refused("fn:orders/reserv");
        assert!(code == "PLUGIN.NO_STEP" && text.contains("reserve, audit"), "{text}");
        let (code, text) = refused("fn:reserv");
        assert!(code == "PLUGIN.NO_STEP" && text.contains("orders/reserve"), "{text}");
        let (code, text) = refused("fn:audit");
        assert!(code == "PLUGIN.AMBIGUOUS_STEP" && text.contains("fn:billing/audit"), "{text}");
        assert_eq!(refused("orders/reserve").0, "PLUGIN.STEP_ADDRESS");
    }
}
