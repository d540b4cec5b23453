//! Namespaces, topics and subscriptions, created over the brokers' HTTP service when the operator asks for it. The binary protocol can't
//! create what has partitions.

use serde::Deserialize;
use serde_json::Value;
use waybill_plugin::deadline::Deadline;
use waybill_plugin::host::http;
use waybill_plugin::host::http_types::{Request, Response};
use waybill_plugin::host::net_types::TlsOptions;
use waybill_plugin::net;
use waybill_plugin::provision::{Action, Change};
use waybill_plugin::secret;
use waybill_plugin::transport::PluginError;

use crate::credentials::Credentials;
use crate::topic::{full_name, is_namespace, shown};

/// Code of what goes wrong between us and the service, or of an answer that we can't go on with.
const CODE: &str = "PULSAR.PROVISION";
/// Brokers that may send us on, one after the other: what is about a topic is answered by the broker that has it.
const REDIRECTS_MAX: usize = 5;
/// Most partitions that are created. Each of them costs the cluster files and memory.
const PARTITIONS_MAX: u32 = 10_000;
/// Place of the first message that is kept, as the service has it.
const EARLIEST: &str = r#"{"ledgerId":-1,"entryId":-1,"partitionIndex":-1}"#;

/// What has to be there.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Wanted {
    /// Where the brokers' HTTP service is: `http://HOST:8080`.
    pub admin_url: String,
    /// Namespaces, as `TENANT/NAMESPACE`.
    pub namespaces: Vec<String>,
    /// Topics.
    pub topics: Vec<Topic>,
}

/// A topic that has to be there.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Topic {
    name: String,
    /// 0: it has none, and is one itself.
    partitions: u32,
    /// Names of subscriptions, each from the earliest message on.
    subscriptions: Vec<String>,
}

impl Wanted {
    /// Checks what the types can't say. `namespace` is that of topics which are named without one.
    ///
    /// # Errors
    /// The first mistake, with its place.
    pub fn check(&self, namespace: &str) -> Result<(), PluginError> {
        let wrong = |path: &str, why: &str| Err(PluginError::invalid_config(path, why));
        if !self.admin_url.starts_with("http://") && !self.admin_url.starts_with("https://") {
            return wrong("provision.admin_url", "is no address of the brokers' HTTP service: write http://HOST:8080");
        }
        if self.admin_url.contains('@') {
            return wrong("provision.admin_url", "holds credentials: grant them as secrets, this document is shown");
        }
        for (place, name) in self.namespaces.iter().enumerate() {
            if !is_namespace(name) {
                return wrong(&format!("provision.namespaces[{place}]"), "is not TENANT/NAMESPACE");
            }
        }
        for (place, topic) in self.topics.iter().enumerate() {
            if let Err(why) = full_name(&topic.name, namespace) {
                return wrong(&format!("provision.topics[{place}].name"), why);
            }
            if topic.partitions > PARTITIONS_MAX {
                return wrong(&format!("provision.topics[{place}].partitions"), "is more than 10000");
            }
            if topic.subscriptions.iter().any(String::is_empty) {
                return wrong(&format!("provision.topics[{place}].subscriptions"), "has one without a name");
            }
        }
        Ok(())
    }
}

/// The brokers' HTTP service.
pub struct Admin {
    url: String,
    /// The value of `Authorization`.
    authorization: Option<String>,
    /// Granted secrets for TLS.
    tls: Option<TlsOptions>,
    deadline: Deadline,
}

impl Admin {
    /// The one at this address, asked with the same token or certificate as the brokers.
    ///
    /// # Errors
    /// A granted secret can't be used.
    pub fn new(url: &str, credentials: Credentials, deadline: Deadline) -> Result<Self, PluginError> {
        let granted = |name: &str| Ok::<_, PluginError>(secret::bytes(name, CODE)?.map(|_| name.to_owned()));
        let tls = match url.starts_with("https://") {
            false => None,
            true => {
                let client_cert_secret = granted("tls_cert")?;
                Some(TlsOptions {
                    server_name: None,
                    ca_secret: granted("tls_ca")?,
                    client_key_secret: client_cert_secret.is_some().then(|| "tls_key".to_owned()),
                    client_cert_secret,
                    alpn: Vec::new(),
                })
            }
        };
        let url = url.trim_end_matches('/').to_owned();
        Ok(Self { url, authorization: credentials.bearer()?, tls, deadline })
    }

    /// Looks what is there of what is wanted, and creates what is missing if `apply`. Answers what was found to do.
    ///
    /// # Errors
    /// The service refuses, or can't be asked.
    pub async fn provision(&self, wanted: &Wanted, namespace: &str, apply: bool) -> Result<Vec<Change>, PluginError> {
        let mut changes = Vec::new();
        for name in &wanted.namespaces {
            changes.push(self.namespace(name, apply).await?);
        }
        for topic in &wanted.topics {
            let name = full_name(&topic.name, namespace).map_err(PluginError::internal)?;
            self.topic(&name, topic, apply, &mut changes).await?;
        }
        Ok(changes)
    }

