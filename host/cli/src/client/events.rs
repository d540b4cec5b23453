//! A subscription of a host: server-sent events, as the host writes them.

use std::time::Duration;

use reqwest::header::ACCEPT;
use reqwest::{Method, Response};
use waybill_api::streams::SubscriptionEnded;

use super::{Client, ClientError, problem};

/// The host says something at least every 15 s; whoever is silent for longer isn't there any more.
const SILENCE_MAX: Duration = Duration::from_secs(45);
/// Longest time of one subscription: what goes on is resumed.
const SUBSCRIPTION_TIME_MAX: Duration = Duration::from_secs(24 * 3600);
/// Largest event that is read, in bytes: payloads have 256 KiB as configured, and grow by a third as base64.
const EVENT_BYTES_MAX: usize = 64 * 1024 * 1024;
const BLOCK_END: &[u8] = b"\n\n";

/// What a host says in a subscription.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Heard {
    Event {
        /// Where a reader goes on behind it.
        cursor: String,
        /// Its envelope, as the host wrote it.
        envelope: String,
    },
    /// Where a reader goes on, past what it isn't shown.
    Cursor(String),
    Quiet,
    /// Nothing comes after this.
    Ended(SubscriptionEnded),
}

/// A subscription under way.
pub struct EventStream<'c> {
    client: &'c Client,
    response: Response,
    /// What came and isn't a whole block yet.
    rest: Vec<u8>,
}

impl Client {
    /// Subscribes; with the cursor of the last event that was received, if there is one.
    pub async fn subscribe(
        &self,
        query: &[(&str, &str)],
        cursor: Option<&str>,
    ) -> Result<EventStream<'_>, ClientError> {
        let mut request = self.request(Method::GET, &["v1", "subscribe"], query)?;
        request = request.header(ACCEPT, "text/event-stream").timeout(SUBSCRIPTION_TIME_MAX);
        if let Some(cursor) = cursor {
            request = request.header("last-event-id", cursor);
        }
        let answered = tokio::time::timeout(self.timeout, self.begin(request)).await;
        let response = answered.map_err(|_| self.late(self.timeout))??;
        let status = response.status();
        if !status.is_success() {
            let bytes = self.read(response).await?;
            return Err(problem::refusal(status.as_u16(), self.url().to_owned(), &bytes));
        }
        Ok(EventStream { client: self, response, rest: Vec::new() })
    }

    fn late(&self, after: Duration) -> ClientError {
        ClientError::TimedOut { url: self.url().to_owned(), after }
    }
}

impl EventStream<'_> {
    /// What the host says next; none = it closed without a word.
    pub async fn next(&mut self) -> Result<Option<Heard>, ClientError> {
        loop {
            if let Some(end) = self.rest.windows(BLOCK_END.len()).position(|bytes| bytes == BLOCK_END) {
                let block: Vec<u8> = self.rest.drain(..end + BLOCK_END.len()).collect();
                return heard(&String::from_utf8_lossy(&block)).map(Some).map_err(|cause| self.odd(cause));
            }
            let chunk = tokio::time::timeout(SILENCE_MAX, self.response.chunk()).await;
            let chunk = chunk.map_err(|_| self.client.late(SILENCE_MAX))?;
            let Some(chunk) = chunk.map_err(|error| self.client.failed(&error))? else { return Ok(None) };
            if self.rest.len() + chunk.len() > EVENT_BYTES_MAX {
                return Err(self.odd(format!("an event has more than {EVENT_BYTES_MAX} bytes")));
            }
            self.rest.extend_from_slice(&chunk);
        }
    }

    fn odd(&self, cause: String) -> ClientError {
        let (url, status) = (self.client.url().to_owned(), self.response.status().as_u16());
        ClientError::Answer { url, status, cause }
    }
}

/// Reads a block: fields a line, comments among them.
fn heard(block: &str) -> Result<Heard, String> {
    let (mut cursor, mut data, mut is_end) = (None, None, false);
    for line in block.lines() {
        match line.split_once(':') {
            Some(("id", text)) => cursor = Some(text.trim_start().to_owned()),
            Some(("data", text)) => data = Some(text.trim_start().to_owned()),
            Some(("event", text)) => is_end = text.trim() == "error",
            _ => {}
        }
    }
    match (cursor, data, is_end) {
        (_, Some(data), true) => {
            serde_json::from_str(&data).map(Heard::Ended).map_err(|error| format!("its end can't be read ({error})"))
        }
        (Some(cursor), Some(envelope), false) => Ok(Heard::Event { cursor, envelope }),
        (None, Some(_), false) => Err("an event has no id".to_owned()),
        (Some(cursor), None, _) => Ok(Heard::Cursor(cursor)),
        (None, None, _) => Ok(Heard::Quiet),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_read_as_the_host_writes_them() {
        let event = Heard::Event { cursor: "4".into(), envelope: r#"{"seq":4}"#.into() };
        assert_eq!(heard("id: 4\ndata: {\"seq\":4}\n\n"), Ok(event));
        assert_eq!(heard(":\nid: 7~3\n\n"), Ok(Heard::Cursor("7~3".into())));
        assert_eq!(heard(":\n\n"), Ok(Heard::Quiet));
        let ended = heard("event: error\ndata: {\"type\":\"/errors/X\",\"code\":\"X\",\"detail\":\"d\"}\n\n").unwrap();
        assert!(matches!(ended, Heard::Ended(ended) if ended.code == "X" && ended.detail == "d"));
        assert!(heard("data: {}\n\n").is_err() && heard("event: error\ndata: x\n\n").is_err());
    }
}
