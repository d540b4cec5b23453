//! A small client of the HTTP API, for harnesses that drive a real host.
//!
//! It keeps apart what a test must not confuse: an answer, a request that certainly never reached the host, and a
//! request whose outcome nobody knows.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::Deserialize;
use serde_json::{Value, json};

/// Longer than any commit takes on a busy machine; a hung host must not hang the test.
const REQUEST_TIME_MAX: Duration = Duration::from_secs(60);
/// Items a page, the API's own maximum.
const PAGE: usize = 1_000;

#[derive(Clone, Debug)]
pub struct Api {
    base: String,
    http: reqwest::Client,
}

/// What the host answered.
#[derive(Clone, Debug, PartialEq)]
pub struct Reply {
    pub status: u16,
    /// Body; a string where it isn't JSON.
    pub body: Value,
}

impl Reply {
    pub fn is_ok(&self) -> bool {
        (200..300).contains(&self.status)
    }
    /// `code` of a problem.
    pub fn code(&self) -> Option<&str> {
        self.body.get("code").and_then(Value::as_str)
    }
}

/// Why there is no answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NoReply {
    /// No connection: the host never saw the request.
    NotSent(String),
    /// The connection broke or the time was over: the host may have acted.
    Unknown(String),
}

/// A call that had to succeed and didn't.
#[derive(Clone, Debug, PartialEq)]
pub enum CallError {
    NoReply(NoReply),
    /// An answer that says no.
    Refused {
        call: String,
        reply: Reply,
    },
    /// An answer that isn't what the API promises.
    Unexpected {
        call: String,
        cause: String,
    },
}

impl std::fmt::Display for CallError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::NoReply(NoReply::NotSent(cause)) => write!(f, "the host can't be reached: {cause}"),
            Self::NoReply(NoReply::Unknown(cause)) => write!(f, "the host gave no answer: {cause}"),
            Self::Refused { call, reply } => write!(f, "{call} answered {}: {}", reply.status, reply.body),
            Self::Unexpected { call, cause } => write!(f, "{call} answered something unexpected: {cause}"),
        }
    }
}

impl std::error::Error for CallError {}

/// Depths of one tenant in one transport, as `GET /v1/outbox/stats` tells.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct Depth {
    pub tenant: String,
    pub transport: String,
    /// In order and not being sent.
    pub ready: u64,
    pub leased: u64,
    /// Waiting for a retry.
    pub parked: u64,
    /// Waiting for their time.
    pub scheduled: u64,
    pub dead: u64,
}

impl Depth {
    /// Messages that will still be delivered or die.
    pub fn on_the_way(&self) -> u64 {
        self.ready + self.leased + self.parked + self.scheduled
    }
}

/// What a list says of a message.
#[derive(Clone, Debug, Deserialize)]
pub struct Listed {
    pub id: String,
    pub tenant: String,
    /// State in a word.
    pub state: String,
    #[serde(default)]
    pub attempts: u32,
    /// Crashes that it is held suspect for.
    #[serde(default)]
    pub suspect: u32,
    /// Latest error, `CODE: reason`.
    #[serde(default)]
    pub last_error: Option<String>,
}

#[derive(Deserialize)]
struct Page<T> {
    items: Vec<T>,
    next_cursor: Option<String>,
}

impl Api {
    /// Of the host at this base URL.
    pub fn new(base: impl Into<String>) -> Self {
        Self { base: base.into().trim_end_matches('/').to_owned(), http: reqwest::Client::new() }
    }

    pub fn base(&self) -> &str {
        &self.base
    }

    /// One POST; an answer that says no is an answer.
    pub async fn post(&self, path: &str, body: &Value) -> Result<Reply, NoReply> {
        let bytes = serde_json::to_vec(body).map_err(|error| NoReply::NotSent(error.to_string()))?;
        let request = self.http.post(self.url(path)).header("content-type", "application/json").body(bytes);
        Self::answer(request).await
    }

    /// One POST with an `Idempotency-Key`.
    pub async fn post_once(&self, path: &str, key: &str, body: &Value) -> Result<Reply, NoReply> {
        let bytes = serde_json::to_vec(body).map_err(|error| NoReply::NotSent(error.to_string()))?;
        let request = self.http.post(self.url(path)).header("content-type", "application/json");
        Self::answer(request.header("idempotency-key", key).body(bytes)).await
    }

    /// One GET; an answer that says no is an answer.
    pub async fn get(&self, path: &str, query: &[(&str, &str)]) -> Result<Reply, NoReply> {
        Self::answer(self.http.get(self.url(path)).query(query)).await
    }

    fn url(&self, path: &str) -> String {
        format!("{}{path}", self.base)
    }

