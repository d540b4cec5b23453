//! A participant whose step traps, doing and undoing; its step `fine` doesn't.
use guests::{CallInfo, Config, OpenArgs, Opened, PluginError};
use waybill_plugin::participant::{Done, Output, Participant, Step, StepCall, StepError, Undo};

waybill_plugin::manifest!("manifests/participant.toml");
waybill_plugin::export_participant!(Fixture { Panic: Undo, Fine });

struct Fixture;
impl Participant for Fixture {
    type Config = Config;
    async fn open(_: &CallInfo, _: &OpenArgs, _: Config) -> Result<(Self, Opened), PluginError> {
        Ok((Self, Opened::new()))
    }
}

struct Panic;
impl Step<Fixture> for Panic {
    const NAME: &'static str = "panic";
    type Input = ();
    type Output = ();
    async fn execute(_: &Fixture, _: &StepCall, _: ()) -> Result<Done<()>, StepError> {
        panic!("as told");
    }
}
impl Undo<Fixture> for Panic {
    async fn undo(_: &Fixture, _: &StepCall, _: (), _: Option<()>) -> Result<Output<()>, StepError> {
        panic!("as told");
    }
}

struct Fine;
impl Step<Fixture> for Fine {
    const NAME: &'static str = "fine";
    type Input = ();
    type Output = ();
    async fn execute(_: &Fixture, _: &StepCall, _: ()) -> Result<Done<()>, StepError> {
        Ok(().into())
    }
}
