//! A handler: handles inbox messages. De-duplication is done by the host before the call.
//!
//! ```
//! use serde::Deserialize;
//! use waybill_plugin::handler::{Handled, Handler, Inbound, Outgoing, Verdict};
//! use waybill_plugin::transport::{CallInfo, OpenArgs, Opened, PluginError};
//!
//! struct Payments;
//!
//! #[derive(Deserialize)]
//! struct Paid {
//!     order: u64,
//! }
//!
//! impl Handler for Payments {
//!     type Config = waybill_plugin::config::Empty;
//!     async fn open(_: &CallInfo, _: &OpenArgs, _: Self::Config) -> Result<(Self, Opened), PluginError> {
//!         Ok((Self, Opened::new()))
//!     }
//!     async fn handle(&self, _: &CallInfo, message: Inbound) -> Verdict {
//!         let paid: Paid = match message.json() {
//!             Ok(paid) => paid,
//!             Err(poison) => return poison,
//!         };
//!         Handled::new().with_message(Outgoing::new(format!("bus:orders.{}.paid", paid.order), "")).into()
//!     }
//! }
//!
//! waybill_plugin::export_handler!(Payments);
//! # fn main() {}
//! ```

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::followup::JSON;
pub use crate::followup::{Outgoing, StreamEvent};
use crate::transport::{Block, CallInfo, ErrorKind, Fault, OpenArgs, Opened, PluginError};

/// The contract as generated from `wit/inbound/`: the export `handler-api`.
#[allow(missing_docs, clippy::all, clippy::restriction)]
pub mod bindings {
    wit_bindgen::generate!({
        path: ["../../wit", "../../wit/inbound"],
        inline: "package waybill:sdk; world handles { export waybill:inbound/handler-api@0.1.0; }",
        world: "waybill:sdk/handles",
        pub_export_macro: true,
        additional_derives: [PartialEq],
        with: {
            "waybill:plugin/types@0.1.0": crate::transport::bindings::waybill::plugin::types,
            "waybill:inbound/inbound-types@0.1.0": crate::inbound::bindings::waybill::inbound::inbound_types,
        },
    });
}

pub use crate::inbound::bindings::waybill::inbound::inbound_types::{Handled, Inbound, SagaSignal, Verdict};
pub use bindings::exports::waybill::inbound::handler_api::Guest;

/// What a handler does. One value lives from `open` to `close`; calls may overlap up to what [`Opened`] says, at each `await`,
/// hence `&self`.
#[allow(async_fn_in_trait, reason = "an instance has one thread; nothing here can be `Send`")]
pub trait Handler: Sized + 'static {
    /// The configuration document; [`crate::config::Empty`] if there is none.
    type Config: DeserializeOwned;

    /// Prepares an instance.
    ///
    /// # Errors
    /// By class: what the host does next depends on it.
    async fn open(call: &CallInfo, args: &OpenArgs, config: Self::Config) -> Result<(Self, Opened), PluginError>;

    /// Handles one message. The verdict says whether it is settled, tried again or given up.
    async fn handle(&self, call: &CallInfo, message: Inbound) -> Verdict;

    /// Handles a batch: one verdict a message, in order. Write it where several messages cost less together; without it they
    /// are handled one by one, each verdict told at once with [`CallInfo::verdict`], until the host wants the call to end.
    ///
    /// # Errors
    /// Nothing is known of those whose verdict wasn't told: the host repeats them one by one.
    async fn handle_batch(&self, call: &CallInfo, batch: Vec<Inbound>) -> Result<Vec<Verdict>, PluginError> {
        let several = batch.len() > 1;
        let mut verdicts = Vec::with_capacity(batch.len());
        for (index, message) in batch.into_iter().enumerate() {
            if several && index > 0 && call.cancelled() {
                let fault = Fault::new(
                    "PLUGIN.CANCELLED",
                    "the host wanted the call to end before the whole batch was handled",
                );
                return Err(PluginError::new(ErrorKind::Cancelled, fault));
            }
            let verdict = self.handle(call, message).await;
            if several {
                call.verdict(index, &verdict);
            }
            verdicts.push(verdict);
        }
        Ok(verdicts)
    }

    /// The last call of an instance: release what [`Self::open`] made. Does nothing by default.
    async fn close(&self, _call: &CallInfo) {}
}

impl CallInfo {
    /// Tells the verdict on message `index` of this call's batch at once: it survives a trap, so its effects aren't repeated.
    pub fn verdict(&self, index: usize, verdict: &Verdict) {
        // The host puts at most `open-args.max-batch` (u32) messages in a call.
        if let Ok(index) = u32::try_from(index) {
            crate::inbound::bindings::waybill::inbound::handling::settled(self.id, index, verdict);
        }
    }
}

