//! A participant whose step never comes back and never yields.
use guests::{CallInfo, Config, OpenArgs, Opened, PluginError};
use waybill_plugin::participant::{Done, Participant, Step, StepCall, StepError};

waybill_plugin::manifest!("manifests/participant.toml");
waybill_plugin::export_participant!(Fixture { Loop });

struct Fixture;
impl Participant for Fixture {
    type Config = Config;
    async fn open(_: &CallInfo, _: &OpenArgs, _: Config) -> Result<(Self, Opened), PluginError> {
        Ok((Self, Opened::new()))
    }
}

struct Loop;
impl Step<Fixture> for Loop {
    const NAME: &'static str = "loop";
    type Input = ();
    type Output = ();
    async fn execute(_: &Fixture, _: &StepCall, _: ()) -> Result<Done<()>, StepError> {
        loop {
            std::hint::spin_loop();
        }
    }
}
