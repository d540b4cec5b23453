//! What an operator lets a plugin do, and the one place where it is judged.
//!
//! Effective = what the manifest asks ∩ what is granted here. Nothing granted, nothing reached.

mod address;
mod names;
mod own;
mod pattern;
mod policy;
mod required;
mod resolve;

use waybill_core::endpoint::Grants;

pub use address::{AddressClass, classify};
pub use own::OwnListeners;
pub use pattern::{HostPattern, Pattern, PatternError, PortPattern, Scheme};
pub use policy::{ConnectFailure, EgressPolicy, Target};
pub use required::{Need, check_grants};
pub use resolve::{Resolve, SystemResolver};

use crate::error::SandboxError;

/// Reads the patterns that are granted.
fn peers(grants: &Grants) -> Result<Vec<Pattern>, SandboxError> {
    let read = |text: &String| {
        Pattern::parse_grant(text)
            .map_err(|error| SandboxError::Grant { pattern: text.clone(), cause: error.to_string() })
    };
    grants.peers.iter().map(read).collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn the_loopback_grant_has_every_spelling_of_this_machine() {
        assert_eq!(peers(&Grants::loopback_http()).unwrap().len(), 6);
    }

    #[test]
    fn a_bad_pattern_is_an_error_with_the_fix() {
        let error = peers(&Grants::none().allow(["tcp://broker"])).unwrap_err();
        assert_eq!(error.code().as_str(), "PLUGIN.GRANT");
        assert!(error.to_string().contains("port"), "{error}");
    }
}
