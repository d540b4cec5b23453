//! What running sagas still call of a participant: a component that is to take its plugin's place is refused if it lacks some of it, or
//! if it would serve a step besides that they call of another by its name alone.

use std::sync::{Arc, OnceLock, Weak};

use waybill_core::port::participant::{Direction, StepInfo};
use waybill_core::port::step_needs::{NeededStep, StepNeeds};

use super::{Shared, SwapError};
use crate::manifest::World;

/// Who runs sagas: told once, when somebody does. Cheap to clone. It isn't held: sagas hold what they call.
#[derive(Clone, Default)]
pub(crate) struct SagaNeeds(Arc<OnceLock<Weak<dyn StepNeeds>>>);

impl SagaNeeds {
    /// From now on they are asked; only the first one counts.
    pub(crate) fn ask(&self, who: &Arc<dyn StepNeeds>) {
        let _first = self.0.set(Arc::downgrade(who));
    }

    fn who(&self) -> Option<Arc<dyn StepNeeds>> {
        self.0.get().and_then(Weak::upgrade)
    }
}

impl Shared {
    /// Refuses steps in place of those that are served if running sagas may still call what would be gone. What nobody serves now
    /// keeps no other component away.
    pub(super) async fn check_needs(&self, next: &[StepInfo]) -> Result<(), SwapError> {
        let now = self.current();
        let Some(who) = self.needs.who().filter(|_| now.recipe.world == World::Participant) else { return Ok(()) };
        let endpoint = || self.name.clone();
        let needed = who.needed(&self.configured).await;
        let needed = needed.map_err(|why| SwapError::NeedsUnknown { endpoint: endpoint(), why })?;
        let missing = missing(needed, &now.recipe.steps, next);
        if !missing.is_empty() {
            return Err(SwapError::StepsNeeded { endpoint: endpoint(), missing });
        }
        // What is unclear already is so whatever comes.
        let is_new = |step: &&StepInfo| now.recipe.steps.iter().all(|served| served.name != step.name);
        self.check_clear(next.iter().filter(is_new).map(|step| step.name.clone()).collect()).await
    }

    /// Refuses steps beside those of other participants if running sagas may still call one of them by its name alone.
    pub(super) async fn check_clear(&self, steps: Vec<String>) -> Result<(), SwapError> {
        let Some(who) = self.needs.who().filter(|_| !steps.is_empty()) else { return Ok(()) };
        let endpoint = || self.name.clone();
        let unclear = who.unclear(&self.configured, &steps).await;
        let unclear = unclear.map_err(|why| SwapError::NeedsUnknown { endpoint: endpoint(), why })?;
        if unclear.is_empty() { Ok(()) } else { Err(SwapError::StepsUnclear { endpoint: endpoint(), unclear }) }
    }
}

fn missing(needed: Vec<NeededStep>, now: &[StepInfo], next: &[StepInfo]) -> Vec<NeededStep> {
    let serves = |steps: &[StepInfo], need: &NeededStep| {
        steps.iter().any(|step| step.name == need.step && (need.way == Direction::Execute || step.compensates))
    };
    needed.into_iter().filter(|need| serves(now, need) && !serves(next, need)).collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use waybill_core::ids::Tenant;
    use waybill_core::saga::id::{SagaId, SagaKey};

    use super::*;

    fn step(name: &str, compensates: bool) -> StepInfo {
        let (name, summary) = (name.to_owned(), String::new());
        StepInfo { name, compensates, idempotent: true, summary, attributes: Vec::new() }
    }

    fn need(step: &str, way: Direction) -> NeededStep {
        let example = SagaKey { tenant: Tenant::unnamed(), id: SagaId::new("s-1").unwrap() };
        NeededStep { step: step.to_owned(), way, sagas: 1, example }
    }

    #[test]
    fn what_would_be_gone_is_missing_and_what_nobody_serves_is_not() {
        use Direction::{Compensate, Execute};
        let now = [step("a", true), step("b", false), step("c", true)];
        let next = [step("a", false), step("c", true)];
        let needed = vec![
            need("a", Compensate),
            need("a", Execute),
            need("b", Compensate),
            need("b", Execute),
            need("c", Compensate),
            need("d", Execute),
        ];
        assert_eq!(missing(needed, &now, &next), [need("a", Compensate), need("b", Execute)]);
    }
}
