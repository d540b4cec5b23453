//! A source: brings messages in from the outside, for the inbox.
//!
//! ```
//! use std::cell::Cell;
//! use waybill_plugin::source::{Delivery, Disposition, Pulled, Settled, Settlement, Source, SourceArgs};
//! use waybill_plugin::transport::{CallInfo, OpenArgs, Opened, PluginError};
//!
//! /// Counts. What is given back is counted again only after a restart: a source whose peer remembers nothing.
//! struct Numbers(Cell<u64>);
//!
//! impl Source for Numbers {
//!     type Config = waybill_plugin::config::Empty;
//!     async fn open(_: &CallInfo, _: &OpenArgs, _: &SourceArgs, _: Self::Config) -> Result<(Self, Opened), PluginError> {
//!         Ok((Self(Cell::new(0)), Opened::new()))
//!     }
//!     async fn pull(&self, _: &CallInfo, _max: u32, _max_bytes: u32, _wait: u32) -> Result<Pulled, PluginError> {
//!         let number = self.0.get() + 1;
//!         self.0.set(number);
//!         let delivery = Delivery::new(number.to_be_bytes(), "numbers", number.to_string());
//!         Ok(Pulled::new(vec![delivery.with_position(number.to_string())]))
//!     }
//!     async fn settle(&self, _: &CallInfo, items: Vec<Settlement>) -> Result<Vec<Settled>, PluginError> {
//!         let settled = |item: &Settlement| match item.disposition {
//!             Disposition::Ack | Disposition::Release => Settled::Done,
//!             _ => Settled::unsupported(),
//!         };
//!         Ok(items.iter().map(settled).collect())
//!     }
//! }
//!
//! waybill_plugin::export_source!(Numbers);
//! # fn main() {}
//! ```

use serde::de::DeserializeOwned;

pub use crate::inbound::{Notices, Token};
use crate::transport::{CallInfo, ErrorKind, Fault, HealthReport, OpenArgs, Opened, PluginError};

/// The contract as generated from `wit/inbound/`: the export `source-api`.
#[allow(missing_docs, clippy::all, clippy::restriction)]
pub mod bindings {
    wit_bindgen::generate!({
        path: ["../../wit", "../../wit/inbound"],
        inline: "package waybill:sdk; world brings { export waybill:inbound/source-api@0.1.0; }",
        world: "waybill:sdk/brings",
        pub_export_macro: true,
        additional_derives: [PartialEq],
        with: {
            "waybill:plugin/types@0.1.0": crate::transport::bindings::waybill::plugin::types,
            "waybill:inbound/inbound-types@0.1.0": crate::inbound::bindings::waybill::inbound::inbound_types,
        },
    });
}

pub use bindings::exports::waybill::inbound::source_api::{
    Delivery, Disposition, Guest, Overtaken, Pulled, Settled, Settlement, SourceArgs,
};

/// What a source does. One value lives from `open` to `close`; calls may overlap up to what [`Opened`] says, at each `await`,
/// hence `&self`.
#[allow(async_fn_in_trait, reason = "an instance has one thread; nothing here can be `Send`")]
pub trait Source: Sized + 'static {
    /// The configuration document; [`crate::config::Empty`] if there is none.
    type Config: DeserializeOwned;

    /// Connects and subscribes; never has more than `wants` on the way. Creates nothing at the broker. Abilities are named in
    /// [`Opened::features`].
    ///
    /// # Errors
    /// By class: what the host does next depends on it. [`overtaken`] where messages were removed before they were read.
    async fn open(
        call: &CallInfo,
        args: &OpenArgs,
        wants: &SourceArgs,
        config: Self::Config,
    ) -> Result<(Self, Opened), PluginError>;

    /// Up to `max` deliveries and `max_bytes` of payload; waits up to `wait` milliseconds for the first.
    ///
    /// # Errors
    /// Nothing was brought.
    async fn pull(&self, call: &CallInfo, max: u32, max_bytes: u32, wait: u32) -> Result<Pulled, PluginError>;

    /// One result an item, in order. A source of offsets notes them, and commits again in [`Self::tick`] what couldn't be
    /// committed.
    ///
    /// # Errors
    /// Nothing is known of any of them.
    async fn settle(&self, call: &CallInfo, items: Vec<Settlement>) -> Result<Vec<Settled>, PluginError>;

    /// Says how it is, by asking the peer where that is cheap.
    async fn health(&self, _call: &CallInfo) -> HealthReport {
        HealthReport::ready()
    }

    /// Keeps the connection alive and tells what the broker told; called at least every `opened.tick_every`, also when the
    /// source is paused.
    ///
    /// # Errors
    /// The connection is gone.
    async fn tick(&self, _call: &CallInfo) -> Result<Notices, PluginError> {
        Ok(Notices::new())
    }

    /// Fetches no more and gives back what wasn't handed over; settling goes on. A source that never fetches ahead has nothing
    /// to do.
    ///
    /// # Errors
    /// The connection is gone.
    async fn quiesce(&self, _call: &CallInfo) -> Result<(), PluginError> {
        Ok(())
    }

    /// Leaves groups and disconnects. All deliveries are settled or released by then.
    async fn close(&self, _call: &CallInfo) {}
}

