//! What an operator may set. The manifest's schema says the same for the host; here it becomes types.

use serde::Deserialize;
use waybill_kafka_wire::provision::Wanted;
use waybill_kafka_wire::{self as wire, Sasl};
use waybill_plugin::broker::{self, Common, Order, Scheme, positive};
use waybill_plugin::transport::PluginError;

pub(crate) type Config = broker::Config<Keys>;

/// Longest name of a topic: with a partition and an offset behind it, it names groups.
const NAME_BYTES_MAX: usize = 249;

/// The keys beside those of every broker.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Keys {
    /// In which order servers are tried.
    order: Order,
    /// The topics that are read.
    pub(crate) topics: Vec<String>,
    pub(crate) group: String,
    /// Our static name in the group; none = made of the source's name.
    member: Option<String>,
    /// Milliseconds without a sign of life after which the group gives a member's partitions to others.
    #[serde(deserialize_with = "waybill_plugin::config::millis")]
    pub(crate) session_timeout: u32,
    /// Header with the sender's id.
    pub(crate) id_header: String,
    /// Most bytes of one fetch.
    pub(crate) fetch_bytes: u32,
    /// How servers are told who we are.
    pub(crate) sasl: Sasl,
    /// Milliseconds for one answer of a server.
    #[serde(deserialize_with = "waybill_plugin::config::millis")]
    pub(crate) ack_timeout: u32,
    /// Topics as they are provisioned; those that are left out are made as the server likes.
    pub(crate) provision: Vec<Wanted>,
}

impl Default for Keys {
    fn default() -> Self {
        Self {
            order: Order::Random,
            topics: Vec::new(),
            group: "waybill".to_owned(),
            member: None,
            session_timeout: 30_000,
            id_header: "id".to_owned(),
            fetch_bytes: 1_048_576,
            sasl: Sasl::Auto,
            ack_timeout: 10_000,
            provision: Vec::new(),
        }
    }
}

impl broker::Keys for Keys {
    const SCHEME: Scheme = wire::SCHEME;

    fn order(&self) -> Order {
        self.order
    }

    fn check(&self, _: &Common) -> Result<(), PluginError> {
        let wrong = |path: &str, why: &str| Err(PluginError::invalid_config(path, why));
        positive(&[
            ("session_timeout", self.session_timeout),
            ("fetch_bytes", self.fetch_bytes),
            ("ack_timeout", self.ack_timeout),
        ])?;
        if self.topics.is_empty() {
            return wrong("topics", "is empty: name at least one topic");
        }
        let known = |letter: char| letter.is_ascii_alphanumeric() || "._-".contains(letter);
        for (place, topic) in self.topics.iter().enumerate() {
            if topic.is_empty() || topic.len() > NAME_BYTES_MAX || !topic.chars().all(known) {
                let why = "is no name of a topic: letters, digits, `.`, `_` and `-`, at most 249";
                return wrong(&format!("topics[{place}]"), why);
            }
        }
        let member = self.member.as_deref().unwrap_or("a");
        for (path, name) in [("group", self.group.as_str()), ("member", member), ("id_header", &self.id_header)] {
            if name.is_empty() || name.chars().any(char::is_control) {
                return wrong(path, "is empty or holds a control character: name it");
            }
        }
        Ok(())
    }
}

impl Keys {
    /// Our name in the group. It stays the same over restarts, so that the group gives us what we had.
    pub(crate) fn member(&self, source: &str, instance: u32) -> String {
        let name = self.member.clone().unwrap_or_else(|| format!("waybill-{source}"));
        // Kafka takes the letters of a topic's name here.
        let name = name.replace(|letter: char| !letter.is_ascii_alphanumeric() && !"._-".contains(letter), "-");
        format!("{name}-{instance}")
    }

    /// Topics as they are provisioned.
    pub(crate) fn wanted(&self) -> Vec<Wanted> {
        let plain = |name: &String| Wanted {
            name: name.clone(),
            partitions: None,
            replicas: None,
            settings: std::collections::BTreeMap::new(),
        };
        let described = |name: &&String| !self.provision.iter().any(|wanted| wanted.name == **name);
        self.provision.iter().cloned().chain(self.topics.iter().filter(described).map(plain)).collect()
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
    fn a_topic_is_enough_and_instances_have_names_of_their_own() {
        let config = checked(r#"{"topics":["orders"]}"#).unwrap();
        assert_eq!(config.own.group, "waybill");
        assert_eq!([0, 1].map(|instance| config.own.member("a b", instance)), ["waybill-a-b-0", "waybill-a-b-1"]);
        assert_eq!(config.own.wanted().len(), 1);
    }

    #[test]
    fn what_can_not_work_is_refused_with_its_place() {
        for (json, path) in [
            (r#"{}"#, "topics"),
            (r#"{"topics":["a","b c"]}"#, "topics[1]"),
            (r#"{"topics":["a"],"group":""}"#, "group"),
            (r#"{"topics":["a"],"member":"a\nb"}"#, "member"),
            (r#"{"topics":["a"],"session_timeout":"0s"}"#, "session_timeout"),
            (r#"{"topics":["a"],"topic":"b"}"#, "topic"),
        ] {
            assert_eq!(checked(json).unwrap_err(), path, "{json}");
        }
    }
}
