//! A transport: posts each message to one URL. Change `request` and `outcome` into what your receiver speaks.

mod outcome;

use serde::Deserialize;
use waybill_plugin::host::http;
use waybill_plugin::host::http_types::Request;
use waybill_plugin::transport::{CallInfo, Message, OpenArgs, Opened, Outcome, PluginError, Transport};

waybill_plugin::manifest!();
waybill_plugin::export_transport!(Poster);

/// Milliseconds of a call's time that are kept back, so that the last answer still reaches the host in time.
const MARGIN_MS: u32 = 250;

/// `config` of the transport, as the schema in waybill-plugin.toml describes it.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Config {
    url: String,
}

struct Poster {
    config: Config,
}

impl Transport for Poster {
    type Config = Config;

    async fn open(_: &CallInfo, _: &OpenArgs, config: Config) -> Result<(Self, Opened), PluginError> {
        // Calls may overlap at each `await`.
        Ok((Self { config }, Opened { max_concurrent_calls: 16, ..Opened::new() }))
    }

    async fn send_batch(&self, call: &CallInfo, batch: Vec<Message>) -> Result<Vec<Outcome>, PluginError> {
        let timeout = call.remaining().saturating_sub(MARGIN_MS).max(1);
        let requests = batch.into_iter().map(|message| self.request(message, timeout)).collect();
        // All at once; one result each, in order.
        Ok(http::send(requests).await.iter().map(outcome::of).collect())
    }
}

impl Poster {
    fn request(&self, message: Message, timeout: u32) -> Request {
        let content_type = message.content_type.unwrap_or_else(|| "application/octet-stream".to_owned());
        let headers = vec![("content-type".to_owned(), content_type), ("idempotency-key".to_owned(), message.id)];
        Request {
            method: "POST".to_owned(),
            url: self.config.url.clone(),
            headers,
            body: message.payload,
            timeout,
            tls: None,
            attributes: Vec::new(),
        }
    }
}
