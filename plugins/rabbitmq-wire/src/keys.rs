//! The keys of the configuration that every client of RabbitMQ has, beside those of every broker.

use waybill_plugin::broker::Scheme;
use waybill_plugin::transport::PluginError;

use crate::text::name;

/// How addresses of servers are written.
pub const SCHEME: Scheme = Scheme { plain: "amqp", tls: "amqps", port: 5672, tls_port: 5671 };
/// Milliseconds between two heartbeats that we propose, where the operator says nothing.
pub const HEARTBEAT_MS: u32 = 30_000;
/// The virtual host that every server has.
pub const VHOST: &str = "/";
/// An exchange that every server has, for topics.
pub const EXCHANGE: &str = "amq.topic";

/// Longest heartbeat: the protocol counts seconds in two bytes.
const HEARTBEAT_MS_MAX: u32 = 65_535_000;

/// Checks the keys `heartbeat` (milliseconds; 0 = none) and `vhost`.
///
/// # Errors
/// The first that AMQP can't say.
pub fn check(heartbeat: u32, vhost: &str) -> Result<(), PluginError> {
    let wrong = |path: &str, why: &str| Err(PluginError::invalid_config(path, why));
    if heartbeat != 0 && heartbeat < 1_000 {
        return wrong("heartbeat", "is less than a second, which AMQP can't say");
    }
    if heartbeat > HEARTBEAT_MS_MAX {
        return wrong("heartbeat", "is more than 65535 seconds, which AMQP can't say");
    }
    if vhost.is_empty() {
        return wrong("vhost", "is empty: the usual one is \"/\"");
    }
    name(vhost).map(|_| ()).map_err(|why| PluginError::invalid_config("vhost", why))
}

/// Seconds between two heartbeats that we propose; 0 = none.
pub fn heartbeat_seconds(millis: u32) -> u16 {
    u16::try_from(millis / 1_000).unwrap_or(u16::MAX)
}
