//! What the fixtures share: a configuration, ways to report, and a short form for those that only differ in `send-batch`.

use serde::Deserialize;
pub use waybill_plugin::transport::{
    CallInfo, ErrorKind, Fault, Health, HealthReport, Message, OpenArgs, Opened, Outcome, PluginError, Receipt,
    Transport,
};

/// What a test may tell a fixture. Each fixture reads what it needs.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// `host:port` of a server.
    pub address: String,
    /// How much of something.
    pub amount: usize,
    /// Names of things to try.
    pub names: Vec<String>,
}

/// Open with one call at a time.
pub fn opened() -> Opened {
    Opened { peer: Some("fixture".to_owned()), ..Opened::new() }
}

/// An acknowledgement whose receipt says what the fixture saw.
pub fn report(seen: impl Into<String>) -> Outcome {
    Outcome::Ack(Receipt::with_reference(seen))
}

/// An acknowledgement of each message.
pub fn acks(batch: &[Message]) -> Vec<Outcome> {
    batch.iter().map(|message| report(message.id.clone())).collect()
}

/// The same report for each message.
pub fn reports(batch: &[Message], seen: &str) -> Vec<Outcome> {
    batch.iter().map(|_| report(seen)).collect()
}

/// A transport that opens and then does this in `send-batch`: `on_send!(config, call, batch => { ... })`.
#[macro_export]
macro_rules! on_send {
    ($config:ident, $call:ident, $batch:ident => $body:block) => {
        waybill_plugin::manifest!("manifests/transport.toml");
        $crate::sends!($config, $call, $batch => $body);
    };
}

/// The same without a manifest.
#[macro_export]
macro_rules! sends {
    ($config:ident, $call:ident, $batch:ident => $body:block) => {
        waybill_plugin::export_transport!(Fixture);
        struct Fixture($crate::Config);
        impl $crate::Transport for Fixture {
            type Config = $crate::Config;
            async fn open(
                _: &$crate::CallInfo,
                _: &$crate::OpenArgs,
                config: $crate::Config,
            ) -> Result<(Self, $crate::Opened), $crate::PluginError> {
                Ok((Self(config), $crate::opened()))
            }
            async fn send_batch(
                &self,
                $call: &$crate::CallInfo,
                $batch: Vec<$crate::Message>,
            ) -> Result<Vec<$crate::Outcome>, $crate::PluginError> {
                let $config = &self.0;
                $body
            }
        }
    };
}

/// A transport that does this in `open` and acknowledges everything if it gets that far:
/// `on_open!(config => Result<Opened, PluginError>)`.
#[macro_export]
macro_rules! on_open {
    ($config:ident => $body:block) => {
        waybill_plugin::manifest!("manifests/transport.toml");
        waybill_plugin::export_transport!(Fixture);
        struct Fixture;
        impl $crate::Transport for Fixture {
            type Config = $crate::Config;
            #[allow(unreachable_code, reason = "one of them panics")]
            async fn open(
                _: &$crate::CallInfo,
                _: &$crate::OpenArgs,
                $config: $crate::Config,
            ) -> Result<(Self, $crate::Opened), $crate::PluginError> {
                let opened: Result<$crate::Opened, $crate::PluginError> = $body;
                Ok((Self, opened?))
            }
            async fn send_batch(
                &self,
                _: &$crate::CallInfo,
                batch: Vec<$crate::Message>,
            ) -> Result<Vec<$crate::Outcome>, $crate::PluginError> {
                Ok($crate::acks(&batch))
            }
        }
    };
}