    async fn namespace(&self, name: &str, apply: bool) -> Result<Change, PluginError> {
        let target = format!("namespace {name}");
        let path = format!("namespaces/{name}");
        if self.is_there(&path).await? {
            return Ok(Change { target, action: Action::Keep, detail: String::new() });
        }
        if apply {
            self.done("PUT", &path, "").await?;
        }
        Ok(Change { target, action: Action::Create, detail: "with the cluster's own policies".to_owned() })
    }

    async fn topic(
        &self,
        name: &str,
        topic: &Topic,
        apply: bool,
        changes: &mut Vec<Change>,
    ) -> Result<(), PluginError> {
        let (kind, path) = name.split_once("://").unwrap_or(("persistent", name));
        let (namespace, local) = path.rsplit_once('/').unwrap_or(("", path));
        let base = format!("{kind}/{namespace}/{}", escaped(local));
        let partitions = self.partitions(name, &base).await?;
        let target = format!("topic {name}");
        let (action, detail) = compare(partitions, topic.partitions);
        if apply && action == Action::Create {
            match topic.partitions {
                0 => self.done("PUT", &base, "").await?,
                count => self.done("PUT", &format!("{base}/partitions"), &count.to_string()).await?,
            }
        }
        let is_there = action != Action::Create;
        changes.push(Change { target, action, detail });
        for subscription in &topic.subscriptions {
            let target = format!("subscription {subscription} of {name}");
            let known = is_there && self.names(&format!("{base}/subscriptions")).await?.contains(subscription);
            if !known && apply {
                self.done("PUT", &format!("{base}/subscription/{}", escaped(subscription)), EARLIEST).await?;
            }
            let action = if known { Action::Keep } else { Action::Create };
            changes.push(Change { target, action, detail: "from the earliest message on".to_owned() });
        }
        Ok(())
    }

    /// How many partitions a topic has, 0 for one without; none: it isn't there.
    async fn partitions(&self, name: &str, base: &str) -> Result<Option<u32>, PluginError> {
        if let Some(answer) = self.asked(&format!("{base}/partitions")).await? {
            let count = answer.get("partitions").and_then(Value::as_u64).and_then(|count| u32::try_from(count).ok());
            match count {
                Some(0) => {}
                Some(count) => return Ok(Some(count)),
                None => return Err(odd(&format!("no number of partitions of {name}"))),
            }
        }
        // Whether there is one without partitions, brokers don't tell by that: some answer 0 for what isn't there.
        Ok(self.is_there(&format!("{base}/subscriptions")).await?.then_some(0))
    }

    async fn names(&self, path: &str) -> Result<Vec<String>, PluginError> {
        let answer = self.asked(path).await?.unwrap_or(Value::Array(Vec::new()));
        serde_json::from_value(answer).map_err(|_| odd("something else than a list of names"))
    }

    async fn is_there(&self, path: &str) -> Result<bool, PluginError> {
        self.asked(path).await.map(|answer| answer.is_some())
    }

    /// What the service says of something; none: it isn't there.
    async fn asked(&self, path: &str) -> Result<Option<Value>, PluginError> {
        let response = self.send("GET", path, "").await?;
        match response.status {
            404 => Ok(None),
            200..300 if response.truncated => Err(odd("more than the grant lets through")),
            200..300 => serde_json::from_slice(&response.body).map(Some).map_err(|_| odd("something else than JSON")),
            _ => Err(refused(path, &response)),
        }
    }

    async fn done(&self, method: &str, path: &str, body: &str) -> Result<(), PluginError> {
        let response = self.send(method, path, body).await?;
        // 409: somebody else was faster.
        if matches!(response.status, 200..300 | 409) { Ok(()) } else { Err(refused(path, &response)) }
    }

    async fn send(&self, method: &str, path: &str, body: &str) -> Result<Response, PluginError> {
        let mut url = format!("{}/admin/v2/{path}", self.url);
        for _ in 0..=REDIRECTS_MAX {
            let response = self.send_once(method, &url, body).await?;
            match next_url(&url, &response)? {
                Some(next) => url = next,
                None => return Ok(response),
            }
        }
        Err(odd("that others have the answer, without an end"))
    }

    async fn send_once(&self, method: &str, url: &str, body: &str) -> Result<Response, PluginError> {
        let late = || PluginError::unavailable(CODE, "no time was left");
        let json = ("content-type".to_owned(), "application/json".to_owned());
        let authorization = self.authorization.clone().map(|value| ("authorization".to_owned(), value));
        let request = Request {
            method: method.to_owned(),
            url: url.to_owned(),
            headers: authorization.into_iter().chain([json]).collect(),
            body: body.as_bytes().to_vec(),
            timeout: self.deadline.left().ok_or_else(late)?,
            tls: self.tls.clone(),
            attributes: Vec::new(),
        };
        match http::send(vec![request]).await.pop() {
            Some(Ok(response)) => Ok(response),
            Some(Err(error)) => Err(net::connect_failure(CODE, origin(url), &error.error)),
            None => Err(PluginError::internal("the host gave no result for the request")),
        }
    }
}

