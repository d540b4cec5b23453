//! Addresses of saga steps: `fn:<participant>/<step>`, or `fn:<step>` where one participant serves it.

use std::fmt;

use thiserror::Error;

use crate::code::Code;

/// Longest address taken, in bytes.
const ADDRESS_BYTES_MAX: usize = 256;

/// Which step is meant.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct StepAddress {
    /// Name of the configured participant; none = the only one that serves the step.
    pub participant: Option<String>,
    /// Name of the step.
    pub step: String,
}

/// It isn't an address of a step.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error(
    "{address:?} isn't the address of a step: write fn:PARTICIPANT/STEP, or fn:STEP where one participant serves it"
)]
pub struct BadStepAddress {
    pub address: String,
}

impl BadStepAddress {
    pub fn code(&self) -> Code {
        Code::PLUGIN_STEP_ADDRESS
    }
}

impl StepAddress {
    /// Reads an address. Names are lower-case letters, digits, `-`, `_` and, in a step's, `.`.
    pub fn parse(text: &str) -> Result<Self, BadStepAddress> {
        let bad = || BadStepAddress { address: text.chars().take(ADDRESS_BYTES_MAX).collect() };
        let name = text.strip_prefix("fn:").filter(|_| text.len() <= ADDRESS_BYTES_MAX).ok_or_else(bad)?;
        let (participant, step) = match name.split_once('/') {
            Some((participant, step)) => (Some(participant), step),
            None => (None, name),
        };
        let plain = |name: &str, extra: &str| {
            !name.is_empty()
                && name.chars().all(|c| {
                    c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '-' | '_') || extra.contains(c)
                })
        };
        if !plain(step, ".") || !participant.is_none_or(|name| plain(name, "")) {
            return Err(bad());
        }
        Ok(Self { participant: participant.map(str::to_owned), step: step.to_owned() })
    }
}

impl fmt::Display for StepAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.participant {
            Some(participant) => write!(f, "fn:{participant}/{}", self.step),
            None => write!(f, "fn:{}", self.step),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn an_address_names_a_step_and_mostly_its_participant() {
        let address = StepAddress::parse("fn:orders/reserve.v2").unwrap();
        assert_eq!((address.participant.as_deref(), address.step.as_str()), (Some("orders"), "reserve.v2"));
        assert_eq!(StepAddress::parse("fn:reserve").unwrap().participant, None);
        for text in ["fn:orders/reserve.v2", "fn:reserve"] {
            assert_eq!(StepAddress::parse(text).unwrap().to_string(), text);
        }
    }

    #[test]
    fn anything_else_is_refused() {
        let long = format!("fn:{}", "x".repeat(300));
        for text in
            ["", "fn:", "reserve", "fn:/reserve", "fn:orders/", "fn:a/b/c", "fn:Orders/x", "fn:a b", "http://x", &long]
        {
            let error = StepAddress::parse(text).unwrap_err();
            assert_eq!(error.code().as_str(), "PLUGIN.STEP_ADDRESS", "{text}");
            assert!(error.to_string().contains("fn:PARTICIPANT/STEP"));
        }
    }
}
