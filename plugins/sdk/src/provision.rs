//! Provisioning: an optional export beside a transport that creates what is missing at the peer. See `wit/provision.wit`.

use serde::de::DeserializeOwned;

use crate::transport::{CallInfo, OpenArgs, PluginError};

/// The contract as generated from `wit/`: the export `provision-api`.
#[allow(missing_docs, clippy::all, clippy::restriction)]
pub mod bindings {
    wit_bindgen::generate!({
        path: "../../wit",
        inline: "package waybill:sdk; world provisions { export waybill:plugin/provision-api@0.1.0; }",
        world: "waybill:sdk/provisions",
        pub_export_macro: true,
        additional_derives: [PartialEq],
        with: { "waybill:plugin/types@0.1.0": crate::transport::bindings::waybill::plugin::types },
    });
}

pub use bindings::exports::waybill::plugin::provision_api::{Action, Change, Guest};

/// What a transport needs at its peer. Called in an instance of its own that is never opened.
#[allow(async_fn_in_trait, reason = "an instance has one thread; nothing here can be `Send`")]
pub trait Provision: 'static {
    /// The configuration document, the same as the transport's.
    type Config: DeserializeOwned;

    /// What is there and what is missing. Changes nothing.
    ///
    /// # Errors
    /// The peer can't be asked.
    async fn plan(call: &CallInfo, args: &OpenArgs, config: Self::Config) -> Result<Vec<Change>, PluginError>;

    /// Does what a fresh plan says, but for conflicts, and answers what it did. Safe to repeat.
    ///
    /// # Errors
    /// Part of it may be done.
    async fn apply(call: &CallInfo, args: &OpenArgs, config: Self::Config) -> Result<Vec<Change>, PluginError>;
}

/// Makes a type that implements [`Provision`] the component's second export. Call it once, beside `export_transport!`.
#[macro_export]
macro_rules! export_provision {
    ($plugin:ty) => {
        #[cfg(target_family = "wasm")]
        const _: () = {
            use $crate::provision as sdk;
            use $crate::transport::{CallInfo, OpenArgs, PluginError};
            struct Exported;
            impl sdk::Guest for Exported {
                async fn plan(call: CallInfo, args: OpenArgs) -> Result<::std::vec::Vec<sdk::Change>, PluginError> {
                    let config = $crate::config::parse(&args.config)?;
                    <$plugin as sdk::Provision>::plan(&call, &args, config).await
                }
                async fn apply(call: CallInfo, args: OpenArgs) -> Result<::std::vec::Vec<sdk::Change>, PluginError> {
                    let config = $crate::config::parse(&args.config)?;
                    <$plugin as sdk::Provision>::apply(&call, &args, config).await
                }
            }
    sdk::bindings::export!(Exported with_types_in $crate::provision::bindings);
        };
        #[cfg(not(target_family = "wasm"))]
        const _: fn() = || {
            fn can_provision<T: $crate::provision::Provision>() {}
            can_provision::<$plugin>();
        };
    };
}
