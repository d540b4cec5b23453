//! From the contract's bytes to a step's types and back, and the macros that export a participant.

use std::rc::Rc;

use serde::de::DeserializeOwned;

use super::{Done, Output, Pending, Step, StepCall, StepDone, StepError, StepInfo, StepOutput, Undo};
use crate::followup::json;
use crate::slot::Slot;

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

/// Reads the input as the type of the step, and runs it. The macro calls this.
#[doc(hidden)]
pub async fn execute<P, S: Step<P>>(plugin: &P, call: &StepCall, input: &[u8]) -> Result<StepDone, StepError> {
    let input = read("input", "PLUGIN.STEP_INPUT", input)?;
    Ok(match S::execute(plugin, call, input).await? {
        Done::Output(output) => StepDone::Output(output.into_answer()),
        Done::Pending { signal, timeout, data } => StepDone::Pending(Pending { signal, timeout, data: json(&data) }),
    })
}

/// Reads input and output as the types of the step, and undoes it. The macro calls this.
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

/// The open participant, for a call that comes between `open` and `close`.
#[doc(hidden)]
pub fn opened<P>(slot: &Slot<P>) -> Result<Rc<P>, StepError> {
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
    use super::super::{Outgoing, StepContext};
    use super::*;
    use crate::transport::CallInfo;
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
