//! Talking to a host's HTTP API.

mod backup;
mod error;
mod events;
mod problem;

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use reqwest::redirect::Policy;
use reqwest::{Certificate, ClientBuilder, Method, RequestBuilder, Response, StatusCode};
use serde_json::Value;
use url::{Host, Url};
use waybill_core::json_fault::placed_fault;
use waybill_server::listen::is_loopback;

use crate::args::Global;
use crate::term::Term;

pub use backup::BackupStream;
pub use error::ClientError;
pub use events::{EventStream, Heard};
pub use problem::{Refusal, exit_of_code};

/// Largest answer that is read, in bytes: a page of 1,000 messages without payloads is far below.
const ANSWER_BYTES_MAX: usize = 64 * 1024 * 1024;
/// Longest wait for a connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// Where a host is when nothing says otherwise.
const DEFAULT_URL: &str = "http://127.0.0.1:7070";
/// This machine by its name.
const LOCALHOST: &str = "localhost";
/// What is wrong with most addresses that are none.
const NO_SCHEME: &str = "it must begin with http:// or https://";
/// Environment variable that holds the address.
const URL_VARIABLE: &str = "WAYBILL_URL";
/// Environment variable that holds the path of further certificates to trust.
const CA_VARIABLE: &str = "WAYBILL_CA";
/// Environment variable that holds the token.
const TOKEN_VARIABLE: &str = "WAYBILL_TOKEN";

/// An answer: status and JSON.
#[derive(Clone, Debug, PartialEq)]
pub struct Answer {
    url: String,
    pub status: u16,
    pub body: Value,
    /// The body as it came: payloads in it are byte for byte what was sent.
    pub text: String,
}

impl Answer {
    /// A member that each host's answer has: without it, it is some other server's.
    pub fn need<'a, T>(&'a self, name: &str, read: impl FnOnce(&'a Value) -> Option<T>) -> Result<T, ClientError> {
        self.body.get(name).and_then(read).ok_or_else(|| ClientError::Answer {
            url: self.url.clone(),
            status: self.status,
            cause: format!("its answer has no usable {name:?}"),
        })
    }
}

/// A connection to one host.
pub struct Client {
    http: reqwest::Client,
    base: Url,
    token: Option<String>,
    timeout: Duration,
}

impl Client {
    /// For the host that the flags name. Warns when a token would go over the network in clear text.
    pub fn new(global: &Global, term: &mut Term) -> Result<Self, ClientError> {
        let url = named(global, term).unwrap_or_else(|| DEFAULT_URL.to_owned());
        let http = trusting(global, term)?;
        let client = Self::open(&url, http, token(global, term)?, global.timeout)?;
        if client.token.is_some() && client.base.scheme() == "http" && !is_here(&client.base) {
            term.complain(&format!(
                "warning: the token goes to {} in clear text, and everybody on the way can read it: use https://",
                client.base.origin().ascii_serialization()
            ));
        }
        Ok(client)
    }

    /// For questions that need no token, to the host that the flags name; none = they name none.
    pub fn without_token(global: &Global, term: &Term) -> Result<Option<Self>, ClientError> {
        let Some(url) = named(global, term) else { return Ok(None) };
        Self::open(&url, trusting(global, term)?, None, global.timeout).map(Some)
    }

    /// For questions that need no token, to a host of this machine by the address that it listens on. Any certificate will do: few are
    /// for an address of loopback, and nothing secret is sent.
    pub fn of_listener(listen: SocketAddr, is_encrypted: bool, timeout: Duration) -> Result<Self, ClientError> {
        let scheme = if is_encrypted { "https" } else { "http" };
        // Who listens on all addresses is asked by those of this machine, whichever of the two it has.
        let everywhere = listen.ip().is_unspecified();
        let place = if everywhere { format!("{LOCALHOST}:{}", listen.port()) } else { listen.to_string() };
        let own = [SocketAddr::from((Ipv4Addr::LOCALHOST, 0)), SocketAddr::from((Ipv6Addr::LOCALHOST, 0))];
        let http = reqwest::Client::builder()
            .tls_built_in_root_certs(false)
            .danger_accept_invalid_certs(true)
            .resolve_to_addrs(LOCALHOST, &own);
        Self::open(&format!("{scheme}://{place}"), http, None, timeout)
    }

