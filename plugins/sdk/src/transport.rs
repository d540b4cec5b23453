//! A transport: delivers outbox messages to the outside.

use serde::de::DeserializeOwned;

/// The contract as generated from `wit/`, world `transport`.
#[allow(missing_docs, clippy::all, clippy::restriction)]
pub mod bindings {
    wit_bindgen::generate!({
        path: "../../wit",
        world: "transport",
        pub_export_macro: true,
        additional_derives: [PartialEq],
    });
}

pub use bindings::exports::waybill::plugin::transport_api::Guest;
pub use bindings::waybill::plugin::types::{
    Block, CallInfo, ErrorKind, Fault, Health, HealthReport, Message, OpenArgs, OpenPurpose, Opened, Outcome,
    PluginError, Receipt,
};

/// What a transport does. One value lives from `open` to `close`; calls may overlap up to what [`Opened`] says, at each
/// `await`, hence `&self` everywhere: keep state in `Cell` and `RefCell`, and never a borrow over an `await`.
#[allow(async_fn_in_trait, reason = "an instance has one thread; nothing here can be `Send`")]
pub trait Transport: Sized + 'static {
    /// The configuration document; [`crate::config::Empty`] if there is none.
    type Config: DeserializeOwned;

    /// Connects and authenticates. With purpose `probe`: takes nothing over and creates nothing.
    ///
    /// # Errors
    /// By class: what the host does next depends on it.
    async fn open(call: &CallInfo, args: &OpenArgs, config: Self::Config) -> Result<(Self, Opened), PluginError>;

    /// Sends a batch and waits for the receiver's word: exactly one outcome per message, in order. Tell what is known early
    /// with [`CallInfo::settled`].
    ///
    /// # Errors
    /// Nothing is known of any message that wasn't told early.
    async fn send_batch(&self, call: &CallInfo, batch: Vec<Message>) -> Result<Vec<Outcome>, PluginError>;

    /// Says how it is, by asking the peer where that is cheap.
    async fn health(&self, _call: &CallInfo) -> HealthReport {
        HealthReport::ready()
    }

    /// Keeps the connection alive; called at least every `opened.tick_every`.
    ///
    /// # Errors
    /// The connection is gone.
    async fn tick(&self, _call: &CallInfo) -> Result<(), PluginError> {
        Ok(())
    }

    /// Says goodbye to the peer. Nothing is unsent by then.
    async fn close(&self, _call: &CallInfo) {}
}

impl Message {
    /// An attribute's value by its registered name.
    pub fn attribute(&self, name: &str) -> Option<&str> {
        self.attributes.iter().find(|(other, _)| other == name).map(|(_, value)| value.as_str())
    }
}

impl CallInfo {
    /// Tells the fate of message `index` of this call's batch at once: it survives a trap, and its key goes on.
    pub fn settled(&self, index: usize, outcome: &Outcome) {
        // The host puts at most `open-args.max-batch` (u32) messages in a call.
        if let Ok(index) = u32::try_from(index) {
            crate::host::progress::settled(self.id, index, outcome);
        }
    }

    /// Whether the host wants this call to end soon.
    pub fn cancelled(&self) -> bool {
        crate::host::control::cancelled(self.id)
    }

    /// Milliseconds left to this call.
    pub fn remaining(&self) -> u32 {
        crate::host::control::remaining(self.id)
    }
}

/// Makes a type that implements [`Transport`] the component's export. Call it once in a plugin.
#[macro_export]
macro_rules! export_transport {
    ($plugin:ty) => {
        #[cfg(target_family = "wasm")]
        const _: () = {
            use $crate::transport as sdk;
            ::std::thread_local! {
                static OPEN: $crate::slot::Slot<$plugin> = const { $crate::slot::Slot::new() };
            }
            struct Exported;
            impl sdk::Guest for Exported {
                async fn open(call: sdk::CallInfo, args: sdk::OpenArgs) -> Result<sdk::Opened, sdk::PluginError> {
                    let config = $crate::config::parse(&args.config)?;
                    let (plugin, opened) = <$plugin as sdk::Transport>::open(&call, &args, config).await?;
                    OPEN.with(|slot| slot.put(plugin));
                    Ok(opened)
                }
                async fn send_batch(
                    call: sdk::CallInfo,
                    batch: Vec<sdk::Message>,
                ) -> Result<Vec<sdk::Outcome>, sdk::PluginError> {
                    let plugin = OPEN.with(|slot| slot.get())?;
                    sdk::Transport::send_batch(&*plugin, &call, batch).await
                }
                async fn health(call: sdk::CallInfo) -> sdk::HealthReport {
                    match OPEN.with(|slot| slot.get()) {
                        Ok(plugin) => sdk::Transport::health(&*plugin, &call).await,
                        Err(error) => sdk::HealthReport::new(sdk::Health::Down, error.fault.reason),
                    }
                }
                async fn tick(call: sdk::CallInfo) -> Result<(), sdk::PluginError> {
                    let plugin = OPEN.with(|slot| slot.get())?;
                    sdk::Transport::tick(&*plugin, &call).await
                }
                async fn close(call: sdk::CallInfo) {
                    if let Some(plugin) = OPEN.with(|slot| slot.take()) {
                        sdk::Transport::close(&*plugin, &call).await;
                    }
                }
            }
    sdk::bindings::export!(Exported with_types_in $crate::transport::bindings);
        };
        #[cfg(not(target_family = "wasm"))]
        const _: fn() = || {
            fn is_a_transport<T: $crate::transport::Transport>() {}
            is_a_transport::<$plugin>();
        };
    };
}
