//! A table: publishes the rows of an application's outbox table directly. A row is marked by the transaction that claimed it,
//! after the receiver's word; the host stores nothing.
//!
//! ```
//! use std::cell::RefCell;
//! use waybill_plugin::table::{
//!     Claim, ClaimArgs, Claimed, ClaimedRow, ContextStats, DeadPage, Ended, Fate, Found, Mark, Row, RowMessage, Table, TableArgs,
//! };
//! use waybill_plugin::transport::{CallInfo, OpenArgs, Opened, PluginError};
//!
//! /// A table in memory, of numbers that wait.
//! struct Numbers(RefCell<Vec<u32>>);
//!
//! impl Table for Numbers {
//!     type Config = waybill_plugin::config::Empty;
//!     async fn open(_: &CallInfo, _: &OpenArgs, _: &TableArgs, _: Self::Config) -> Result<(Self, Opened), PluginError> {
//!         Ok((Self(RefCell::new((0..100).collect())), Opened::new()))
//!     }
//!     async fn claim(&self, _: &CallInfo, args: ClaimArgs) -> Result<Claimed, PluginError> {
//!         let waiting = self.0.borrow();
//!         let rows: Vec<ClaimedRow> = waiting.iter().take(args.batch as usize).map(claimed).collect();
//!         Ok(if rows.is_empty() { Claimed::nothing(0) } else { Claimed::new(Claim(1), rows) })
//!     }
//!     async fn commit(&self, _: &CallInfo, _: Claim, marks: Vec<Mark>) -> Result<Ended, PluginError> {
//!         let published = |number: &u32| {
//!             marks.iter().any(|mark| mark.token == number.to_be_bytes() && mark.fate == Fate::Published)
//!         };
//!         self.0.borrow_mut().retain(|number| !published(number));
//!         Ok(Ended::Committed)
//!     }
//!     async fn stats(&self, _: &CallInfo) -> Result<Vec<ContextStats>, PluginError> {
//!         Ok(Vec::new())
//!     }
//!     async fn dead(&self, _: &CallInfo, _: Option<String>, _: u32) -> Result<DeadPage, PluginError> {
//!         Ok(DeadPage { rows: Vec::new(), next: None })
//!     }
//!     async fn replay(&self, _: &CallInfo, ids: Vec<String>) -> Result<Vec<bool>, PluginError> {
//!         Ok(vec![false; ids.len()])
//!     }
//! }
//!
//! fn claimed(number: &u32) -> ClaimedRow {
//!     let message = RowMessage::new(format!("outbox-{number}"), "bus:numbers", number.to_string());
//!     let (token, id) = (number.to_be_bytes().to_vec(), number.to_string());
//!     ClaimedRow { aggregate: id.clone(), found: Found::Locked(Row { token, id, attempts: 0, message: Ok(message) }) }
//! }
//!
//! waybill_plugin::export_table!(Numbers);
//! # fn main() {}
//! ```

use serde::de::DeserializeOwned;

pub use crate::inbound::{Notices, Token};
use crate::transport::{CallInfo, HealthReport, OpenArgs, Opened, PluginError};

/// The contract as generated from `wit/inbound/`: the export `table-api`.
#[allow(missing_docs, clippy::all, clippy::restriction)]
pub mod bindings {
    wit_bindgen::generate!({
        path: ["../../wit", "../../wit/inbound"],
        inline: "package waybill:sdk; world publishes { export waybill:inbound/table-api@0.1.0; }",
        world: "waybill:sdk/publishes",
        pub_export_macro: true,
        additional_derives: [PartialEq],
        with: {
            "waybill:plugin/types@0.1.0": crate::transport::bindings::waybill::plugin::types,
            "waybill:inbound/inbound-types@0.1.0": crate::inbound::bindings::waybill::inbound::inbound_types,
        },
    });
}

pub use bindings::exports::waybill::inbound::table_api::{
    Again, ClaimArgs, Claimed, ClaimedRow, ContextStats, DeadPage, DeadRow, Ended, Failed, Fate, Found, Guest, Mark,
    Row, RowMessage, TableArgs,
};

/// Names an open claim of this instance.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Claim(pub u32);

/// What a table does. One value lives from `open` to `close`; calls may overlap up to what [`Opened`] says, at each `await`,
/// hence `&self`. A claim needs a connection of its own until it is committed.
#[allow(async_fn_in_trait, reason = "an instance has one thread; nothing here can be `Send`")]
pub trait Table: Sized + 'static {
    /// The configuration document; [`crate::config::Empty`] if there is none.
    type Config: DeserializeOwned;

    /// Connects and reads the table's shape. Creates nothing.
    ///
    /// # Errors
    /// By class: what the host does next depends on it.
    async fn open(
        call: &CallInfo,
        args: &OpenArgs,
        wants: &TableArgs,
        config: Self::Config,
    ) -> Result<(Self, Opened), PluginError>;

    /// Begins a transaction and locks the rows that a lane sends next; with nothing locked, ends it at once.
    ///
    /// # Errors
    /// Nothing is locked.
    async fn claim(&self, call: &CallInfo, args: ClaimArgs) -> Result<Claimed, PluginError>;

    /// Marks rows, one statement for each kind of fate, and commits; without marks, gives the claim back.
    ///
    /// # Errors
    /// As [`Ended::Lost`].
    async fn commit(&self, call: &CallInfo, claim: Claim, marks: Vec<Mark>) -> Result<Ended, PluginError>;

    /// Counts and oldest by context.
    ///
    /// # Errors
    /// The database can't be asked.
    async fn stats(&self, call: &CallInfo) -> Result<Vec<ContextStats>, PluginError>;

    /// At most `max` rows that stand failed, from the beginning or from [`DeadPage::next`].
    ///
    /// # Errors
    /// The database can't be asked.
    async fn dead(&self, call: &CallInfo, page: Option<String>, max: u32) -> Result<DeadPage, PluginError>;

    /// Puts failed rows back to waiting, attempts 0: one answer an id, in order.
    ///
    /// # Errors
    /// None of them was put back.
    async fn replay(&self, call: &CallInfo, ids: Vec<String>) -> Result<Vec<bool>, PluginError>;

    /// Says how it is, by asking the database where that is cheap.
    async fn health(&self, _call: &CallInfo) -> HealthReport {
        HealthReport::ready()
    }

    /// Keeps the connection alive and tells what the database told; called at least every `opened.tick_every`.
    ///
    /// # Errors
    /// The connection is gone.
    async fn tick(&self, _call: &CallInfo) -> Result<Notices, PluginError> {
        Ok(Notices::new())
    }

    /// Disconnects. No claim is open by then.
    async fn close(&self, _call: &CallInfo) {}
}

