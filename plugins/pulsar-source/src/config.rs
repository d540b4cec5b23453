//! What an operator may set. The manifest's schema says the same for the host; here it becomes types.

use serde::Deserialize;
use waybill_plugin::broker::{self, Common, Order, Scheme, positive};
use waybill_plugin::transport::PluginError;
use waybill_pulsar_wire::topic::full_name;
use waybill_pulsar_wire::{Auth, Wanted, keys};

pub(crate) type Config = broker::Config<Keys>;

/// Longest name of a subscription or a consumer.
const NAME_BYTES_MAX: usize = 255;

/// The keys beside those of every broker.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Keys {
    /// In which order servers are tried.
    order: Order,
    /// Where the topic is if it is named without a namespace.
    namespace: String,
    /// The topic to read.
    topic: String,
    /// Under which name the broker keeps how far it is read.
    pub(crate) subscription: String,
    /// How consumers of the subscription share its messages.
    #[serde(rename = "type")]
    pub(crate) kind: Kind,
    /// Name of our consumers; none = made of the source's name and the instance's number.
    consumer: Option<String>,
    /// The name of the listener whose addresses brokers tell.
    pub(crate) listener: Option<String>,
    /// There is one broker, reached by the address in `servers`, whatever address it tells.
    pub(crate) single_broker: bool,
    /// How we log in.
    pub(crate) auth: Auth,
    /// Milliseconds of silence after which what isn't answered is given up for this time.
    #[serde(deserialize_with = "waybill_plugin::config::millis")]
    pub(crate) ack_timeout: u32,
    /// What is created when the operator asks for it.
    pub(crate) provision: Option<Wanted>,
}

/// How consumers of a subscription share its messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Kind {
    /// One consumer has all of it.
    Exclusive,
    /// Each message goes to one of them.
    Shared,
    /// Each partition goes to one of them, and to another when it is gone.
    Failover,
    /// Each key goes to one of them.
    KeyShared,
}

impl Kind {
    pub(crate) fn number(self) -> i32 {
        match self {
            Self::Exclusive => 0,
            Self::Shared => 1,
            Self::Failover => 2,
            Self::KeyShared => 3,
        }
    }

    /// Whether the broker counts deliveries, and gives single entries to others.
    pub(crate) fn is_shared(self) -> bool {
        matches!(self, Self::Shared | Self::KeyShared)
    }
}

impl Default for Keys {
    fn default() -> Self {
        Self {
            order: Order::Random,
            namespace: keys::NAMESPACE.to_owned(),
            topic: String::new(),
            subscription: String::new(),
            kind: Kind::Failover,
            consumer: None,
            listener: None,
            single_broker: false,
            auth: Auth::Auto,
            ack_timeout: 5_000,
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
        let wrong = |path: &str, why: &str| Err(PluginError::invalid_config(path, why));
        keys::check_namespace(&self.namespace)?;
        keys::check_tls(common)?;
        if self.topic.is_empty() {
            return wrong("topic", "is empty: name the topic to read");
        }
        if self.topic()?.starts_with("non-persistent://") {
            // All its messages have one position, so they can't be told apart, and the broker drops what isn't taken at once.
            return wrong("topic", "isn't kept by the brokers: a source reads persistent topics");
        }
        if self.subscription.is_empty() {
            return wrong("subscription", "is empty: name the subscription, which the broker keeps");
        }
        let names = [("subscription", Some(&self.subscription)), ("consumer", self.consumer.as_ref())];
        for (path, name) in names.into_iter().filter_map(|(path, name)| Some((path, name?))) {
            if name.len() > NAME_BYTES_MAX || name.chars().any(char::is_control) {
                return wrong(path, "is longer than 255 bytes, or holds a control character");
            }
        }
        positive(&[("ack_timeout", self.ack_timeout)])?;
        match &self.provision {
            Some(wanted) => wanted.check(&self.namespace),
            None => Ok(()),
        }
    }
}

impl Keys {
    /// The topic's whole name.
    ///
    /// # Errors
    /// It has none: [`broker::Keys::check`] says so before.
    pub(crate) fn topic(&self) -> Result<String, PluginError> {
        full_name(&self.topic, &self.namespace).map_err(|why| PluginError::invalid_config("topic", why))
    }

    /// Where topics are that are named without a namespace.
    pub(crate) fn namespace(&self) -> &str {
        &self.namespace
    }

    /// Name of our consumers.
    pub(crate) fn consumer(&self, source: &str, instance: u32) -> String {
        let name = self.consumer.clone().unwrap_or_else(|| format!("waybill {source}"));
        if instance == 0 { name } else { format!("{name} {instance}") }
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
    fn a_topic_and_a_subscription_are_enough() {
        let own = checked(r#"{"topic":"orders","subscription":"shop"}"#).unwrap().own;
        assert_eq!(own.topic().unwrap(), "persistent://public/default/orders");
        assert_eq!((own.kind, own.ack_timeout), (Kind::Failover, 5_000));
        assert_eq!([0, 1].map(|instance| own.consumer("shop", instance)), ["waybill shop", "waybill shop 1"]);
        let own = checked(r#"{"topic":"orders","subscription":"shop","type":"key-shared"}"#).unwrap().own;
        assert!(own.kind.is_shared() && own.kind.number() == 3);
    }

    #[test]
    fn what_can_not_work_is_refused_with_its_place() {
        let long = "s".repeat(256);
        for (json, path) in [
            (r#"{}"#, "topic"),
            (r#"{"topic":"orders"}"#, "subscription"),
            (r#"{"topic":"a b","subscription":"s"}"#, "topic"),
            (r#"{"topic":"non-persistent://a/b/c","subscription":"s"}"#, "topic"),
            (r#"{"topic":"a","subscription":"s","servers":["pulsar+ssl://a"],"tls":"off"}"#, "servers[0]"),
            (r#"{"topic":"a","subscription":"s","namespace":"x"}"#, "namespace"),
            (&format!(r#"{{"topic":"a","subscription":"{long}"}}"#), "subscription"),
            (r#"{"topic":"a","subscription":"s","consumer":"\u0000"}"#, "consumer"),
            (r#"{"topic":"a","subscription":"s","type":"round-robin"}"#, "type"),
            (r#"{"topic":"a","subscription":"s","ack_timeout":0}"#, "ack_timeout"),
            (r#"{"topic":"a","subscription":"s","provision":{}}"#, "provision.admin_url"),
            (r#"{"topics":["a"],"subscription":"s"}"#, "topics"),
        ] {
            assert_eq!(checked(json).unwrap_err(), path, "{json}");
        }
    }
}
