//! What is asked of the provider: its document (OpenID Connect Discovery 1.0), its keys, and a code's ID token.
//!
//! Bounded: each request in time and size, keys of which nobody heard in how often they are looked for, codes in how many are exchanged at
//! once. A provider that failed is left alone for a moment.

use std::sync::Arc;
use std::time::Duration;

use http::header;
use reqwest::redirect::Policy;
use reqwest::{Certificate, Client, RequestBuilder, Url};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio::sync::{Mutex, Semaphore};
use tokio::time::Instant;
use waybill_core::code::Code;

use super::id_token::{self, Expected, KeySet, Keys, Refused};
use super::{Begun, OidcConfig, is_guarded, is_local};
use crate::error::ServerError;
use crate::limits::{
    EXCHANGE_TURN_TIMEOUT, EXCHANGES_MAX, PROVIDER_ANSWER_BYTES_MAX, PROVIDER_CONNECT_TIMEOUT, PROVIDER_FAULT_PAUSE,
    PROVIDER_KEPT, PROVIDER_KEYS_PAUSE, PROVIDER_TEXT_MAX, PROVIDER_TIMEOUT, RETRY_AFTER_BUSY,
};
use crate::problem::Problem;

/// Where a provider's document is, below its issuer.
const DOCUMENT: &str = "/.well-known/openid-configuration";
/// What a provider calls the way that takes id and secret in a header.
const BASIC: &str = "client_secret_basic";
/// The same in the form.
const POST: &str = "client_secret_post";
/// A code is not, or no longer, good (RFC 6749, section 5.2): whoever has it begins anew.
const INVALID_GRANT: &str = "invalid_grant";
/// What a file of certificates has to hold.
const CA_FORM: &str = "write the certificates to trust in PEM";

/// What goes out with a sign-in that begins.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Begin<'a> {
    pub redirect_uri: &'a str,
    pub state: &'a str,
    pub nonce: &'a str,
    pub challenge: &'a str,
}

pub(super) struct Provider {
    http: Client,
    issuer: String,
    client_id: String,
    secret: String,
    scopes: String,
    kept: Mutex<Kept>,
    exchanges: Semaphore,
}

/// What was asked for last. It is locked while something is asked for, so that many who want it ask once.
#[derive(Default)]
struct Kept {
    document: Option<(Arc<Document>, Instant)>,
    keys: Option<(Arc<Keys>, Instant)>,
    /// When the latest request failed, and why; none = it didn't.
    failed: Option<(Instant, Problem)>,
}

/// What a provider says of itself, as far as it matters here.
#[derive(Clone, Debug, Deserialize)]
struct Document {
    issuer: String,
    authorization_endpoint: String,
    token_endpoint: String,
    jwks_uri: String,
    /// None = [`BASIC`] alone, says the standard.
    token_endpoint_auth_methods_supported: Option<Vec<String>>,
}

/// What a code is exchanged for. Of its tokens one is used.
#[derive(Deserialize)]
struct Tokens {
    id_token: Option<String>,
}

/// Why a code wasn't exchanged (RFC 6749, section 5.2).
#[derive(Default, Deserialize)]
#[serde(default)]
struct TokenFault {
    error: String,
    error_description: String,
}

impl Kept {
    /// Refuses to ask a provider that failed a moment ago.
    fn may_ask(&self) -> Result<(), Problem> {
        match &self.failed {
            Some((at, why)) if at.elapsed() < PROVIDER_FAULT_PAUSE => Err(why.clone()),
            _ => Ok(()),
        }
    }

    /// Remembers whether the provider failed.
    fn noted<T>(&mut self, asked: Result<T, Problem>) -> Result<T, Problem> {
        self.failed = asked.as_ref().err().map(|why| (Instant::now(), why.clone()));
        asked
    }
}

impl Provider {
    pub(super) fn new(config: &OidcConfig) -> Result<Self, ServerError> {
        let mut http = Client::builder();
        // No proxy leads to this machine.
        if is_local(&config.issuer) {
            http = http.no_proxy();
        }
        if let Some(file) = &config.ca {
            let refuse =
                |cause: String| ServerError::Tls { setting: "auth.oidc.ca", file: file.clone(), cause, fix: CA_FORM };
            let pem = std::fs::read(file).map_err(|error| refuse(error.to_string()))?;
            let found = Certificate::from_pem_bundle(&pem).map_err(|error| refuse(root_cause(&error)))?;
            if found.is_empty() {
                return Err(refuse("there is no certificate in it".to_owned()));
            }
            http = found.into_iter().fold(http, reqwest::ClientBuilder::add_root_certificate);
        }
        let http = http
            // The secret and codes go where they belong, and nowhere else.
            .redirect(Policy::none())
            .connect_timeout(PROVIDER_CONNECT_TIMEOUT)
            .timeout(PROVIDER_TIMEOUT)
            .user_agent(concat!("waybill/", env!("CARGO_PKG_VERSION")))
            .build()
            .map_err(|error| ServerError::Oidc { cause: root_cause(&error) })?;
        Ok(Self {
            http,
            issuer: config.issuer.clone(),
            client_id: config.client_id.clone(),
            secret: config.secret.clone(),
            scopes: config.scopes.join(" "),
            kept: Mutex::default(),
            exchanges: Semaphore::new(EXCHANGES_MAX),
        })
    }

