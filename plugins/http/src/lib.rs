//! The bundled HTTP transport: each message is a CloudEvents 1.0 request in binary mode to the URL that is its destination.
//!
//! Every message of a batch is a request of its own, all at once, and its fate is told as soon as it is known: a slow receiver
//! holds no neighbour. What this doesn't do: follow redirects, keep cookies, batch several messages into one request.
//!
//! - `config`: what an operator may set
//! - `request`: a message as a request (`encode` for the text forms, `signature` for Standard Webhooks)
//! - `classify`: an answer, or none, as the fate of the message (`origin` names what is blocked)

mod classify;
mod config;
mod encode;
mod origin;
mod request;
mod signature;

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use futures_util::stream::{FuturesUnordered, StreamExt as _};
use waybill_plugin::host::http;
use waybill_plugin::secret;
use waybill_plugin::transport::{CallInfo, Fault, Message, OpenArgs, Opened, Outcome, PluginError, Transport};

use crate::config::{Config, Signing};
use crate::signature::Signer;

waybill_plugin::manifest!();
waybill_plugin::export_transport!(Http);

/// Name of the secret that holds the signing keys.
const SIGNING_SECRET: &str = "signing";
/// Code of a failure to get them.
const SIGNING_CODE: &str = "HTTP.SIGNING";

/// Milliseconds of a call's time that are kept back, so that the answer of the slowest request still reaches the host
/// before it gives the instance up.
const CALL_MARGIN_MS: u32 = 250;

struct Http {
    config: Config,
    signer: Option<Signer>,
}

impl Transport for Http {
    type Config = Config;

    async fn open(_: &CallInfo, _: &OpenArgs, config: Config) -> Result<(Self, Opened), PluginError> {
        config.check()?;
        let signer = signer(config.signing)?;
        let opened = Opened { max_batch: Some(config.batch()), max_concurrent_calls: config.calls(), ..Opened::new() };
        Ok((Self { config, signer }, opened))
    }

    async fn send_batch(&self, call: &CallInfo, batch: Vec<Message>) -> Result<Vec<Outcome>, PluginError> {
        let mut outcomes: Vec<Option<Outcome>> = vec![None; batch.len()];
        let timeout = request_timeout(self.config.timeout, call.timeout);
        let mut requests: FuturesUnordered<_> = (0_usize..)
            .zip(batch)
            .map(|(index, message)| async move { (index, self.deliver(message, timeout).await) })
            .collect();
        while let Some((index, outcome)) = requests.next().await {
            call.settled(index, &outcome);
            if let Some(place) = outcomes.get_mut(index) {
                *place = Some(outcome);
            }
        }
        outcomes
            .into_iter()
            .collect::<Option<Vec<Outcome>>>()
            .ok_or_else(|| PluginError::internal("a message of the batch has no outcome"))
    }
}

impl Http {
    async fn deliver(&self, message: Message, timeout: u32) -> Outcome {
        let Some(origin) = origin::of(&message.destination) else {
            let reason = format!("`{}` is no http: or https: URL", origin::shown(&message.destination));
            return Outcome::Permanent(Fault::new("HTTP.URL", reason));
        };
        let now = SystemTime::now();
        let request = match request::build(message, &self.config, self.signer.as_ref(), unix_seconds(now), timeout) {
            Ok(request) => request,
            Err(fault) => return Outcome::Permanent(fault),
        };
        match http::send(vec![request]).await.pop() {
            Some(Ok(response)) => classify::answer(&origin, &response, SystemTime::now()),
            Some(Err(error)) => classify::no_answer(&origin, &error),
            None => Outcome::Retryable(
                Fault::new("HTTP.OTHER", "the host gave no result for the request").with_maybe_delivered(true),
            ),
        }
    }
}

/// The signer, if there are keys.
fn signer(signing: Signing) -> Result<Option<Signer>, PluginError> {
    let denied = |reason: &str| Err(PluginError::denied(SIGNING_CODE, reason));
    match secret::bytes(SIGNING_SECRET, SIGNING_CODE)? {
        Some(value) => match Signer::from_secret(&value) {
            Ok(signer) => Ok(Some(signer)),
            Err(reason) => denied(&format!("secret `{SIGNING_SECRET}`: {reason}")),
        },
        None if signing == Signing::Auto => Ok(None),
        None => {
            denied("signing is required and the secret `signing` is not granted: add it to the transport's secrets")
        }
    }
}

/// The configured time, cut so that the call ends in time.
fn request_timeout(configured: u32, call: u32) -> u32 {
    configured.min(call.saturating_sub(CALL_MARGIN_MS.min(call / 10))).max(1)
}

fn unix_seconds(now: SystemTime) -> u64 {
    now.duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO).as_secs()
}

#[cfg(test)]
mod tests {
    use super::request_timeout;

    #[test]
    fn a_request_ends_before_its_call() {
        for (configured, call, expected) in
            [(30_000, 60_000, 30_000), (30_000, 30_000, 29_750), (30_000, 1_000, 900), (30_000, 0, 1), (5, 60_000, 5)]
        {
            assert_eq!(request_timeout(configured, call), expected, "{configured} of {call}");
        }
    }
}