impl Delivery {
    /// A delivery with what names it when it is settled, where it came on, and what it holds.
    pub fn new(token: impl Into<Vec<u8>>, topic: impl Into<String>, payload: impl Into<Vec<u8>>) -> Self {
        Self {
            token: token.into(),
            id: None,
            position: None,
            group: None,
            topic: topic.into(),
            key: None,
            headers: Vec::new(),
            content_type: None,
            payload: payload.into(),
            omitted: None,
            tenant: None,
            event_type: None,
            event_version: None,
            correlation_id: None,
            causation_id: None,
            reply_to: None,
            occurred_at: None,
            delivery_count: None,
            deliveries_left: None,
            redelivered: false,
            settle_within: None,
            attributes: Vec::new(),
        }
    }

    /// With the sender's id.
    #[must_use]
    pub fn with_id(mut self, id: impl Into<String>) -> Self {
        self.id = Some(id.into());
        self
    }

    /// With its place at the broker: the same at a redelivery, another when the stream or topic was made anew.
    #[must_use]
    pub fn with_position(mut self, position: impl Into<String>) -> Self {
        self.position = Some(position.into());
        self
    }

    /// It can't be a message, for this reason: the host keeps what there is of it as a dead letter (`INVALID_OUTBOX`) and acknowledges it
    /// then.
    #[must_use]
    pub fn invalid(mut self, why: impl Into<String>) -> Self {
        self.attributes.push(("invalid".to_owned(), why.into()));
        self
    }

    /// Without its payload, which has more bytes than a `pull` may hand over.
    #[must_use]
    pub fn without_payload(mut self) -> Self {
        self.omitted = Some(u32::try_from(self.payload.len()).unwrap_or(u32::MAX));
        self.payload = Vec::new();
        self
    }
}

impl Pulled {
    /// These deliveries; `caught_up` if there are none.
    pub fn new(deliveries: Vec<Delivery>) -> Self {
        let caught_up = deliveries.is_empty();
        Self { deliveries, caught_up, notices: Notices::new() }
    }

    /// With what happened meanwhile.
    #[must_use]
    pub fn with_notices(mut self, notices: Notices) -> Self {
        self.notices = notices;
        self
    }
}

/// Messages were removed at the broker before they were read, and the operator wants to stop then ([`Overtaken::Stop`]).
pub fn overtaken(reason: impl Into<String>) -> PluginError {
    PluginError::new(ErrorKind::InvalidConfig, Fault::new("SOURCE.OVERTAKEN", reason))
}

impl Settled {
    /// For a disposition that the source's features don't name: the host keeps the retry itself.
    pub fn unsupported() -> Self {
        Self::Failed(Fault::new("PLUGIN.UNSUPPORTED", "the source can't settle so: its features don't name it"))
    }
}

/// Makes a type that implements [`Source`] the component's export. Call it once in a plugin.
#[macro_export]
macro_rules! export_source {
    ($plugin:ty) => {
        #[cfg(target_family = "wasm")]
        const _: () = {
            use $crate::source as sdk;
            use $crate::transport::{CallInfo, Health, HealthReport, OpenArgs, Opened, PluginError};
            ::std::thread_local! {
                static OPEN: $crate::slot::Slot<$plugin> = const { $crate::slot::Slot::new() };
            }
            struct Exported;
            impl sdk::Guest for Exported {
                async fn open(call: CallInfo, args: OpenArgs, wants: sdk::SourceArgs) -> Result<Opened, PluginError> {
                    let config = $crate::config::parse(&args.config)?;
                    let (plugin, opened) = <$plugin as sdk::Source>::open(&call, &args, &wants, config).await?;
                    OPEN.with(|slot| slot.put(plugin));
                    Ok(opened)
                }
                async fn pull(call: CallInfo, max: u32, max_bytes: u32, wait: u32) -> Result<sdk::Pulled, PluginError> {
                    let plugin = OPEN.with(|slot| slot.get())?;
                    sdk::Source::pull(&*plugin, &call, max, max_bytes, wait).await
                }
                async fn settle(
                    call: CallInfo,
                    items: ::std::vec::Vec<sdk::Settlement>,
                ) -> Result<::std::vec::Vec<sdk::Settled>, PluginError> {
                    let plugin = OPEN.with(|slot| slot.get())?;
                    sdk::Source::settle(&*plugin, &call, items).await
                }
                async fn health(call: CallInfo) -> HealthReport {
                    match OPEN.with(|slot| slot.get()) {
                        Ok(plugin) => sdk::Source::health(&*plugin, &call).await,
                        Err(error) => HealthReport::new(Health::Down, error.fault.reason),
                    }
                }
                async fn tick(call: CallInfo) -> Result<sdk::Notices, PluginError> {
                    let plugin = OPEN.with(|slot| slot.get())?;
                    sdk::Source::tick(&*plugin, &call).await
                }
                async fn quiesce(call: CallInfo) -> Result<(), PluginError> {
                    let plugin = OPEN.with(|slot| slot.get())?;
                    sdk::Source::quiesce(&*plugin, &call).await
                }
                async fn close(call: CallInfo) {
                    if let Some(plugin) = OPEN.with(|slot| slot.take()) {
                        sdk::Source::close(&*plugin, &call).await;
                    }
                }
            }
    sdk::bindings::export!(Exported with_types_in $crate::source::bindings);
        };
        #[cfg(not(target_family = "wasm"))]
        const _: fn() = || {
            fn is_a_source<T: $crate::source::Source>() {}
            is_a_source::<$plugin>();
        };
    };
}