    pub(super) fn issuer(&self) -> &str {
        &self.issuer
    }

    /// Where a browser goes to sign in.
    pub(super) async fn authorization(&self, begin: &Begin<'_>) -> Result<String, Problem> {
        let document = self.document().await?;
        // It was read once already, when the document came.
        let mut address = address_of(&self.issuer, "authorization_endpoint", &document.authorization_endpoint)?;
        address.query_pairs_mut().extend_pairs([
            ("response_type", "code"),
            ("client_id", self.client_id.as_str()),
            ("redirect_uri", begin.redirect_uri),
            ("scope", self.scopes.as_str()),
            ("state", begin.state),
            ("nonce", begin.nonce),
            ("code_challenge", begin.challenge),
            ("code_challenge_method", "S256"),
        ]);
        Ok(address.into())
    }

    /// The claims of the ID token that a code is exchanged for.
    pub(super) async fn claims(&self, code: &str, begun: &Begun, redirect_uri: &str) -> Result<Value, Problem> {
        let turn = tokio::time::timeout(EXCHANGE_TURN_TIMEOUT, self.exchanges.acquire());
        let Ok(Ok(_place)) = turn.await else {
            let text = format!("{EXCHANGES_MAX} people are being signed in at once, as many as may: begin again");
            return Err(Problem::new(Code::HTTP_OVERLOADED, text).after(RETRY_AFTER_BUSY));
        };
        let document = self.document().await?;
        let token = exchanged(self.exchange(&document, code, begun, redirect_uri)?).await?;
        let expected = Expected { issuer: &self.issuer, client_id: &self.client_id, nonce: &begun.nonce };
        let keys = self.keys(&document, PROVIDER_KEPT).await?;
        let verified = match id_token::verify(&token, &keys, expected) {
            // The provider may have a new one, of the same name even.
            Err(Refused::UnknownKey | Refused::Signature) => {
                let keys = self.keys(&document, PROVIDER_KEYS_PAUSE).await?;
                id_token::verify(&token, &keys, expected)
            }
            verified => verified,
        };
        verified.map_err(|why| {
            Problem::new(Code::AUTH_SIGN_IN, format!("the provider's ID token doesn't count: {why}; begin again"))
        })
    }

    /// The request that exchanges a code for an ID token.
    fn exchange(
        &self,
        document: &Document,
        code: &str,
        begun: &Begun,
        redirect_uri: &str,
    ) -> Result<RequestBuilder, Problem> {
        let mut form = form_urlencoded::Serializer::new(String::new());
        form.append_pair("grant_type", "authorization_code");
        form.append_pair("code", code);
        form.append_pair("redirect_uri", redirect_uri);
        form.append_pair("code_verifier", &begun.verifier);
        let mut request = self.http.post(address_of(&self.issuer, "token_endpoint", &document.token_endpoint)?);
        let takes = |way: &str| match &document.token_endpoint_auth_methods_supported {
            Some(ways) => ways.iter().any(|known| known == way),
            None => way == BASIC,
        };
        if takes(BASIC) {
            // Both are escaped first (RFC 6749, section 2.3.1).
            let escaped = |text: &str| form_urlencoded::byte_serialize(text.as_bytes()).collect::<String>();
            request = request.basic_auth(escaped(&self.client_id), Some(escaped(&self.secret)));
        } else if takes(POST) {
            form.append_pair("client_id", &self.client_id);
            form.append_pair("client_secret", &self.secret);
        } else {
            return Err(fault("token_endpoint", format!("it takes neither {BASIC} nor {POST}")));
        }
        Ok(request.header(header::CONTENT_TYPE, "application/x-www-form-urlencoded").body(form.finish()))
    }

    /// What the provider says of itself.
    async fn document(&self) -> Result<Arc<Document>, Problem> {
        let mut kept = self.kept.lock().await;
        if let Some((document, at)) = &kept.document
            && at.elapsed() < PROVIDER_KEPT
        {
            return Ok(Arc::clone(document));
        }
        kept.may_ask()?;
        let asked = self.ask_document().await;
        let document = Arc::new(kept.noted(asked)?);
        kept.document = Some((Arc::clone(&document), Instant::now()));
        Ok(document)
    }

