//! A handler that tells verdicts on messages of calls that aren't its own, and, where the payload is `beyond`, on one that isn't in its
//! batch.
use guests::{CallInfo, Config, OpenArgs, Opened, PluginError};
use waybill_plugin::handler::{Handled, Handler, Inbound, Verdict};

waybill_plugin::manifest!("manifests/handler.toml");
waybill_plugin::export_handler!(Fixture);

struct Fixture;
impl Handler for Fixture {
    type Config = Config;
    async fn open(_: &CallInfo, _: &OpenArgs, _: Config) -> Result<(Self, Opened), PluginError> {
        Ok((Self, Opened::new()))
    }
    async fn handle(&self, call: &CallInfo, message: Inbound) -> Verdict {
        for id in [call.id.wrapping_add(1), call.id.wrapping_sub(1), u32::MAX] {
            CallInfo { id, ..call.clone() }.verdict(0, &Verdict::Duplicate);
        }
        if message.payload == b"beyond" {
            call.verdict(7, &Verdict::Duplicate);
        }
        Handled::new().into()
    }
}
