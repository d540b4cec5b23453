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

use serde::Serialize;
use serde::de::DeserializeOwned;

pub use crate::followup::{Outgoing, StreamEvent};
use crate::slot::Slot;
use crate::transport::{Block, CallInfo, Fault, OpenArgs, Opened, PluginError};

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

    /// Says goodbye.
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

/// One call of a step: what the host says about it.
#[derive(Clone, Debug)]
pub struct StepCall {
    /// The call, for `control`.
    pub info: CallInfo,
    /// In which saga, for which step.
    pub context: StepContext,
}

impl StepCall {
    /// Pass it on as Idempotency-Key: the same on every attempt of this step in this saga and direction.
    pub fn idempotency_key(&self) -> &str {
        &self.context.idempotency_key
    }

    /// Whose saga it is.
    pub fn tenant(&self) -> &str {
        &self.context.tenant
    }

    /// Above 1 it may have been done already.
    pub fn attempt(&self) -> u32 {
        self.context.attempt
    }

    /// The first header of a name, whatever its case.
    pub fn header(&self, name: &str) -> Option<&str> {
        let found = self.context.headers.iter().find(|(key, _)| key.eq_ignore_ascii_case(name));
        found.map(|(_, value)| value.as_str())
    }

    /// When the answer has to be on its way.
    pub fn deadline(&self) -> crate::deadline::Deadline {
        crate::deadline::Deadline::of_call(self.info.timeout)
    }
}

/// What a step answers with what it leaves behind.
#[derive(Clone, Debug, PartialEq)]
pub struct Output<T> {
    data: T,
    messages: Vec<Outgoing>,
    events: Vec<StreamEvent>,
}

impl<T> From<T> for Output<T> {
    fn from(data: T) -> Self {
        Self { data, messages: Vec::new(), events: Vec::new() }
    }
}

impl<T> Output<T> {
    /// With a message to enqueue in the commit that records the step.
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
}

impl<T: Serialize> Output<T> {
    fn into_answer(self) -> StepOutput {
        StepOutput {
            data: crate::followup::json(&self.data),
            content_type: None,
            messages: self.messages,
            events: self.events,
            attributes: Vec::new(),
        }
    }
}

/// How a step ended well.
#[derive(Clone, Debug, PartialEq)]
pub enum Done<T> {
    /// Done.
    Output(Output<T>),
    /// Accepted, not done yet: a signal of this name completes it, within so many milliseconds (none = the step's timeout). The
    /// value is what [`Undo`] gets if it never comes.
    Pending {
        /// Name of the signal.
        signal: String,
        /// Milliseconds.
        timeout: Option<u32>,
        /// Known so far.
        data: T,
    },
}

impl<T> From<T> for Done<T> {
    fn from(data: T) -> Self {
        Self::Output(data.into())
    }
}

impl<T> From<Output<T>> for Done<T> {
    fn from(output: Output<T>) -> Self {
        Self::Output(output)
    }
}

impl StepError {
    /// Try again later. Nothing has happened; if that isn't known, see [`StepError::unknown`].
    pub fn retryable(code: impl Into<String>, reason: impl Into<String>) -> Self {
        Self::Retryable(Fault::new(code, reason))
    }

    /// Try again later: it may have happened all the same (the request was sent, the answer is missing).
    pub fn unknown(code: impl Into<String>, reason: impl Into<String>) -> Self {
        Self::Retryable(Fault::new(code, reason).with_maybe_delivered(true))
    }

    /// Will never succeed: compensate.
    pub fn permanent(code: impl Into<String>, reason: impl Into<String>) -> Self {
        Self::Permanent(Fault::new(code, reason))
    }

    /// What the step needs is at fault: hold every step of this scope, count no attempt.
    pub fn blocked(scope: impl Into<String>, fault: Fault) -> Self {
        Self::Blocked(Block { scope: scope.into(), fault })
    }
}

/// What the host is told of a step.
#[doc(hidden)]
pub fn describe<P, S: Step<P>>(compensates: bool) -> StepInfo {
    StepInfo {
        name: S::NAME.to_owned(),
        compensates,
        idempotent: S::IDEMPOTENT,
        summary: S::SUMMARY.to_owned(),
        attributes: Vec::new(),
    }
}

/// Runs one step.
#[doc(hidden)]
pub async fn execute<P, S: Step<P>>(plugin: &P, call: &StepCall, input: &[u8]) -> Result<StepDone, StepError> {
    let input = read("input", "PLUGIN.STEP_INPUT", input)?;
    Ok(match S::execute(plugin, call, input).await? {
        Done::Output(output) => StepDone::Output(output.into_answer()),
        Done::Pending { signal, timeout, data } => {
            StepDone::Pending(Pending { signal, timeout, data: crate::followup::json(&data) })
        }
    })
}