    async fn ask_document(&self) -> Result<Document, Problem> {
        let address = format!("{}{DOCUMENT}", self.issuer.trim_end_matches('/'));
        let document: Document =
            ask("document", self.http.get(address_of(&self.issuer, "document", &address)?)).await?;
        if document.issuer != self.issuer {
            let text = format!(
                "it says that its issuer is {:?}, and [auth.oidc] issuer is {:?}: write it exactly so",
                shortened(&document.issuer),
                self.issuer
            );
            return Err(fault("document", text));
        }
        address_of(&self.issuer, "authorization_endpoint", &document.authorization_endpoint)?;
        address_of(&self.issuer, "token_endpoint", &document.token_endpoint)?;
        address_of(&self.issuer, "jwks_uri", &document.jwks_uri)?;
        Ok(document)
    }

    /// The provider's keys, asked for within this time.
    async fn keys(&self, document: &Document, within: Duration) -> Result<Arc<Keys>, Problem> {
        let mut kept = self.kept.lock().await;
        if let Some((keys, at)) = &kept.keys
            && at.elapsed() < within
        {
            return Ok(Arc::clone(keys));
        }
        kept.may_ask()?;
        let asked = match address_of(&self.issuer, "jwks_uri", &document.jwks_uri) {
            Ok(address) => ask::<KeySet>("jwks_uri", self.http.get(address)).await,
            Err(problem) => Err(problem),
        };
        let keys = Arc::new(Keys::of(kept.noted(asked)?));
        kept.keys = Some((Arc::clone(&keys), Instant::now()));
        Ok(keys)
    }
}

/// The ID token that a code was exchanged for.
async fn exchanged(request: RequestBuilder) -> Result<String, Problem> {
    let (status, body) = answer("token_endpoint", request).await?;
    if !status.is_success() {
        let why: TokenFault = serde_json::from_slice(&body).unwrap_or_default();
        let said = said(&why.error, &why.error_description);
        return Err(match why.error.as_str() {
            INVALID_GRANT => Problem::new(
                Code::AUTH_SIGN_IN,
                format!("the provider doesn't take its code back: {said}; begin again"),
            ),
            _ => fault("token_endpoint", format!("it answers {status} {said}")),
        });
    }
    let tokens: Tokens = read("token_endpoint", &body)?;
    tokens.id_token.ok_or_else(|| fault("token_endpoint", "its answer has no ID token".to_owned()))
}

/// Asks for something in JSON.
async fn ask<T: DeserializeOwned>(what: &str, request: RequestBuilder) -> Result<T, Problem> {
    let (status, body) = answer(what, request).await?;
    if !status.is_success() {
        return Err(fault(what, format!("it answers {status}")));
    }
    read(what, &body)
}

/// The whole answer to a request, as far as it isn't too large.
async fn answer(what: &str, request: RequestBuilder) -> Result<(http::StatusCode, Vec<u8>), Problem> {
    let failed = |error: reqwest::Error| {
        let cause = if error.is_timeout() { "it doesn't answer in time".to_owned() } else { root_cause(&error) };
        fault(what, cause)
    };
    let mut answer = request.header(header::ACCEPT, "application/json").send().await.map_err(failed)?;
    let mut body = Vec::new();
    while let Some(part) = answer.chunk().await.map_err(failed)? {
        if body.len() + part.len() > PROVIDER_ANSWER_BYTES_MAX {
            return Err(fault(what, format!("its answer has more than {PROVIDER_ANSWER_BYTES_MAX} bytes")));
        }
        body.extend_from_slice(&part);
    }
    Ok((answer.status(), body))
}

fn read<T: DeserializeOwned>(what: &str, body: &[u8]) -> Result<T, Problem> {
    // What the reader says may quote a token.
    serde_json::from_slice(body).map_err(|_| fault(what, "its answer isn't what the standard asks for".to_owned()))
}

/// An address of the provider, to which nothing goes that others could read.
fn address_of(issuer: &str, what: &str, text: &str) -> Result<Url, Problem> {
    // A provider elsewhere leads to nothing on this machine.
    let is_right = |text: &&str| is_guarded(text) && (is_local(issuer) || !is_local(text));
    let guarded = Some(text).filter(is_right).and_then(|text| Url::parse(text).ok());
    guarded.ok_or_else(|| fault(what, format!("{:?} isn't an address that begins with https://", shortened(text))))
}

/// The provider failed, not the person.
fn fault(what: &str, cause: String) -> Problem {
    let text = format!(
        "the provider's {what}: {cause}; begin again in a moment, and if it goes on, have an operator compare [auth.oidc] with the provider"
    );
    Problem::new(Code::AUTH_PROVIDER, text).after(PROVIDER_FAULT_PAUSE)
}

/// What a provider says that went wrong, by its code and its words.
pub(crate) fn said(error: &str, description: &str) -> String {
    let both = if description.is_empty() { error.to_owned() } else { format!("{error}: {description}") };
    shortened(&both)
}

fn shortened(text: &str) -> String {
    text.chars().take(PROVIDER_TEXT_MAX).collect()
}

/// The innermost cause, which names the system's error; the outer ones only repeat the address.
fn root_cause(error: &reqwest::Error) -> String {
    let mut cause: &dyn std::error::Error = error;
    while let Some(inner) = cause.source() {
        cause = inner;
    }
    cause.to_string()
}
