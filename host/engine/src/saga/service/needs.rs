//! What running sagas still need of a participant: a plugin that is to take another's place has to serve it.

use std::collections::HashMap;

use async_trait::async_trait;
use waybill_core::port::participant::Direction;
use waybill_core::port::step_needs::{NeededStep, StepNeeds};
use waybill_core::saga::id::SagaKey;
use waybill_core::step_address::StepAddress;

use super::Sagas;
use crate::commit::Condition;
use crate::saga::mail::MemoryQuery;

#[async_trait]
impl StepNeeds for Sagas {
    async fn needed(&self, participant: &str) -> Result<Vec<NeededStep>, String> {
        self.needs_of(participant, |address| self.leads_to(address, participant)).await
    }

    async fn unclear(&self, participant: &str, steps: &[String]) -> Result<Vec<NeededStep>, String> {
        let is_meant = |address: &StepAddress| {
            address.participant.is_none()
                && steps.contains(&address.step)
                && self.serving(address).is_some_and(|serving| serving != participant)
        };
        self.needs_of(participant, is_meant).await
    }
}

impl Sagas {
    /// What the sagas that this host runs may still call, of the addresses that name a participant or none and that are taken.
    async fn needs_of(
        &self,
        participant: &str,
        takes: impl Fn(&StepAddress) -> bool + Send,
    ) -> Result<Vec<NeededStep>, String> {
        let mut needs: HashMap<(String, Direction), (u64, SagaKey)> = HashMap::new();
        for shard in &self.shards {
            // Another host calls its own participants.
            if matches!(shard.condition(), Condition::Observing { .. } | Condition::Released) {
                continue;
            }
            let found = shard.query(|reply| MemoryQuery::Needs { participant: participant.to_owned(), reply }).await;
            let unknown = || format!("the sagas of shard {} are being taken over", shard.shard.0);
            for ((address, way), (sagas, example)) in found.ok_or_else(unknown)? {
                if !takes(&address) {
                    continue;
                }
                let need = needs.entry((address.step, way.direction())).or_insert_with(|| (0, example.clone()));
                need.0 = need.0.saturating_add(sagas);
                need.1 = example.min(need.1.clone());
            }
        }
        let of = |((step, way), (sagas, example))| NeededStep { step, way, sagas, example };
        let mut needed: Vec<NeededStep> = needs.into_iter().map(of).collect();
        needed.sort_by(|a, b| (&a.step, b.way.as_str()).cmp(&(&b.step, a.way.as_str())));
        Ok(needed)
    }

    /// Whether an address names this participant, or names none and this one is the only one that serves the step now.
    fn leads_to(&self, address: &StepAddress, participant: &str) -> bool {
        address.participant.is_some() || self.serving(address).is_some_and(|serving| serving == participant)
    }

    /// The participant that an address means now.
    fn serving(&self, address: &StepAddress) -> Option<String> {
        let found = self.shared.context.config.sagas.participants.at(address);
        found.ok().map(|(participant, _)| participant.name().to_owned())
    }
}