    async fn answer(request: reqwest::RequestBuilder) -> Result<Reply, NoReply> {
        let response = match request.timeout(REQUEST_TIME_MAX).send().await {
            Ok(response) => response,
            Err(error) if error.is_connect() || error.is_builder() => return Err(NoReply::NotSent(cause_of(&error))),
            Err(error) => return Err(NoReply::Unknown(cause_of(&error))),
        };
        let status = response.status().as_u16();
        // The status came but not the body: what was acknowledged isn't known.
        let bytes = response.bytes().await.map_err(|error| NoReply::Unknown(cause_of(&error)))?;
        let body = serde_json::from_slice(&bytes)
            .unwrap_or_else(|_| Value::String(String::from_utf8_lossy(&bytes).into_owned()));
        Ok(Reply { status, body })
    }

    /// A GET that must succeed.
    pub async fn read<T: serde::de::DeserializeOwned>(
        &self,
        path: &str,
        query: &[(&str, &str)],
    ) -> Result<T, CallError> {
        let call = format!("GET {path}");
        let reply = self.get(path, query).await.map_err(CallError::NoReply)?;
        if !reply.is_ok() {
            return Err(CallError::Refused { call, reply });
        }
        serde_json::from_value(reply.body).map_err(|error| CallError::Unexpected { call, cause: error.to_string() })
    }

    /// All pages of a list.
    pub async fn list<T: serde::de::DeserializeOwned>(
        &self,
        path: &str,
        query: &[(&str, &str)],
    ) -> Result<Vec<T>, CallError> {
        let limit = PAGE.to_string();
        let mut items = Vec::new();
        let mut cursor: Option<String> = None;
        loop {
            let mut query = query.to_vec();
            query.push(("limit", &limit));
            if let Some(cursor) = cursor.as_deref() {
                query.push(("cursor", cursor));
            }
            let page: Page<T> = self.read(path, &query).await?;
            items.extend(page.items);
            match page.next_cursor {
                Some(next) if Some(&next) != cursor.as_ref() => cursor = Some(next),
                Some(next) => {
                    return Err(CallError::Unexpected {
                        call: format!("GET {path}"),
                        cause: format!("cursor {next:?} leads to itself"),
                    });
                }
                None => return Ok(items),
            }
        }
    }

    /// Depths of every tenant and transport.
    pub async fn depths(&self) -> Result<Vec<Depth>, CallError> {
        let page: Page<Depth> = self.read("/v1/outbox/stats", &[]).await?;
        Ok(page.items)
    }

    /// All dead letters that are messages.
    pub async fn dead_letters(&self) -> Result<Vec<Listed>, CallError> {
        self.list("/v1/dead-letters", &[("filter", "kind=message")]).await
    }

    /// All messages in a state.
    pub async fn messages(&self, state: &str) -> Result<Vec<Listed>, CallError> {
        self.list("/v1/messages", &[("filter", &format!("state={state}"))]).await
    }

    /// What a SurrealQL query answers, through `POST /v1/transactions`.
    pub async fn query(&self, query: &str) -> Result<Value, CallError> {
        let call = format!("POST /v1/transactions ({query})");
        let body = json!({ "statements": [{ "query": query, "bindings": {} }], "messages": [] });
        let reply = self.post("/v1/transactions", &body).await.map_err(CallError::NoReply)?;
        if !reply.is_ok() {
            return Err(CallError::Refused { call, reply });
        }
        reply
            .body
            .pointer("/results/0")
            .cloned()
            .ok_or_else(|| CallError::Unexpected { call, cause: format!("no results/0 in {}", reply.body) })
    }

    /// Ids of the rows of a table, as texts, with how often each is there (once, if all is well).
    pub async fn row_ids(&self, table: &str) -> Result<BTreeMap<String, usize>, CallError> {
        let (mut ids, mut read) = (BTreeMap::new(), 0);
        // A page at a time: what a statement reads is bounded. By START: of a range SurrealDB reads all rows, whatever LIMIT says.
        loop {
            let rows =
                self.query(&format!("SELECT VALUE record::id(id) FROM {table} LIMIT {PAGE} START {read}")).await?;
            let page = rows.as_array().map(Vec::as_slice).unwrap_or_default();
            for id in page {
                *ids.entry(id.as_str().map_or_else(|| id.to_string(), str::to_owned)).or_default() += 1;
            }
            read += page.len();
            if page.len() < PAGE {
                return Ok(ids);
            }
        }
    }
}

/// reqwest's own text leaves out the cause.
fn cause_of(error: &reqwest::Error) -> String {
    let mut text = error.to_string();
    let mut source = std::error::Error::source(error);
    while let Some(cause) = source {
        text = format!("{text}: {cause}");
        source = cause.source();
    }
    text
}
