//! What a relay's transport speaks, and the names that events have there.

/// Where the source document publishes events: a topic of Kafka and Pulsar, an exchange of RabbitMQ.
pub const SOURCE_TOPIC: &str = "sms.events.v1";

/// What a relay's transport speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Broker {
    /// CloudEvents, each by a request of its own.
    Http,
    Nats,
    RabbitMq,
    /// Streams of Redis, not its channels.
    Redis,
    Kafka,
    Pulsar,
    /// A plugin that the host knows nothing of.
    Other,
}

impl Broker {
    /// By the name of a bundled plugin. One from a file or a registry is none of them, whatever its name.
    pub fn of_bundled(plugin: &str) -> Self {
        match plugin {
            "http" => Self::Http,
            "nats" => Self::Nats,
            "rabbitmq" => Self::RabbitMq,
            "redis" => Self::Redis,
            "kafka" => Self::Kafka,
            "pulsar" => Self::Pulsar,
            _ => Self::Other,
        }
    }

    /// Where events go if the configuration doesn't say. None: it has to.
    pub const fn default_topic(self) -> Option<&'static str> {
        match self {
            Self::Nats => Some("events.{stream}"),
            Self::RabbitMq => Some("sms.events.v1/{resource_type}.{node_uuid}.{resource_id}"),
            Self::Redis => Some("events:{stream}"),
            Self::Kafka | Self::Pulsar => Some(SOURCE_TOPIC),
            Self::Http | Self::Other => None,
        }
    }

    /// What separates the parts of a name. Only a stream's name has such parts; any other value is one.
    pub(super) const fn separator(self) -> Option<char> {
        match self {
            Self::Http => None,
            Self::Redis => Some(':'),
            Self::Nats | Self::RabbitMq | Self::Kafka | Self::Pulsar | Self::Other => Some('.'),
        }
    }

    /// Whether a name may have empty parts.
    pub(super) const fn takes_empty_parts(self) -> bool {
        matches!(self, Self::Redis)
    }

    /// Whether a letter of a value can stand in a name as it is: it neither separates parts nor means something to the broker, and it isn't
    /// the `%` that others are written with.
    pub(super) fn is_plain(self, letter: char) -> bool {
        if letter == '%' || letter.is_control() || letter.is_whitespace() || Some(letter) == self.separator() {
            return false;
        }
        match self {
            Self::Http => letter.is_ascii_alphanumeric() || "-._~".contains(letter),
            Self::Kafka | Self::Pulsar => letter.is_ascii_alphanumeric() || "-_".contains(letter),
            Self::Redis => true,
            // Wildcards of subscribers and bindings, and what a server of NATS can't quote.
            Self::Nats | Self::RabbitMq | Self::Other => !"*>#\"\\".contains(letter),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_of_rabbitmq_is_the_sources_exchange() {
        let default = Broker::RabbitMq.default_topic().unwrap();
        assert_eq!(default.split_once('/').unwrap().0, SOURCE_TOPIC);
    }

    #[test]
    fn a_component_of_ones_own_has_no_default() {
        for own in ["./nats.wasm", "mqtt", ""] {
            assert_eq!(Broker::of_bundled(own).default_topic(), None, "{own}");
        }
        assert_eq!(Broker::of_bundled("kafka").default_topic(), Broker::of_bundled("pulsar").default_topic());
    }
}
