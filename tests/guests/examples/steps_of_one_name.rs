//! A participant that serves two steps of one name.
use guests::{CallInfo, Config, OpenArgs, Opened, PluginError};
use waybill_plugin::participant::{Done, Participant, Step, StepCall, StepError};

waybill_plugin::manifest!("manifests/participant.toml");
waybill_plugin::export_participant!(Fixture { First, Second });

struct Fixture;
impl Participant for Fixture {
    type Config = Config;
    async fn open(_: &CallInfo, _: &OpenArgs, _: Config) -> Result<(Self, Opened), PluginError> {
        Ok((Self, Opened::new()))
    }
}

struct First;
struct Second;
impl Step<Fixture> for First {
    const NAME: &'static str = "same";
    type Input = ();
    type Output = ();
    async fn execute(_: &Fixture, _: &StepCall, _: ()) -> Result<Done<()>, StepError> {
        Ok(().into())
    }
}
impl Step<Fixture> for Second {
    const NAME: &'static str = "same";
    type Input = ();
    type Output = ();
    async fn execute(_: &Fixture, _: &StepCall, _: ()) -> Result<Done<()>, StepError> {
        Ok(().into())
    }
}
