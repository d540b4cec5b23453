//! Well-behaved handler: its verdict on a message is the one that the payload names; `tell` leaves everything it was told behind, as a
//! message; `many` leaves more than is taken.
use guests::{CallInfo, Config, Fault, OpenArgs, Opened, PluginError};
use waybill_plugin::handler::{Handled, Handler, Inbound, Outgoing, SagaSignal, Verdict};

waybill_plugin::manifest!("manifests/handler.toml");
waybill_plugin::export_handler!(Fixture);

struct Fixture;
impl Handler for Fixture {
    type Config = Config;
    async fn open(_: &CallInfo, _: &OpenArgs, config: Config) -> Result<(Self, Opened), PluginError> {
        match config.address.as_str() {
            "denied" => Err(PluginError::denied("FIXTURE.DENIED", "as told")),
            _ => Ok((Self, Opened { max_batch: Some(10), ..Opened::new() })),
        }
    }
    async fn handle(&self, _: &CallInfo, message: Inbound) -> Verdict {
        let word: String = match message.json() {
            Ok(word) => word,
            Err(poison) => return poison,
        };
        match word.as_str() {
            "duplicate" => Verdict::Duplicate,
            "poison" => Verdict::poison("FIXTURE.NEVER", "as told"),
            "retry" => Verdict::Retry(Fault::new("FIXTURE.LATER", "as told").with_after(Some(2_000))),
            "busy" => Verdict::busy(Fault::new("FIXTURE.BUSY", "as told").with_after(Some(3_000))),
            "signal" => Handled::new().with_signal(SagaSignal::json("saga-1", "paid", &7)).into(),
            "many" => Handled { messages: vec![Outgoing::new("bus:many", ""); 1_001], ..Handled::new() }.into(),
            "blocked" => Verdict::blocked("stock", Fault::new("FIXTURE.DOWN", "as told")),
            "panic" => panic!("as told"),
            "tell" => Handled::new().with_message(Outgoing::new("bus:told", format!("{message:?}"))).into(),
            _ => Handled::new().into(),
        }
    }
}
