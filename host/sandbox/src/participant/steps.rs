//! The steps a participant says it serves, checked.

use std::collections::BTreeSet;

use waybill_core::port::participant::StepInfo;

use crate::limits::{ATTRIBUTE_BYTES_MAX, ATTRIBUTES_MAX, STEP_NAME_BYTES_MAX, STEPS_MAX};

/// Checks names and numbers; the error is a fragment that says what is wrong and what to do.
pub(super) fn check(steps: &[StepInfo]) -> Result<(), String> {
    if steps.is_empty() {
        return Err("it serves no step: list at least one".to_owned());
    }
    if steps.len() > STEPS_MAX {
        return Err(format!("it serves {} steps, at most {STEPS_MAX} are taken: split it", steps.len()));
    }
    let mut names = BTreeSet::new();
    for step in steps {
        if !is_step_name(&step.name) {
            let shown: String = step.name.chars().take(STEP_NAME_BYTES_MAX).collect();
            return Err(format!(
                "step name {shown:?} must match [a-z][a-z0-9._-]* and have at most {STEP_NAME_BYTES_MAX} bytes"
            ));
        }
        if !names.insert(step.name.as_str()) {
            return Err(format!("it serves step {:?} twice: rename one", step.name));
        }
        let too_long =
            |(name, value): &(String, String)| name.len() > ATTRIBUTE_BYTES_MAX || value.len() > SCHEMA_BYTES_MAX;
        if step.attributes.len() > ATTRIBUTES_MAX || step.attributes.iter().any(too_long) {
            return Err(format!(
                "step {:?} has more than {ATTRIBUTES_MAX} attributes, or one of more than {SCHEMA_BYTES_MAX} bytes",
                step.name
            ));
        }
    }
    Ok(())
}

/// Longest value of a step's attribute, in bytes: a JSON schema fits.
const SCHEMA_BYTES_MAX: usize = 64 * 1024;

/// Whether a text may name a step. A slash separates it from its participant, so it has none.
fn is_step_name(name: &str) -> bool {
    name.len() <= STEP_NAME_BYTES_MAX
        && name.starts_with(|first: char| first.is_ascii_lowercase())
        && name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '-' | '_' | '.'))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn step(name: &str) -> StepInfo {
        let (name, summary) = (name.to_owned(), String::new());
        StepInfo { name, compensates: false, idempotent: false, summary, attributes: Vec::new() }
    }

    #[test]
    fn names_are_plain_and_unique() {
        assert_eq!(check(&[step("reserve"), step("charge-card.v2")]), Ok(()));
        for (steps, says) in [
            (vec![], "no step"),
            (vec![step("Reserve")], "[a-z]"),
            (vec![step("orders/reserve")], "[a-z]"),
            (vec![step("")], "[a-z]"),
            (vec![step(&"x".repeat(65))], "64 bytes"),
            (vec![step("reserve"), step("reserve")], "twice"),
            ((0..300).map(|number| step(&format!("s{number}"))).collect(), "300 steps"),
        ] {
            let why = check(&steps).unwrap_err();
            assert!(why.contains(says), "{why}");
        }
        let fat = StepInfo { attributes: vec![("input-schema".to_owned(), "x".repeat(100_000))], ..step("a") };
        assert!(check(&[fat]).unwrap_err().contains("attributes"));
    }
}
