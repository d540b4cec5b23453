//! What an operator may set. The manifest's schema says the same for the host; here it becomes types.

use serde::Deserialize;
use waybill_plugin::broker::{self, Common, Order, Scheme, positive};
use waybill_plugin::transport::PluginError;
use waybill_pulsar_wire::{Auth, Hashing, Wanted, keys};

use crate::template::Template;

pub(crate) type Config = broker::Config<Keys>;

/// The keys beside those of every broker.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Keys {
    /// In which order servers are tried.
    order: Order,
    /// Where topics are that are named without a namespace.
    pub(crate) namespace: String,
    /// Template of a topic's name.
    topic: String,
    /// Which messages go into one entry.
    pub(crate) batching: Batching,
    /// Most messages of an entry.
    pub(crate) batch_messages: u32,
    /// Bytes of an entry after which no more are added.
    pub(crate) batch_bytes: u32,
    /// How a key becomes a partition.
    pub(crate) hashing: Hashing,
    /// The name of the listener whose addresses brokers tell.
    pub(crate) listener: Option<String>,
    /// There is one broker, reached by the address in `servers`, whatever address it tells.
    pub(crate) single_broker: bool,
    /// How we log in.
    pub(crate) auth: Auth,
    /// Milliseconds without an answer after which what isn't answered is tried again later.
    #[serde(deserialize_with = "waybill_plugin::config::millis")]
    pub(crate) ack_timeout: u32,
    /// What is created when the operator asks for it.
    pub(crate) provision: Option<Wanted>,
}

/// Which messages go into one entry. A broker hands an entry to one consumer as a whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Batching {
    /// Those of one key, and those without one.
    Key,
    /// All of a partition: faster, and in no order of keys at consumers that share a subscription by key.
    Partition,
    /// Each alone.
    Off,
}

impl Default for Keys {
    fn default() -> Self {
        Self {
            order: Order::Random,
            namespace: keys::NAMESPACE.to_owned(),
            topic: "{destination}".to_owned(),
            batching: Batching::Key,
            batch_messages: 1_000,
            batch_bytes: 128 * 1024,
            hashing: Hashing::JavaString,
            listener: None,
            single_broker: false,
            auth: Auth::Auto,
            ack_timeout: 20_000,
            provision: None,
        }
    }
}

impl broker::Keys for Keys {
    const SCHEME: Scheme = keys::SCHEME;

    fn order(&self) -> Order {
        self.order
    }

    fn check(&self, common: &Common) -> Result<(), PluginError> {
        self.template()?;
        positive(&[
            ("ack_timeout", self.ack_timeout),
            ("batch_messages", self.batch_messages),
            ("batch_bytes", self.batch_bytes),
        ])?;
        keys::check_namespace(&self.namespace)?;
        keys::check_tls(common)?;
        match &self.provision {
            Some(wanted) => wanted.check(&self.namespace),
            None => Ok(()),
        }
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
        assert_eq!(config.addresses().unwrap().first().unwrap().uri(), "tcp://127.0.0.1:6650");
        assert_eq!((config.own.batching, config.own.hashing), (Batching::Key, Hashing::JavaString));
        assert_eq!((config.own.namespace.as_str(), config.own.ack_timeout), ("public/default", 20_000));
    }

    #[test]
    fn what_can_not_work_is_refused_with_its_place() {
        for (json, path) in [
            (r#"{"servers":["pulsar://a","pulsar://user:secret@a"]}"#, "servers[1]"),
            (r#"{"servers":["http://a:8080"]}"#, "servers[0]"),
            (r#"{"servers":["pulsar+ssl://a"],"tls":"off"}"#, "servers[0]"),
            (r#"{"namespace":"public"}"#, "namespace"),
            (r#"{"topic":"{unknown}"}"#, "topic"),
            (r#"{"topic":""}"#, "topic"),
            (r#"{"batching":"all"}"#, "batching"),
            (r#"{"batch_messages":0}"#, "batch_messages"),
            (r#"{"batch_bytes":0}"#, "batch_bytes"),
            (r#"{"ack_timeout":"0s"}"#, "ack_timeout"),
            (r#"{"hashing":"md5"}"#, "hashing"),
            (r#"{"auth":"basic"}"#, "auth"),
            (r#"{"provision":{}}"#, "provision.admin_url"),
            (r#"{"url":"a"}"#, "url"),
        ] {
            assert_eq!(checked(json).unwrap_err(), path, "{json}");
        }
    }
}
