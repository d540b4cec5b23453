//! Requests to a host that may be killed at any moment: made again, which changes nothing that was done, until they are answered.

use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use parking_lot::Mutex;
use serde_json::Value;
use waybill_testkit::api::{Api, Reply};

use super::POLL;

/// A request that isn't answered is made again for this long.
pub const ANSWERED_WITHIN: Duration = Duration::from_secs(120);

/// A POST to the host as it is then.
pub async fn post(api: &Mutex<Api>, path: &str, body: &Value) -> Result<Reply> {
    let began = Instant::now();
    loop {
        let now = api.lock().clone();
        let why = match now.post(path, body).await {
            Ok(reply) if reply.is_ok() => return Ok(reply),
            Ok(reply) if reply.body.get("retryable") != Some(&Value::Bool(true)) => {
                bail!("POST {path} answered {}: {}", reply.status, reply.body)
            }
            Ok(reply) => format!("{}: {}", reply.status, reply.body),
            Err(none) => format!("{none:?}"),
        };
        if began.elapsed() > ANSWERED_WITHIN {
            bail!("POST {path} was answered with nothing better for {} s: {why}", ANSWERED_WITHIN.as_secs());
        }
        tokio::time::sleep(POLL).await;
    }
}