    fn open(url: &str, http: ClientBuilder, token: Option<String>, timeout: Duration) -> Result<Self, ClientError> {
        let refuse = |cause: String| ClientError::Url { url: url.to_owned(), cause };
        let base = Url::parse(url).map_err(|error| match error {
            url::ParseError::RelativeUrlWithoutBase => refuse(NO_SCHEME.to_owned()),
            error => refuse(error.to_string()),
        })?;
        if !matches!(base.scheme(), "http" | "https") || base.cannot_be_a_base() {
            return Err(refuse(NO_SCHEME.to_owned()));
        }
        if !base.username().is_empty() || base.password().is_some() {
            return Err(refuse("credentials don't belong there: use --token-file".into()));
        }
        // A host is addressed directly: a proxy for the web has no business between an operator and the host.
        let http = http
            .no_proxy()
            // A host sends nobody elsewhere, and the token would go along, in clear text if that is what it leads to.
            .redirect(Policy::none())
            .connect_timeout(CONNECT_TIMEOUT.min(timeout))
            .timeout(timeout)
            .user_agent(concat!("waybill/", env!("CARGO_PKG_VERSION")))
            .build()
            .map_err(|error| refuse(error.to_string()))?;
        Ok(Self { http, base, token, timeout })
    }

    /// Address as given, for messages.
    pub fn url(&self) -> &str {
        self.base.as_str().trim_end_matches('/')
    }

    /// How long an answer may take.
    pub fn timeout(&self) -> Duration {
        self.timeout
    }

    pub async fn get(&self, path: &[&str], query: &[(&str, &str)]) -> Result<Answer, ClientError> {
        self.answer(self.request(Method::GET, path, query)?).await
    }

    pub async fn post(&self, path: &[&str], query: &[(&str, &str)], body: &Value) -> Result<Answer, ClientError> {
        self.answer(self.request(Method::POST, path, query)?.json(body)).await
    }

    pub async fn delete(&self, path: &[&str], query: &[(&str, &str)]) -> Result<Answer, ClientError> {
        self.answer(self.request(Method::DELETE, path, query)?).await
    }

    /// Posts bytes of some media type.
    pub async fn post_bytes(
        &self,
        path: &[&str],
        query: &[(&str, &str)],
        media_type: &str,
        body: Vec<u8>,
    ) -> Result<Answer, ClientError> {
        let request = self.request(Method::POST, path, query)?.header(reqwest::header::CONTENT_TYPE, media_type);
        self.answer(request.body(body)).await
    }

    /// Posts a body that the host takes once, if it has a key. None = it was taken before, and the host keeps no more of the answer
    /// than its digest.
    pub async fn post_once(
        &self,
        path: &[&str],
        media_type: &str,
        key: Option<&str>,
        body: Vec<u8>,
    ) -> Result<Option<Answer>, ClientError> {
        let request = self.request(Method::POST, path, &[])?.header(reqwest::header::CONTENT_TYPE, media_type);
        let request = match key {
            Some(key) => request.header("idempotency-key", key),
            None => request,
        };
        let (status, url, bytes) = self.send(request.body(body)).await?;
        match status.is_success() {
            false => Err(problem::refusal(status.as_u16(), url, &bytes)),
            true if key.is_some() && bytes.is_empty() => Ok(None),
            true => answered(status, url, &bytes).map(Some),
        }
    }

