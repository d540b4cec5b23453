//! The port through which a plugin that is to take another's place learns what running sagas still call.

use std::fmt;

use async_trait::async_trait;

use crate::ids::Tenant;
use crate::port::participant::Direction;
use crate::saga::id::SagaKey;

/// A step of a participant, or its compensation, that running sagas may still call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NeededStep {
    /// Its name at the participant.
    pub step: String,
    /// Whether it is done or undone.
    pub way: Direction,
    /// Sagas that may call it, with all below them counted as one.
    pub sagas: u64,
    /// One of those sagas.
    pub example: SagaKey,
}

impl fmt::Display for NeededStep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { step, way, sagas, example } = self;
        let undoes = if *way == Direction::Compensate { "the compensation of " } else { "" };
        let tenant = &example.tenant;
        let whose = if *tenant == Tenant::unnamed() { String::new() } else { format!(" of tenant {tenant}") };
        match sagas {
            1 => write!(f, "{undoes}step {step:?} (saga {}{whose})", example.id),
            more => write!(f, "{undoes}step {step:?} ({more} sagas, {}{whose} among them)", example.id),
        }
    }
}

/// Knows what running sagas still need.
#[async_trait]
pub trait StepNeeds: Send + Sync + 'static {
    /// What the sagas that this host runs may still call of a participant, by name of the step. The error says why that isn't known
    /// now; it passes.
    async fn needed(&self, participant: &str) -> Result<Vec<NeededStep>, String>;
    /// Which of these steps they may still call by the name alone, while another participant is the only one that serves it: if this one
    /// served it too, nobody would know which is meant. The error as of `needed`.
    async fn unclear(&self, participant: &str, steps: &[String]) -> Result<Vec<NeededStep>, String>;
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::saga::id::SagaId;

    #[test]
    fn a_need_names_the_step_and_a_saga_to_look_at() {
        let example = SagaKey { tenant: Tenant::unnamed(), id: SagaId::new("s-1").unwrap() };
        let one = NeededStep { step: "reserve".to_owned(), way: Direction::Execute, sagas: 1, example };
        assert_eq!(one.to_string(), "step \"reserve\" (saga s-1)");
        let example = SagaKey { tenant: Tenant::new("acme").unwrap(), ..one.example.clone() };
        let undo = NeededStep { way: Direction::Compensate, sagas: 3, example, ..one };
        let text = "the compensation of step \"reserve\" (3 sagas, s-1 of tenant acme among them)";
        assert_eq!(undo.to_string(), text);
    }
}
