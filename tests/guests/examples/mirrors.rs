//! Well-behaved: reports, as attributes of the receipt, everything it was told of each message and of its instance.
use guests::{CallInfo, Config, Message, OpenArgs, Opened, Outcome, PluginError, Receipt, Transport};

waybill_plugin::manifest!("manifests/transport.toml");
waybill_plugin::export_transport!(Mirror);

struct Mirror(OpenArgs);

impl Transport for Mirror {
    type Config = Config;

    async fn open(_: &CallInfo, args: &OpenArgs, _: Config) -> Result<(Self, Opened), PluginError> {
        Ok((Self(args.clone()), Opened { max_concurrent_calls: 4, ..guests::opened() }))
    }

    async fn send_batch(&self, call: &CallInfo, batch: Vec<Message>) -> Result<Vec<Outcome>, PluginError> {
        Ok(batch.iter().map(|message| Outcome::Ack(self.receipt(call, message, batch.len()))).collect())
    }
}

impl Mirror {
    fn receipt(&self, call: &CallInfo, message: &Message, batch: usize) -> Receipt {
        let text = |value: &Option<String>| value.clone().unwrap_or_else(|| "-".to_owned());
        let mut seen = vec![
            ("name", self.0.name.clone()),
            ("purpose", format!("{:?}", self.0.purpose)),
            ("instance", format!("{}/{}", self.0.instance, self.0.instances)),
            ("generation", self.0.generation.clone()),
            ("batch", batch.to_string()),
            ("timeout-told", (call.timeout > 0).to_string()),
            ("id", message.id.clone()),
            ("tenant", message.tenant.clone()),
            ("topic", message.topic.clone()),
            ("destination", message.destination.clone()),
            ("key", text(&message.key)),
            ("content-type", text(&message.content_type)),
            ("payload", String::from_utf8_lossy(&message.payload).into_owned()),
            ("event-type", text(&message.event_type)),
            ("envelope-id", text(&message.envelope_id)),
            ("correlation-id", text(&message.correlation_id)),
            ("causation-id", text(&message.causation_id)),
            ("reply-to", text(&message.reply_to)),
            ("occurred-at", message.occurred_at.to_string()),
            ("created-at", message.created_at.to_string()),
            ("expires-at", message.expires_at.map_or_else(|| "-".to_owned(), |at| at.to_string())),
            ("attempt", message.attempt.to_string()),
            ("lease-epoch", message.lease_epoch.to_string()),
        ];
        let headers: Vec<String> = message.headers.iter().map(|(name, value)| format!("{name}={value}")).collect();
        let attributes: Vec<String> =
            message.attributes.iter().map(|(name, value)| format!("{name}={value}")).collect();
        seen.push(("headers", headers.join(";")));
        seen.push(("attributes", attributes.join(";")));
        Receipt {
            broker_ref: Some(message.id.clone()),
            duplicate: false,
            attributes: seen.into_iter().map(|(name, value)| (name.to_owned(), value)).collect(),
        }
    }
}