    /// Puts a component in its place.
    pub async fn put_component(
        &self,
        path: &[&str],
        query: &[(&str, &str)],
        headers: &[(&str, &str)],
        body: Vec<u8>,
    ) -> Result<Answer, ClientError> {
        let mut request = self.request(Method::PUT, path, query)?;
        request = request.header(reqwest::header::CONTENT_TYPE, "application/wasm");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        self.answer(request.body(body)).await
    }

    /// Gets an answer whose status is part of it (`/readyz` says 503 with a body of its own).
    pub async fn get_any(&self, path: &[&str]) -> Result<Answer, ClientError> {
        let (status, url, bytes) = self.send(self.request(Method::GET, path, &[])?).await?;
        if let (false, Some(refusal)) = (status.is_success(), problem::read(status.as_u16(), &bytes)) {
            return Err(refusal.into());
        }
        answered(status, url, &bytes)
    }

    /// Gets a text that isn't JSON.
    pub async fn get_text(&self, path: &[&str]) -> Result<String, ClientError> {
        let (status, url, bytes) = self.send(self.request(Method::GET, path, &[])?).await?;
        if status.is_success() {
            return Ok(String::from_utf8_lossy(&bytes).into_owned());
        }
        Err(problem::refusal(status.as_u16(), url, &bytes))
    }

    fn request(&self, method: Method, path: &[&str], query: &[(&str, &str)]) -> Result<RequestBuilder, ClientError> {
        let mut url = self.base.clone();
        if let Some(name) = path.iter().find(|name| matches!(**name, "." | "..")) {
            return Err(ClientError::Lost { name: (*name).to_owned() });
        }
        match url.path_segments_mut() {
            // Segments are escaped one by one: an id may hold a slash.
            Ok(mut segments) => {
                segments.pop_if_empty().extend(path);
            }
            Err(()) => return Err(ClientError::Url { url: self.base.to_string(), cause: "it has no path".into() }),
        }
        if !query.is_empty() {
            url.query_pairs_mut().extend_pairs(query);
        }
        let request = self.http.request(method, url);
        Ok(match &self.token {
            Some(token) => request.bearer_auth(token),
            None => request,
        })
    }

    async fn answer(&self, request: RequestBuilder) -> Result<Answer, ClientError> {
        let (status, url, bytes) = self.send(request).await?;
        if !status.is_success() {
            return Err(problem::refusal(status.as_u16(), url, &bytes));
        }
        answered(status, url, &bytes)
    }

    async fn send(&self, request: RequestBuilder) -> Result<(StatusCode, String, Vec<u8>), ClientError> {
        let response = self.begin(request).await?;
        let status = response.status();
        Ok((status, self.url().to_owned(), self.read(response).await?))
    }

    /// Sends a request; its answer isn't read yet.
    async fn begin(&self, request: RequestBuilder) -> Result<Response, ClientError> {
        let response = request.send().await.map_err(|error| self.failed(&error))?;
        let status = response.status();
        if status.is_redirection() {
            let (url, cause) = (self.url().to_owned(), elsewhere(&response));
            return Err(ClientError::Answer { url, status: status.as_u16(), cause });
        }
        Ok(response)
    }

    /// Reads an answer to its end.
    async fn read(&self, mut response: Response) -> Result<Vec<u8>, ClientError> {
        let mut bytes = Vec::new();
        while let Some(chunk) = response.chunk().await.map_err(|error| self.failed(&error))? {
            if bytes.len() + chunk.len() > ANSWER_BYTES_MAX {
                let (url, status) = (self.url().to_owned(), response.status().as_u16());
                let cause = format!("its body has more than {ANSWER_BYTES_MAX} bytes");
                return Err(ClientError::Answer { url, status, cause });
            }
            bytes.extend_from_slice(&chunk);
        }
        Ok(bytes)
    }

