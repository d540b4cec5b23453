//! A participant: saga steps, each a type with a typed input and output.
//!
//! ```
//! use serde::{Deserialize, Serialize};
//! use waybill_plugin::participant::{Done, Output, Participant, Step, StepCall, StepError, Undo};
//! use waybill_plugin::transport::{CallInfo, OpenArgs, Opened, PluginError};
//!
//! struct Orders;
//!
//! impl Participant for Orders {
//!     type Config = waybill_plugin::config::Empty;
//!     async fn open(_: &CallInfo, _: &OpenArgs, _: Self::Config) -> Result<(Self, Opened), PluginError> {
//!         Ok((Self, Opened::new()))
//!     }
//! }
//!
//! #[derive(Deserialize)]
//! struct Order {
//!     sku: String,
//!     count: u32,
//! }
//! #[derive(Serialize, Deserialize)]
//! struct Hold {
//!     hold: String,
//! }
//!
//! /// Holds stock, and lets go of it again.
//! struct Reserve;
//!
//! impl Step<Orders> for Reserve {
//!     const NAME: &'static str = "reserve";
//!     const SUMMARY: &'static str = "Holds stock for an order.";
//!     type Input = Order;
//!     type Output = Hold;
//!     async fn execute(_: &Orders, call: &StepCall, order: Order) -> Result<Done<Hold>, StepError> {
//!         if order.count == 0 {
//!             return Err(StepError::permanent("ORDERS.EMPTY", format!("an order of no {}", order.sku)));
//!         }
//!         // The key is the same on every attempt: what it names is held once.
//!         Ok(Hold { hold: call.idempotency_key().to_owned() }.into())
//!     }
//! }
//!
//! impl Undo<Orders> for Reserve {
//!     async fn undo(_: &Orders, _: &StepCall, _: Order, hold: Option<Hold>) -> Result<Output<()>, StepError> {
//!         // None: nobody knows whether it was done.
//!         let _ = hold;
//!         Ok(().into())
//!     }
//! }
//!
//! waybill_plugin::export_participant!(Orders { Reserve: Undo });
//! # fn main() {}
//! ```
//!
//! An instance serves one call at a time and one tenant in its life; it may be dropped after any call. What must last belongs
//! in `kv` or in the output.
//!
//! - `call`: what the host says of one call; `output`: what a step answers
//! - `service`: asking a service over HTTP
//! - `export`: from the contract's bytes to a step's types and back, and the macros

mod call;
mod export;
mod output;
mod service;

use serde::Serialize;
use serde::de::DeserializeOwned;

pub use call::StepCall;
#[doc(hidden)]
pub use export::{describe, execute, not_served, opened, undo};
pub use output::{Done, Output};
pub use service::Service;

pub use crate::followup::{Outgoing, StreamEvent};
use crate::transport::{CallInfo, OpenArgs, Opened, PluginError};

/// The contract as generated from `wit/`: the export `participant-api`.
#[allow(missing_docs, clippy::all, clippy::restriction)]
pub mod bindings {
    wit_bindgen::generate!({
        path: "../../wit",
        inline: "package waybill:sdk; world participates { export waybill:plugin/participant-api@0.1.0; }",
        world: "waybill:sdk/participates",
        pub_export_macro: true,
        additional_derives: [PartialEq],
        with: { "waybill:plugin/types@0.1.0": crate::transport::bindings::waybill::plugin::types },
    });
}

pub use bindings::exports::waybill::plugin::participant_api::{
    Guest, Pending, StepContext, StepDone, StepError, StepInfo, StepOutput,
};

/// What all steps of a plugin share. One value lives from `open` to `close`.
#[allow(async_fn_in_trait, reason = "an instance has one thread; nothing here can be `Send`")]
pub trait Participant: Sized + 'static {
    /// The configuration document; [`crate::config::Empty`] if there is none.
    type Config: DeserializeOwned;

    /// Prepares an instance: reads secrets, connects.
    ///
    /// # Errors
    /// By class: what the host does next depends on it.
    async fn open(call: &CallInfo, args: &OpenArgs, config: Self::Config) -> Result<(Self, Opened), PluginError>;

    /// The last call of an instance: release what [`Self::open`] made. Does nothing by default.
    async fn close(&self, _call: &CallInfo) {}
}

/// One step of a participant `P`.
#[allow(async_fn_in_trait, reason = "an instance has one thread; nothing here can be `Send`")]
pub trait Step<P> {
    /// Its name in `fn:<participant>/<name>`: `[a-z][a-z0-9._-]*`.
    const NAME: &'static str;
    /// One line for people.
    const SUMMARY: &'static str = "";
    /// Repeating it with one idempotency key has one effect. If it can't, say `false`: a saga then stops for an operator instead of
    /// repeating it after an unknown result.
    const IDEMPOTENT: bool = true;
    /// What it is called with, as JSON.
    type Input: DeserializeOwned;
    /// What it answers, as JSON, and what [`Undo`] gets.
    type Output: Serialize + DeserializeOwned;

    /// Does it.
    ///
    /// # Errors
    /// [`StepError`] says whether to try again.
    async fn execute(plugin: &P, call: &StepCall, input: Self::Input) -> Result<Done<Self::Output>, StepError>;
}

/// A step that can be undone.
#[allow(async_fn_in_trait, reason = "an instance has one thread; nothing here can be `Send`")]
pub trait Undo<P>: Step<P> {
    /// Undoes it. `output` is what `execute` answered; none = unknown, it may or may not have had an effect. Undoing what was
    /// never done, or is undone already, is a success.
    ///
    /// # Errors
    /// [`StepError::Permanent`] leaves a stuck saga for an operator.
    async fn undo(
        plugin: &P,
        call: &StepCall,
        input: Self::Input,
        output: Option<Self::Output>,
    ) -> Result<Output<()>, StepError>;
}
