//! Steps that do nothing: `pass` is done and undone at once, `refuse` fails for good.

use serde::de::IgnoredAny;
use waybill_plugin::config::Empty;
use waybill_plugin::participant::{Done, Output, Participant, Step, StepCall, StepError, Undo};
use waybill_plugin::transport::{CallInfo, OpenArgs, Opened, PluginError};

waybill_plugin::manifest!();
waybill_plugin::export_participant!(Idle { Pass: Undo, Refuse });

struct Idle;

impl Participant for Idle {
    type Config = Empty;

    async fn open(_: &CallInfo, _: &OpenArgs, _: Empty) -> Result<(Self, Opened), PluginError> {
        Ok((Self, Opened::new()))
    }
}

struct Pass;

impl Step<Idle> for Pass {
    const NAME: &'static str = "pass";
    type Input = IgnoredAny;
    type Output = ();

    async fn execute(_: &Idle, _: &StepCall, _: IgnoredAny) -> Result<Done<()>, StepError> {
        Ok(().into())
    }
}

impl Undo<Idle> for Pass {
    async fn undo(_: &Idle, _: &StepCall, _: IgnoredAny, _: Option<()>) -> Result<Output<()>, StepError> {
        Ok(().into())
    }
}

struct Refuse;

impl Step<Idle> for Refuse {
    const NAME: &'static str = "refuse";
    type Input = IgnoredAny;
    type Output = ();

    async fn execute(_: &Idle, _: &StepCall, _: IgnoredAny) -> Result<Done<()>, StepError> {
        Err(StepError::permanent("IDLE.REFUSED", "it always refuses"))
    }
}
