//! A backoff policy: decides what follows a failure. Pure: same arguments, same answer, no host functions (a log entry is an
//! import too, so none here).

use serde::de::DeserializeOwned;

/// The contract as generated from `wit/`, world `backoff`.
#[allow(missing_docs, clippy::all, clippy::restriction)]
pub mod bindings {
    wit_bindgen::generate!({
        path: "../../wit",
        world: "backoff",
        pub_export_macro: true,
        additional_derives: [PartialEq],
    });
}

pub use bindings::exports::waybill::plugin::backoff_api::{Attempt, Decision, FailureKind, Guest, WorkKind};

/// What a policy does.
pub trait Backoff: 'static {
    /// The configuration document; [`crate::config::Empty`] if there is none.
    type Config: DeserializeOwned;

    /// Checks what the type can't say. The error is for the operator.
    ///
    /// # Errors
    /// One sentence: what is wrong and what to write instead.
    fn validate(_config: &Self::Config) -> Result<(), String> {
        Ok(())
    }

    /// Decides. The host keeps `after`, `max_attempts` and its own bounds whatever the answer is.
    fn decide(config: &Self::Config, attempt: &Attempt) -> Decision;
}

/// Reads and checks a configuration.
///
/// # Errors
/// One sentence for the operator, with the place.
#[doc(hidden)]
pub fn configure<T: Backoff>(json: &str) -> Result<T::Config, String> {
    let config = crate::config::parse(json).map_err(|error| format!("config at `{}`: {}", error.path, error.reason))?;
    T::validate(&config)?;
    Ok(config)
}

/// Makes a type that implements [`Backoff`] the component's export. Call it once in a plugin. A configuration that
/// `validate` would refuse decides `fallback`.
#[macro_export]
macro_rules! export_backoff {
    ($plugin:ty) => {
        #[cfg(target_family = "wasm")]
        const _: () = {
            use $crate::backoff as sdk;
            struct Exported;
            impl sdk::Guest for Exported {
                fn validate(config: String) -> Result<(), String> {
                    sdk::configure::<$plugin>(&config).map(|_| ())
                }
                fn decide(config: String, attempt: sdk::Attempt) -> sdk::Decision {
                    match sdk::configure::<$plugin>(&config) {
                        Ok(config) => <$plugin as sdk::Backoff>::decide(&config, &attempt),
                        Err(_) => sdk::Decision::Fallback,
                    }
                }
            }
    sdk::bindings::export!(Exported with_types_in $crate::backoff::bindings);
        };
        #[cfg(not(target_family = "wasm"))]
        const _: fn() = || {
            fn is_a_backoff<T: $crate::backoff::Backoff>() {}
            is_a_backoff::<$plugin>();
        };
    };
}