impl RowMessage {
    /// A message with its id on the wire, its topic URI and what it holds.
    pub fn new(id: impl Into<String>, topic: impl Into<String>, payload: impl Into<Vec<u8>>) -> Self {
        Self {
            id: id.into(),
            tenant: None,
            topic: topic.into(),
            key: None,
            context: None,
            headers: Vec::new(),
            content_type: None,
            payload: payload.into(),
            event_type: None,
            event_version: None,
            envelope_id: None,
            correlation_id: None,
            causation_id: None,
            reply_to: None,
            occurred_at: None,
            attributes: Vec::new(),
        }
    }
}

impl Claimed {
    /// These rows, under an open claim; as many were looked at. `seen` is more where an aggregate's run ended before its last.
    pub fn new(claim: Claim, rows: Vec<ClaimedRow>) -> Self {
        Self { claim: Some(claim.0), refused: false, seen: u32::try_from(rows.len()).unwrap_or(u32::MAX), rows }
    }

    /// Nothing is locked, though `seen` waiting rows were looked at.
    pub fn nothing(seen: u32) -> Self {
        Self { claim: None, refused: false, seen, rows: Vec::new() }
    }

    /// Another session has the lane's lock.
    pub fn refused() -> Self {
        Self { refused: true, ..Self::nothing(0) }
    }
}

/// Makes a type that implements [`Table`] the component's export. Call it once in a plugin; beside `export_source!` where one
/// file does both (world `database`).
#[macro_export]
macro_rules! export_table {
    ($plugin:ty) => {
        #[cfg(target_family = "wasm")]
        const _: () = {
            use $crate::table as sdk;
            use $crate::transport::{CallInfo, Health, HealthReport, OpenArgs, Opened, PluginError};
            ::std::thread_local! {
                static OPEN: $crate::slot::Slot<$plugin> = const { $crate::slot::Slot::new() };
            }
            struct Exported;
            impl sdk::Guest for Exported {
                async fn open(call: CallInfo, args: OpenArgs, wants: sdk::TableArgs) -> Result<Opened, PluginError> {
                    let config = $crate::config::parse(&args.config)?;
                    let (plugin, opened) = <$plugin as sdk::Table>::open(&call, &args, &wants, config).await?;
                    OPEN.with(|slot| slot.put(plugin));
                    Ok(opened)
                }
                async fn claim(call: CallInfo, args: sdk::ClaimArgs) -> Result<sdk::Claimed, PluginError> {
                    let plugin = OPEN.with(|slot| slot.get())?;
                    sdk::Table::claim(&*plugin, &call, args).await
                }
                async fn commit(
                    call: CallInfo,
                    claim: u32,
                    marks: ::std::vec::Vec<sdk::Mark>,
                ) -> Result<sdk::Ended, PluginError> {
                    let plugin = OPEN.with(|slot| slot.get())?;
                    sdk::Table::commit(&*plugin, &call, sdk::Claim(claim), marks).await
                }
                async fn stats(call: CallInfo) -> Result<::std::vec::Vec<sdk::ContextStats>, PluginError> {
                    let plugin = OPEN.with(|slot| slot.get())?;
                    sdk::Table::stats(&*plugin, &call).await
                }
                async fn dead(
                    call: CallInfo,
                    page: ::std::option::Option<::std::string::String>,
                    max: u32,
                ) -> Result<sdk::DeadPage, PluginError> {
                    let plugin = OPEN.with(|slot| slot.get())?;
                    sdk::Table::dead(&*plugin, &call, page, max).await
                }
                async fn replay(
                    call: CallInfo,
                    ids: ::std::vec::Vec<::std::string::String>,
                ) -> Result<::std::vec::Vec<bool>, PluginError> {
                    let plugin = OPEN.with(|slot| slot.get())?;
                    sdk::Table::replay(&*plugin, &call, ids).await
                }
                async fn health(call: CallInfo) -> HealthReport {
                    match OPEN.with(|slot| slot.get()) {
                        Ok(plugin) => sdk::Table::health(&*plugin, &call).await,
                        Err(error) => HealthReport::new(Health::Down, error.fault.reason),
                    }
                }
                async fn tick(call: CallInfo) -> Result<sdk::Notices, PluginError> {
                    let plugin = OPEN.with(|slot| slot.get())?;
                    sdk::Table::tick(&*plugin, &call).await
                }
                async fn close(call: CallInfo) {
                    if let Some(plugin) = OPEN.with(|slot| slot.take()) {
                        sdk::Table::close(&*plugin, &call).await;
                    }
                }
            }
    sdk::bindings::export!(Exported with_types_in $crate::table::bindings);
        };
        #[cfg(not(target_family = "wasm"))]
        const _: fn() = || {
            fn is_a_table<T: $crate::table::Table>() {}
            is_a_table::<$plugin>();
        };
    };
}
