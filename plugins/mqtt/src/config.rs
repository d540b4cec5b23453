//! What an operator may set. The manifest's schema says the same for the host; here it becomes types.

use serde::Deserialize;
use waybill_mqtt_wire::keys::{self, Body, Protocol};
use waybill_mqtt_wire::topic::is_text;
use waybill_plugin::broker::{self, Common, Scheme, positive};
use waybill_plugin::transport::PluginError;

use crate::template::Template;

pub(crate) type Config = broker::Config<Keys>;

/// The keys beside those of every broker. Servers are tried in the order in which they are listed.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Keys {
    /// Template of a topic's name.
    topic: String,
    /// Which version is spoken.
    pub(crate) version: Protocol,
    /// Where the envelope goes.
    pub(crate) body: Body,
    /// Whether the server keeps the last message of each topic for those who subscribe later.
    pub(crate) retain: bool,
    /// What a message is that nobody has subscribed to.
    pub(crate) no_subscribers: NoSubscribers,
    /// Beginning of our clients' names; none = made of the transport's name.
    pub(crate) client_id: Option<String>,
    /// Milliseconds of silence that the server is asked to bear.
    #[serde(deserialize_with = "waybill_plugin::config::millis")]
    pub(crate) keep_alive: u32,
    /// Milliseconds of silence after which what isn't answered is given up for this time.
    #[serde(deserialize_with = "waybill_plugin::config::millis")]
    pub(crate) ack_timeout: u32,
}

/// What a message is that nobody has subscribed to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum NoSubscribers {
    /// Delivered.
    Accept,
    /// Held until somebody has.
    Hold,
}

impl Default for Keys {
    fn default() -> Self {
        Self {
            topic: "{destination}".to_owned(),
            version: Protocol::Auto,
            body: Body::Auto,
            retain: false,
            no_subscribers: NoSubscribers::Accept,
            client_id: None,
            keep_alive: keys::KEEP_ALIVE_MS,
            ack_timeout: 5_000,
        }
    }
}

impl broker::Keys for Keys {
    const SCHEME: Scheme = keys::SCHEME;

    fn check(&self, common: &Common) -> Result<(), PluginError> {
        self.template()?;
        positive(&[("keep_alive", self.keep_alive), ("ack_timeout", self.ack_timeout)])?;
        if self.client_id.as_deref().is_some_and(|id| !is_text(id)) {
            return Err(PluginError::invalid_config("client_id", "is too long, or holds a control character"));
        }
        keys::check(common, self.keep_alive)
    }
}

impl Keys {
    /// The name of a message's topic.
    pub(crate) fn template(&self) -> Result<Template, PluginError> {
        Template::parse(&self.topic).map_err(|why| PluginError::invalid_config("topic", &why))
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
        assert_eq!((config.common.connections, config.common.window, config.own.ack_timeout), (2, 256, 5_000));
        assert_eq!(config.addresses().unwrap().first().unwrap().uri(), "tcp://127.0.0.1:1883");
        assert_eq!((config.own.version, config.own.body, config.own.retain), (Protocol::Auto, Body::Auto, false));
        assert_eq!(checked(r#"{"version":"3.1.1"}"#).unwrap().own.version, Protocol::V311);
    }

    #[test]
    fn what_can_not_work_is_refused_with_its_place() {
        for (json, path) in [
            (r#"{"servers":["mqtt://a:1","mqtt://user:secret@a:1"]}"#, "servers[1]"),
            (r#"{"servers":["mqtts://a:1"],"tls":"off"}"#, "servers[0]"),
            (r#"{"topic":"{unknown}"}"#, "topic"),
            (r#"{"topic":"orders/#"}"#, "topic"),
            (r#"{"keep_alive":"24h"}"#, "keep_alive"),
            (r#"{"keep_alive":0}"#, "keep_alive"),
            (r#"{"client_id":"a\n"}"#, "client_id"),
            (r#"{"version":"3.1"}"#, "version"),
            (r#"{"no_subscribers":"drop"}"#, "no_subscribers"),
            (r#"{"qos":2}"#, "qos"),
        ] {
            assert_eq!(checked(json).unwrap_err(), path, "{json}");
        }
    }
}
