//! What an operator may set. The manifest's schema says the same for the host; here it becomes types.

use serde::Deserialize;
use waybill_plugin::broker::{self, Common, Order, Scheme, positive};
use waybill_plugin::transport::PluginError;
use waybill_rabbitmq_wire::{Auth, Wanted, keys};

use crate::routing::{Routing, Rule, Unroutable};

pub(crate) type Config = broker::Config<Keys>;

/// The keys beside those of every broker.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Keys {
    /// In which order servers are tried.
    order: Order,
    pub(crate) vhost: String,
    /// Where messages go; empty = the default exchange, whose routing keys are names of queues.
    exchange: String,
    /// Template of the routing key.
    routing_key: String,
    /// Other ways for some destinations; the first that takes one wins.
    rules: Vec<Rule>,
    /// What becomes of a message that no queue takes.
    unroutable: Unroutable,
    /// Whether the server keeps messages on disk.
    pub(crate) persistent: bool,
    /// How we log in.
    pub(crate) auth: Auth,
    /// Largest payload that the server takes, in bytes; none = unknown.
    pub(crate) max_message_bytes: Option<u32>,
    /// Milliseconds without a confirm after which what isn't confirmed is given up for this time.
    #[serde(deserialize_with = "waybill_plugin::config::millis")]
    pub(crate) confirm_timeout: u32,
    /// Milliseconds between two heartbeats, at most; 0 = none.
    #[serde(deserialize_with = "waybill_plugin::config::millis")]
    heartbeat: u32,
    /// What is created at the server when the operator asks for it.
    pub(crate) provision: Option<Wanted>,
}

impl Default for Keys {
    fn default() -> Self {
        Self {
            order: Order::Random,
            vhost: keys::VHOST.to_owned(),
            exchange: keys::EXCHANGE.to_owned(),
            routing_key: "{destination}".to_owned(),
            rules: Vec::new(),
            unroutable: Unroutable::Block,
            persistent: true,
            auth: Auth::Auto,
            max_message_bytes: None,
            confirm_timeout: 20_000,
            heartbeat: keys::HEARTBEAT_MS,
            provision: None,
        }
    }
}

impl broker::Keys for Keys {
    const SCHEME: Scheme = keys::SCHEME;

    fn order(&self) -> Order {
        self.order
    }

    fn check(&self, _: &Common) -> Result<(), PluginError> {
        self.routing()?;
        positive(&[
            ("confirm_timeout", self.confirm_timeout),
            ("max_message_bytes", self.max_message_bytes.unwrap_or(1)),
        ])?;
        keys::check(self.heartbeat, &self.vhost)?;
        match &self.provision {
            Some(wanted) => wanted.check(&self.exchange),
            None => Ok(()),
        }
    }
}

impl Keys {
    /// The rules, read and checked.
    pub(crate) fn routing(&self) -> Result<Routing, PluginError> {
        Routing::new(&self.rules, &self.exchange, &self.routing_key, self.unroutable)
            .map_err(|(path, why)| PluginError::invalid_config(&path, why))
    }

    /// Seconds between two heartbeats that we propose; 0 = none.
    pub(crate) fn heartbeat_seconds(&self) -> u16 {
        keys::heartbeat_seconds(self.heartbeat)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn checked(json: &str) -> Result<Config, String> {
        let config: Config = waybill_plugin::config::parse(json).map_err(|error| error.path)?;
        config.check().map_err(|error| error.fault.attributes.into_iter().map(|(_, path)| path).collect::<String>())?;
        Ok(config)
    }

    #[test]
    fn an_empty_document_is_the_defaults() {
        let config = checked("{}").unwrap();
        assert_eq!((config.common.connections, config.common.window, config.own.heartbeat_seconds()), (2, 256, 30));
        assert_eq!((config.own.vhost.as_str(), config.own.routing().unwrap().exchange()), ("/", "amq.topic"));
        assert_eq!(config.addresses().unwrap().first().unwrap().uri(), "tcp://127.0.0.1:5672");
        assert_eq!(checked(r#"{"heartbeat":0}"#).unwrap().own.heartbeat_seconds(), 0);
    }

    #[test]
    fn what_can_not_work_is_refused_with_its_place() {
        for (json, path) in [
            (r#"{"servers":[]}"#, "servers"),
            (r#"{"servers":["amqp://a:1","amqp://user:secret@a:1"]}"#, "servers[1]"),
            (r#"{"servers":["amqp://a:1/vhost"]}"#, "servers[0]"),
            (r#"{"window":0}"#, "window"),
            (r#"{"connections":0}"#, "connections"),
            (r#"{"confirm_timeout":"0s"}"#, "confirm_timeout"),
            (r#"{"heartbeat":"500ms"}"#, "heartbeat"),
            (r#"{"heartbeat":"20h"}"#, "heartbeat"),
            (r#"{"vhost":""}"#, "vhost"),
            (r#"{"exchange":"a\u0000"}"#, "exchange"),
            (r#"{"routing_key":"{nothing}"}"#, "routing_key"),
            (r#"{"rules":[{"match":"a."}]}"#, "rules[0].match"),
            (r#"{"rules":[{"exchange":"a"}]}"#, "rules[0]"),
            (r#"{"unroutable":"drop"}"#, "unroutable"),
            (r#"{"auth":"magic"}"#, "auth"),
            (r#"{"tls":"maybe"}"#, "tls"),
            (r#"{"server":"a"}"#, "server"),
            (r#"{"max_message_bytes":0}"#, "max_message_bytes"),
        ] {
            assert_eq!(checked(json).unwrap_err(), path, "{json}");
        }
    }
}