    fn failed(&self, error: &reqwest::Error) -> ClientError {
        let url = self.url().to_owned();
        if error.is_timeout() && !error.is_connect() {
            return ClientError::TimedOut { url, after: self.timeout };
        }
        let cause = root_cause(error);
        // The words of the TLS library, which is below what is asked here.
        match error.is_connect() && cause.contains("certificate") {
            true => ClientError::Tls { url, cause },
            false => ClientError::Unreachable { url, cause },
        }
    }
}

/// What is odd about an answer that leads elsewhere.
fn elsewhere(response: &Response) -> String {
    let location = response.headers().get(reqwest::header::LOCATION).map_or_else(
        || "elsewhere".to_owned(),
        |location| format!("to {:?}", String::from_utf8_lossy(location.as_bytes())),
    );
    format!("it leads {location}, and that isn't followed: if a host answers there, give its address with --url")
}

/// Reads an answer's body.
fn answered(status: StatusCode, url: String, bytes: &[u8]) -> Result<Answer, ClientError> {
    let status = status.as_u16();
    match serde_json::from_slice(bytes) {
        Ok(body) => Ok(Answer { url, status, body, text: String::from_utf8_lossy(bytes).into_owned() }),
        Err(error) => {
            Err(ClientError::Answer { url, status, cause: format!("its body isn't JSON: {}", placed_fault(&error)) })
        }
    }
}

/// The innermost cause, which names the system's error; the outer ones only repeat the address.
fn root_cause(error: &reqwest::Error) -> String {
    let mut cause: &dyn std::error::Error = error;
    while let Some(inner) = cause.source() {
        cause = inner;
    }
    cause.to_string()
}

/// Whether an address is of this machine.
fn is_here(base: &Url) -> bool {
    match base.host() {
        Some(Host::Ipv4(address)) => is_loopback(address.into()),
        Some(Host::Ipv6(address)) => is_loopback(address.into()),
        Some(Host::Domain(name)) => name == LOCALHOST,
        None => false,
    }
}

/// Address that the flags or the environment name.
fn named(global: &Global, term: &Term) -> Option<String> {
    let of_env = || term.env.get(URL_VARIABLE).filter(|url| !url.is_empty()).cloned();
    global.url.clone().or_else(of_env)
}

/// A client that trusts what the flags name, besides the platform's.
fn trusting(global: &Global, term: &Term) -> Result<ClientBuilder, ClientError> {
    let builder = reqwest::Client::builder();
    Ok(authorities(global, term)?.into_iter().fold(builder, ClientBuilder::add_root_certificate))
}

/// Certificates to trust besides the platform's.
fn authorities(global: &Global, term: &Term) -> Result<Vec<Certificate>, ClientError> {
    let of_env = || term.env.get(CA_VARIABLE).filter(|file| !file.is_empty()).map(PathBuf::from);
    let Some(file) = global.ca.clone().or_else(of_env) else { return Ok(Vec::new()) };
    let refuse = |cause: String| ClientError::Ca { file: file.display().to_string(), cause };
    let pem = std::fs::read(&file).map_err(|error| refuse(error.to_string()))?;
    let found = Certificate::from_pem_bundle(&pem).map_err(|error| refuse(root_cause(&error)))?;
    if found.is_empty() { Err(refuse("there is none in it".to_owned())) } else { Ok(found) }
}

fn token(global: &Global, term: &Term) -> Result<Option<String>, ClientError> {
    let refuse = |cause: String| ClientError::Token { cause };
    let (text, from) = match &global.token_file {
        Some(path) => {
            let text = std::fs::read_to_string(path).map_err(|error| refuse(format!("{}: {error}", path.display())))?;
            (text, path.display().to_string())
        }
        None => match term.env.get(TOKEN_VARIABLE) {
            Some(text) => (text.clone(), TOKEN_VARIABLE.to_owned()),
            None => return Ok(None),
        },
    };
    let token = text.trim();
    if token.is_empty() || !token.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err(refuse(format!("{from} is empty or holds more than one word")));
    }
    Ok(Some(token.to_owned()))
}