/// Where a broker sends us on to; none: it answers itself. The token goes along, so the scheme stays; the grant says to which brokers.
fn next_url(url: &str, response: &Response) -> Result<Option<String>, PluginError> {
    if !matches!(response.status, 301 | 302 | 307 | 308) {
        return Ok(None);
    }
    let location = response.headers.iter().find(|(name, _)| name.eq_ignore_ascii_case("location"));
    let location = location.map(|(_, value)| value.as_str()).unwrap_or_default();
    let scheme = |url: &str| url.split_once("://").map(|(scheme, _)| scheme.to_ascii_lowercase());
    match scheme(location) {
        Some(next) if Some(&next) == scheme(url).as_ref() && !origin(location).contains('@') => {
            Ok(Some(location.to_owned()))
        }
        _ => Err(odd("that another has the answer, and not where by the same scheme")),
    }
}

/// The scheme, host and port of a URL.
fn origin(url: &str) -> &str {
    let host = url.find("://").map_or(0, |at| at + 3);
    let end = url.get(host..).and_then(|rest| rest.find(['/', '?', '#'])).map_or(url.len(), |at| host + at);
    url.get(..end).unwrap_or(url)
}

fn compare(there: Option<u32>, wanted: u32) -> (Action, String) {
    match there {
        Some(there) if there == wanted => (Action::Keep, String::new()),
        Some(there) => {
            let why = format!("has {there} partitions and not {wanted}: keys would move, and their order with them");
            (Action::Conflict, why)
        }
        None if wanted == 0 => (Action::Create, "without partitions".to_owned()),
        None => (Action::Create, format!("with {wanted} partitions")),
    }
}

fn refused(path: &str, response: &Response) -> PluginError {
    let text = shown(&String::from_utf8_lossy(&response.body));
    let why = format!("the brokers' HTTP service answers {} for {path}: {text}", response.status);
    match response.status {
        401 | 403 => PluginError::denied(CODE, why),
        _ => PluginError::unavailable(CODE, why),
    }
}

fn odd(what: &str) -> PluginError {
    PluginError::unavailable(CODE, format!("the brokers' HTTP service answers {what}"))
}

/// A part of a path: what isn't plain is escaped.
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            out.push(char::from(byte));
        } else {
            out.push_str(&format!("%{byte:02X}"));
        }
    }
    out
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_topic_of_another_size_is_left_alone() {
        assert_eq!(compare(Some(4), 4).0, Action::Keep);
        assert_eq!(compare(None, 4), (Action::Create, "with 4 partitions".to_owned()));
        assert_eq!(compare(Some(4), 8).0, Action::Conflict);
        assert_eq!(compare(Some(0), 1).0, Action::Conflict);
    }

    fn response(status: u16, headers: &[(&str, &str)]) -> Response {
        let headers = headers.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        Response { status, headers, body: Vec::new(), truncated: false }
    }

    #[test]
    fn the_broker_that_has_the_topic_is_asked_by_the_same_scheme() {
        let url = "http://a:8080/admin/v2/persistent/x";
        let to = |status: u16, location: &str| next_url(url, &response(status, &[("Location", location)]));
        assert_eq!(to(200, "http://b:8080/y"), Ok(None));
        assert_eq!(to(307, "http://b:8080/y"), Ok(Some("http://b:8080/y".to_owned())));
        for location in ["https://b:8443/y", "/y", "", "http://u:p@b/y"] {
            assert!(to(307, location).is_err(), "{location}");
        }
        assert!(next_url(url, &response(307, &[])).is_err());
        assert_eq!((origin(url), origin("http://a"), origin("a")), ("http://a:8080", "http://a", "a"));
    }

    #[test]
    fn parts_of_a_path_are_escaped() {
        assert_eq!(escaped("orders.created-1"), "orders.created-1");
        assert_eq!(escaped("a/ü"), "a%2F%C3%BC");
    }

    #[test]
    fn what_can_not_be_created_is_refused_with_its_place() {
        for (json, path) in [
            (r#"{}"#, "provision.admin_url"),
            (r#"{"admin_url":"http://u:p@a"}"#, "provision.admin_url"),
            (r#"{"admin_url":"http://a","namespaces":["a"]}"#, "provision.namespaces[0]"),
            (r#"{"admin_url":"http://a","topics":[{"name":"a b"}]}"#, "provision.topics[0].name"),
            (
                r#"{"admin_url":"http://a","topics":[{"name":"a","partitions":10001}]}"#,
                "provision.topics[0].partitions",
            ),
            (
                r#"{"admin_url":"http://a","topics":[{"name":"a","subscriptions":[""]}]}"#,
                "provision.topics[0].subscriptions",
            ),
        ] {
            let wanted: Wanted = serde_json::from_str(json).unwrap();
            let error = wanted.check("public/default").unwrap_err();
            assert_eq!(error.fault.attributes, [("path".to_owned(), path.to_owned())], "{json}");
        }
    }
}