/// Undoes one step.
#[doc(hidden)]
pub async fn undo<P, S: Undo<P>>(
    plugin: &P,
    call: &StepCall,
    input: &[u8],
    output: Option<&[u8]>,
) -> Result<StepOutput, StepError> {
    let input = read("input", "PLUGIN.STEP_INPUT", input)?;
    let output = output.map(|output| read("output", "PLUGIN.STEP_OUTPUT", output)).transpose()?;
    S::undo(plugin, call, input, output).await.map(Output::into_answer)
}

/// JSON as the step's type. Another try would read the same, so a mismatch is final.
fn read<T: DeserializeOwned>(what: &str, code: &str, bytes: &[u8]) -> Result<T, StepError> {
    let text = std::str::from_utf8(bytes).map_err(|_| StepError::permanent(code, format!("the {what} isn't UTF-8")))?;
    crate::config::parse(text)
        .map_err(|wrong| StepError::permanent(code, format!("the {what} at `{}`: {}", wrong.path, wrong.reason)))
}

/// For a name that isn't served, or can't be undone: the host knows, and doesn't ask.
#[doc(hidden)]
pub fn not_served(name: &str) -> StepError {
    StepError::permanent("PLUGIN.NO_STEP", format!("there is no step {name:?} to be done or undone so"))
}

/// The open participant.
#[doc(hidden)]
pub fn opened<P>(slot: &Slot<P>) -> Result<std::rc::Rc<P>, StepError> {
    slot.get().map_err(|error| StepError::Retryable(error.fault))
}

/// Makes a type that implements [`Participant`] the component's export, with its steps:
/// `export_participant!(Orders { Reserve: Undo, Notify })`. `: Undo` is written behind a step that implements [`Undo`]. Call it
/// once in a plugin.
#[macro_export]
macro_rules! export_participant {
    ($plugin:ty { $($step:ident $(: $undo:ident)?),+ $(,)? }) => {
        #[cfg(target_family = "wasm")]
        const _: () = {
            use $crate::participant as sdk;
            use $crate::transport::{CallInfo, OpenArgs, Opened, PluginError};
            ::std::thread_local! {
                static OPEN: $crate::slot::Slot<$plugin> = const { $crate::slot::Slot::new() };
            }
            struct Exported;
            impl sdk::Guest for Exported {
                fn steps() -> ::std::vec::Vec<sdk::StepInfo> {
                    ::std::vec![$($crate::__step!(describe $plugin, $step $(, $undo)?)),+]
                }
                async fn open(call: CallInfo, args: OpenArgs) -> Result<Opened, PluginError> {
                    let config = $crate::config::parse(&args.config)?;
                    let (plugin, opened) = <$plugin as sdk::Participant>::open(&call, &args, config).await?;
                    OPEN.with(|slot| slot.put(plugin));
                    Ok(opened)
                }
                async fn execute(
                    info: CallInfo,
                    name: ::std::string::String,
                    context: sdk::StepContext,
                    input: ::std::vec::Vec<u8>,
                ) -> Result<sdk::StepDone, sdk::StepError> {
                    let plugin = OPEN.with(|slot| sdk::opened(slot))?;
                    let call = sdk::StepCall { info, context };
                    $(
                        if name == <$step as sdk::Step<$plugin>>::NAME {
                            return sdk::execute::<$plugin, $step>(&plugin, &call, &input).await;
                        }
                    )+
                    Err(sdk::not_served(&name))
                }
                async fn compensate(
                    info: CallInfo,
                    name: ::std::string::String,
                    context: sdk::StepContext,
                    input: ::std::vec::Vec<u8>,
                    output: ::std::option::Option<::std::vec::Vec<u8>>,
                ) -> Result<sdk::StepOutput, sdk::StepError> {
                    let plugin = OPEN.with(|slot| sdk::opened(slot))?;
                    let call = sdk::StepCall { info, context };
                    $(
                        if name == <$step as sdk::Step<$plugin>>::NAME {
                            return $crate::__step!(undo $plugin, $step, (plugin, call, name, input, output) $(, $undo)?);
                        }
                    )+
                    Err(sdk::not_served(&name))
                }
                async fn close(call: CallInfo) {
                    if let Some(plugin) = OPEN.with(|slot| slot.take()) {
                        sdk::Participant::close(&*plugin, &call).await;
                    }
                }
            }
    sdk::bindings::export!(Exported with_types_in $crate::participant::bindings);
        };
        #[cfg(not(target_family = "wasm"))]
        const _: fn() = || {
            fn is_a_participant<T: $crate::participant::Participant>() {}
            is_a_participant::<$plugin>();
            $($crate::__step!(check $plugin, $step $(, $undo)?);)+
        };
    };
}

