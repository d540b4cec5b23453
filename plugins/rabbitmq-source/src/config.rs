//! What an operator may set. The manifest's schema says the same for the host; here it becomes types.

use serde::Deserialize;
use waybill_plugin::broker::{self, Common, Order, Scheme, positive};
use waybill_plugin::transport::PluginError;
use waybill_rabbitmq_wire::{Auth, Wanted, keys, name};

pub(crate) type Config = broker::Config<Keys>;

/// What a quorum queue has where nobody set it, from this version of the server on.
const DELIVERY_LIMIT: u32 = 20;
const DELIVERY_LIMIT_SINCE: u32 = 4;

/// The keys beside those of every broker.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Keys {
    /// In which order servers are tried.
    order: Order,
    pub(crate) vhost: String,
    /// The queue to consume.
    pub(crate) queue: String,
    /// Name of our consumer; none = made of the source's name and the instance's number.
    #[serde(alias = "consumer_name")]
    pub(crate) consumer: Option<String>,
    /// Whether nobody else may consume the queue meanwhile.
    pub(crate) exclusive: bool,
    /// `x-delivery-limit` of a quorum queue, which AMQP doesn't tell; none = as the server has it by default.
    #[serde(alias = "max_deliver")]
    pub(crate) delivery_limit: Option<u32>,
    /// Milliseconds after which the server closes a channel with an unsettled delivery: its own setting of that name.
    #[serde(alias = "ack_wait", deserialize_with = "waybill_plugin::config::millis")]
    pub(crate) consumer_timeout: u32,
    /// How we log in.
    pub(crate) auth: Auth,
    /// Milliseconds of silence after which what isn't answered is given up for this time.
    #[serde(deserialize_with = "waybill_plugin::config::millis")]
    pub(crate) ack_timeout: u32,
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
            queue: String::new(),
            consumer: None,
            exclusive: false,
            delivery_limit: None,
            consumer_timeout: 30 * 60 * 1_000,
            auth: Auth::Auto,
            ack_timeout: 5_000,
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
        let wrong = |path: &str, why: &str| Err(PluginError::invalid_config(path, why));
        if self.queue.is_empty() {
            return wrong("queue", "is empty: name the queue to consume");
        }
        name(&self.queue).map_err(|why| PluginError::invalid_config("queue", why))?;
        if let Some(consumer) = &self.consumer {
            name(consumer).map_err(|why| PluginError::invalid_config("consumer", why))?;
        }
        positive(&[("consumer_timeout", self.consumer_timeout), ("ack_timeout", self.ack_timeout)])?;
        keys::check(self.heartbeat, &self.vhost)?;
        match &self.provision {
            Some(wanted) => wanted.check(keys::EXCHANGE),
            None => Ok(()),
        }
    }
}

impl Keys {
    /// Seconds between two heartbeats that we propose; 0 = none.
    pub(crate) fn heartbeat_seconds(&self) -> u16 {
        keys::heartbeat_seconds(self.heartbeat)
    }

    /// Name of our consumer on its channel.
    pub(crate) fn tag(&self, source: &str, instance: u32) -> String {
        let name = self.consumer.clone().unwrap_or_else(|| format!("waybill {source}"));
        if instance == 0 { name } else { format!("{name} {instance}") }
    }

    /// Redeliveries after which the server gives a message of a quorum queue up, as far as known. `peer` is its name and version.
    pub(crate) fn delivery_limit(&self, peer: &str) -> Option<u32> {
        let major = || peer.split(' ').next_back()?.split('.').next()?.parse::<u32>().ok();
        let by_default = || (major()? >= DELIVERY_LIMIT_SINCE).then_some(DELIVERY_LIMIT);
        self.delivery_limit.or_else(by_default)
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
    fn a_queue_is_enough_and_other_names_are_taken() {
        let config = checked(r#"{"queue":"orders"}"#).unwrap();
        assert_eq!((config.own.consumer_timeout, config.own.exclusive), (1_800_000, false));
        assert_eq!([0, 1].map(|instance| config.own.tag("shop", instance)), ["waybill shop", "waybill shop 1"]);
        let config = checked(r#"{"queue":"orders","consumer_name":"a","ack_wait":"5m","max_deliver":3}"#).unwrap();
        assert_eq!((config.own.tag("shop", 0).as_str(), config.own.consumer_timeout), ("a", 300_000));
        assert_eq!(config.own.delivery_limit("RabbitMQ 4.1.0"), Some(3));
    }

    #[test]
    fn newer_servers_have_a_limit_of_their_own() {
        let own = checked(r#"{"queue":"orders"}"#).unwrap().own;
        for (peer, expected) in [("RabbitMQ 3.10.8", None), ("RabbitMQ 4.0.2", Some(20)), ("LavinMQ", None), ("", None)]
        {
            assert_eq!(own.delivery_limit(peer), expected, "{peer}");
        }
    }

    #[test]
    fn what_can_not_work_is_refused_with_its_place() {
        let long = "q".repeat(256);
        for (json, path) in [
            (r#"{}"#, "queue"),
            (&format!(r#"{{"queue":"{long}"}}"#), "queue"),
            (r#"{"queue":"a","consumer":"a\u0000"}"#, "consumer"),
            (r#"{"queue":"a","consumer_timeout":"0s"}"#, "consumer_timeout"),
            (r#"{"queue":"a","heartbeat":"500ms"}"#, "heartbeat"),
            (r#"{"queue":"a","vhost":""}"#, "vhost"),
            (r#"{"queue":"a","provision":{"queues":[{"name":""}]}}"#, "provision.queues[0].name"),
            (r#"{"queue":"a","exchange":"b"}"#, "exchange"),
        ] {
            assert_eq!(checked(json).unwrap_err(), path, "{json}");
        }
    }
}
