//! Producers: connections to the API that send requests made beforehand.

use std::time::Instant;

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper::header::{CONTENT_TYPE, HOST};
use hyper::{Method, Request, StatusCode};
use hyper_util::rt::TokioIo;
use thiserror::Error;
use tokio::net::TcpStream;

use super::sink::LATENCY_FIELD;

/// Why load can't be made.
#[derive(Debug, Error)]
pub enum LoadError {
    /// No connection, or it broke.
    #[error("the connection to {0} broke: {1}")]
    Connection(String, String),
    /// The host said no.
    #[error("POST {path} answered {status}: {body}")]
    Refused { path: String, status: StatusCode, body: String },
}

/// One connection, kept open; one request at a time.
pub struct Client {
    peer: String,
    sender: SendRequest<Full<Bytes>>,
}

impl Client {
    /// Connects to a base URL such as `http://127.0.0.1:7070`.
    ///
    /// # Errors
    /// Nobody answers there.
    pub async fn connect(base: &str) -> Result<Self, LoadError> {
        let peer = base.trim_start_matches("http://").split('/').next().unwrap_or_default().to_owned();
        let broken = |error: &dyn std::fmt::Display| LoadError::Connection(peer.clone(), error.to_string());
        let stream = TcpStream::connect(&peer).await.map_err(|error| broken(&error))?;
        stream.set_nodelay(true).map_err(|error| broken(&error))?;
        let (sender, connection) = handshake(TokioIo::new(stream)).await.map_err(|error| broken(&error))?;
        // Its end is seen by the next request.
        tokio::spawn(connection);
        Ok(Self { peer, sender })
    }

    /// One POST of a JSON document; any 2xx is well, and its body is answered.
    ///
    /// # Errors
    /// Another status, or the connection broke.
    pub async fn post(&mut self, path: &str, body: Bytes) -> Result<Bytes, LoadError> {
        self.post_once(path, None, body).await
    }

    /// The same with an `Idempotency-Key`, if there is one.
    ///
    /// # Errors
    /// Another status, or the connection broke.
    pub async fn post_once(&mut self, path: &str, key: Option<&str>, body: Bytes) -> Result<Bytes, LoadError> {
        let broken = |error: &dyn std::fmt::Display| LoadError::Connection(self.peer.clone(), error.to_string());
        let request = Request::builder()
            .method(Method::POST)
            .uri(path)
            .header(HOST, &self.peer)
            .header(CONTENT_TYPE, "application/json");
        let request = match key {
            Some(key) => request.header("idempotency-key", key),
            None => request,
        };
        let request = request.body(Full::new(body)).map_err(|error| broken(&error))?;
        self.sender.ready().await.map_err(|error| broken(&error))?;
        let response = self.sender.send_request(request).await.map_err(|error| broken(&error))?;
        let status = response.status();
        let answer = response.into_body().collect().await.map_err(|error| broken(&error))?.to_bytes();
        if status.is_success() {
            return Ok(answer);
        }
        let body = String::from_utf8_lossy(&answer).into_owned();
        Err(LoadError::Refused { path: path.to_owned(), status, body })
    }
}

/// What messages look like.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Topic of all of them.
    pub topic: String,
    /// Tenant; none = the default one.
    pub tenant: Option<String>,
    /// Keys they are spread over; 0 = none.
    pub keys: u64,
    /// Bytes of a payload, about.
    pub payload: usize,
    /// Whether payloads say when they were made, since this instant.
    pub timed: Option<Instant>,
}

impl Plan {
    /// About 300 bytes of JSON, over 1,000 keys.
    pub fn new(topic: impl Into<String>) -> Self {
        Self { topic: topic.into(), tenant: None, keys: 1_000, payload: 300, timed: None }
    }

    /// One message as JSON.
    pub fn message(&self, number: u64) -> String {
        self.message_at(number, Instant::now())
    }

    /// One message as JSON that says it was made at an instant.
    pub fn message_at(&self, number: u64, made: Instant) -> String {
        let tenant = self.tenant.as_ref().map(|tenant| format!("\"tenant\":\"{tenant}\",")).unwrap_or_default();
        let key = number.checked_rem(self.keys).map(|key| format!("\"key\":\"customer-{key}\",")).unwrap_or_default();
        let age = |start: Instant| made.saturating_duration_since(start).as_nanos();
        let made = self.timed.map(|start| format!("{LATENCY_FIELD}{},", age(start))).unwrap_or_default();
        let order = format!(
            "{{{made}\"order\":{number},\"customer\":\"customer-{number}\",\"currency\":\"EUR\",\"note\":\"\"}}"
        );
        let note = "x".repeat(self.payload.saturating_sub(order.len()));
        let order = order.trim_end_matches("\"}");
        format!("{{\"topic\":\"{}\",{tenant}{key}\"payload\":{order}{note}\"}}}}", self.topic)
    }
}

/// Bodies of requests that hold the messages `from..to`, `size` in each.
pub fn batches(plan: &Plan, from: u64, to: u64, size: u64) -> Vec<Bytes> {
    let starts = (from..to).step_by(usize::try_from(size.max(1)).unwrap_or(usize::MAX));
    starts
        .map(|start| {
            let messages: Vec<_> = (start..to.min(start + size)).map(|number| plan.message(number)).collect();
            Bytes::from(format!("{{\"messages\":[{}]}}", messages.join(",")))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn messages_are_json_of_the_size_asked_for() {
        let plan = Plan { tenant: Some("acme".into()), timed: Some(Instant::now()), ..Plan::new("http://a/b") };
        let bodies = batches(&plan, 0, 250, 100);
        assert_eq!(bodies.len(), 3);
        let last: serde_json::Value = serde_json::from_slice(bodies.last().unwrap()).unwrap();
        let messages = last["messages"].as_array().unwrap();
        assert_eq!((messages.len(), messages[0]["key"].as_str()), (50, Some("customer-200")));
        assert_eq!(messages[0]["payload"].to_string().len(), 300);
    }
}