/// What [`export_participant!`] does for one step, with or without [`Undo`].
#[doc(hidden)]
#[macro_export]
macro_rules! __step {
    (describe $plugin:ty, $step:ident) => {
        $crate::participant::describe::<$plugin, $step>(false)
    };
    (describe $plugin:ty, $step:ident, Undo) => {
        $crate::participant::describe::<$plugin, $step>(true)
    };
    (undo $plugin:ty, $step:ident, ($plug:ident, $call:ident, $name:ident, $input:ident, $output:ident)) => {
        Err($crate::participant::not_served(&$name))
    };
    (undo $plugin:ty, $step:ident, ($plug:ident, $call:ident, $name:ident, $input:ident, $output:ident), Undo) => {
        $crate::participant::undo::<$plugin, $step>(&$plug, &$call, &$input, $output.as_deref()).await
    };
    (check $plugin:ty, $step:ident) => {{
        fn is_a_step<P, T: $crate::participant::Step<P>>() {}
        is_a_step::<$plugin, $step>();
    }};
    (check $plugin:ty, $step:ident, Undo) => {{
        fn can_be_undone<P, T: $crate::participant::Undo<P>>() {}
        can_be_undone::<$plugin, $step>();
    }};
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic)]
    use super::*;
    use std::future::Future;
    use std::task::{Context, Poll, Waker};

    struct Shop;
    struct Count;

    impl Step<Shop> for Count {
        const NAME: &'static str = "count";
        type Input = u32;
        type Output = u64;
        async fn execute(_: &Shop, call: &StepCall, input: u32) -> Result<Done<u64>, StepError> {
            match input {
                0 => Err(StepError::permanent("COUNT.NONE", "nothing to count")),
                9 => Ok(Done::Pending { signal: "counted".to_owned(), timeout: None, data: 9 }),
                _ => Ok(Output::from(u64::from(input) * 2)
                    .with_message(Outgoing::json("bus:counted", &call.tenant()))
                    .into()),
            }
        }
    }

    impl Undo<Shop> for Count {
        async fn undo(_: &Shop, _: &StepCall, _: u32, output: Option<u64>) -> Result<Output<()>, StepError> {
            output.map(|_| ().into()).ok_or_else(|| StepError::unknown("COUNT.UNKNOWN", "was it counted?"))
        }
    }

    fn call() -> StepCall {
        StepCall {
            info: CallInfo { id: 1, timeout: 1_000, traceparent: None, attributes: Vec::new() },
            context: StepContext {
                saga_id: "s".to_owned(),
                definition: "d".to_owned(),
                definition_version: 1,
                tenant: "acme".to_owned(),
                step: "count".to_owned(),
                idempotency_key: "s/count/execute".to_owned(),
                attempt: 1,
                envelope_id: None,
                correlation_id: None,
                saga_deadline: None,
                headers: vec![("X-Shop".to_owned(), "berlin".to_owned())],
                attributes: Vec::new(),
            },
        }
    }

    /// Steps of these tests never wait.
    fn now<T>(work: impl Future<Output = T>) -> T {
        match std::pin::pin!(work).poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(done) => done,
            Poll::Pending => panic!("it waits"),
        }
    }

    #[test]
    fn input_and_output_are_json() {
        let StepDone::Output(output) = now(execute::<Shop, Count>(&Shop, &call(), b"21")).unwrap() else { panic!() };
        assert_eq!(output.data, b"42");
        assert_eq!(output.messages[0].payload, b"\"acme\"");
        let StepDone::Pending(pending) = now(execute::<Shop, Count>(&Shop, &call(), b"9")).unwrap() else { panic!() };
        assert_eq!((pending.signal.as_str(), pending.data.as_slice()), ("counted", b"9".as_slice()));
        assert_eq!(now(undo::<Shop, Count>(&Shop, &call(), b"21", Some(b"42"))).unwrap().data, b"null");
    }

    #[test]
    fn what_cannot_be_read_is_final_and_says_where() {
        for (input, output) in [(b"\"x\"".as_slice(), None), (b"\xff", None), (b"1", Some(b"{}".as_slice()))] {
            let Err(StepError::Permanent(fault)) = now(undo::<Shop, Count>(&Shop, &call(), input, output)) else {
                panic!("{input:?}")
            };
            assert!(fault.code.starts_with("PLUGIN.STEP_"), "{fault:?}");
        }
        assert!(matches!(now(execute::<Shop, Count>(&Shop, &call(), b"0")), Err(StepError::Permanent(_))));
        let Err(StepError::Retryable(fault)) = now(undo::<Shop, Count>(&Shop, &call(), b"1", None)) else { panic!() };
        assert!(fault.maybe_delivered);
    }

    #[test]
    fn a_step_is_described_by_its_constants() {
        let info = describe::<Shop, Count>(true);
        assert_eq!((info.name.as_str(), info.compensates, info.idempotent), ("count", true, true));
        assert_eq!(call().header("x-shop"), Some("berlin"));
    }
}