impl Inbound {
    /// The payload as JSON.
    ///
    /// # Errors
    /// It is poison: another try would read the same.
    pub fn json<T: DeserializeOwned>(&self) -> Result<T, Verdict> {
        let text = std::str::from_utf8(&self.payload).map_err(|_| poison("it isn't UTF-8".to_owned()))?;
        crate::config::parse(text).map_err(|wrong| poison(format!("at `{}`: {}", wrong.path, wrong.reason)))
    }
}

fn poison(why: String) -> Verdict {
    Verdict::poison("PLUGIN.PAYLOAD", format!("the payload can't be read: {why}"))
}

impl Handled {
    /// Done, with nothing left behind.
    pub fn new() -> Self {
        Self { messages: Vec::new(), events: Vec::new(), signals: Vec::new(), attributes: Vec::new() }
    }

    /// With a message to enqueue in the commit that marks it processed.
    #[must_use]
    pub fn with_message(mut self, message: Outgoing) -> Self {
        self.messages.push(message);
        self
    }

    /// With an event to append in that commit.
    #[must_use]
    pub fn with_event(mut self, event: StreamEvent) -> Self {
        self.events.push(event);
        self
    }

    /// With a signal to a saga of the message's tenant, sent in that commit.
    #[must_use]
    pub fn with_signal(mut self, signal: SagaSignal) -> Self {
        self.signals.push(signal);
        self
    }
}

impl SagaSignal {
    /// A signal with JSON, named `name`, to the saga with id `saga`. What can't be written as JSON is `null`.
    pub fn json(saga: impl Into<String>, name: impl Into<String>, payload: &impl Serialize) -> Self {
        Self {
            saga: saga.into(),
            name: name.into(),
            content_type: Some(JSON.to_owned()),
            payload: crate::followup::json(payload),
        }
    }
}

impl Default for Handled {
    fn default() -> Self {
        Self::new()
    }
}

impl From<Handled> for Verdict {
    fn from(handled: Handled) -> Self {
        Self::Processed(handled)
    }
}

impl Verdict {
    /// Never processable: dead letter.
    pub fn poison(code: impl Into<String>, reason: impl Into<String>) -> Self {
        Self::Poison(Fault::new(code, reason))
    }

    /// Failed this time; the attempt counts.
    pub fn retry(code: impl Into<String>, reason: impl Into<String>) -> Self {
        Self::Retry(Fault::new(code, reason))
    }

    /// Too much at once: the consumer pauses as long as the fault's `after` says; no attempt counts.
    pub fn busy(fault: Fault) -> Self {
        Self::Busy(fault)
    }

    /// What the handler needs is down: hold the consumer; no attempt counts. An empty scope is the whole consumer.
    pub fn blocked(scope: impl Into<String>, fault: Fault) -> Self {
        Self::Blocked(Block { scope: scope.into(), fault })
    }
}

/// Makes a type that implements [`Handler`] the component's export. Call it once in a plugin.
#[macro_export]
macro_rules! export_handler {
    ($plugin:ty) => {
        #[cfg(target_family = "wasm")]
        const _: () = {
            use $crate::handler as sdk;
            use $crate::transport::{CallInfo, OpenArgs, Opened, PluginError};
            ::std::thread_local! {
                static OPEN: $crate::slot::Slot<$plugin> = const { $crate::slot::Slot::new() };
            }
            struct Exported;
            impl sdk::Guest for Exported {
                async fn open(call: CallInfo, args: OpenArgs) -> Result<Opened, PluginError> {
                    let config = $crate::config::parse(&args.config)?;
                    let (plugin, opened) = <$plugin as sdk::Handler>::open(&call, &args, config).await?;
                    OPEN.with(|slot| slot.put(plugin));
                    Ok(opened)
                }
                async fn handle(
                    call: CallInfo,
                    batch: ::std::vec::Vec<sdk::Inbound>,
                ) -> Result<::std::vec::Vec<sdk::Verdict>, PluginError> {
                    let plugin = OPEN.with(|slot| slot.get())?;
                    sdk::Handler::handle_batch(&*plugin, &call, batch).await
                }
                async fn close(call: CallInfo) {
                    if let Some(plugin) = OPEN.with(|slot| slot.take()) {
                        sdk::Handler::close(&*plugin, &call).await;
                    }
                }
            }
    sdk::bindings::export!(Exported with_types_in $crate::handler::bindings);
        };
        #[cfg(not(target_family = "wasm"))]
        const _: fn() = || {
            fn is_a_handler<T: $crate::handler::Handler>() {}
            is_a_handler::<$plugin>();
        };
    };
}
