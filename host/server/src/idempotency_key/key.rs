//! The `Idempotency-Key` header, and what a request is.

use http::{HeaderMap, HeaderName, HeaderValue, Method, Uri, header};
use serde::Deserialize;
use sha2::{Digest, Sha256};
use utoipa::IntoParams;
use waybill_core::code::Code;
use waybill_core::idempotency::EntryKey;
use waybill_core::ids::{IdempotencyKey, RequestHash, Tenant};
use waybill_core::new_message::NewMessage;

use crate::app::App;
use crate::problem::Problem;

const KEY: HeaderName = HeaderName::from_static("idempotency-key");
/// The header, for the OpenAPI document.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Header)]
#[expect(dead_code, reason = "only documented: the header itself is read by `asked`")]
pub(crate) struct KeyHeader {
    /// A key of your choice, up to 255 visible ASCII characters, as they are or between double quotes: the request is executed once,
    /// and its repeats get the first answer with `idempotency-replayed: true`. 409 while the first one is in flight, 422 for another request.
    #[param(rename = "idempotency-key")]
    idempotency_key: Option<String>,
}

/// A request with a key, before its body is read.
pub(crate) struct Asked {
    pub(super) key: IdempotencyKey,
    pub(super) method: Method,
    pub(super) uri: Uri,
    pub(super) content_type: Option<HeaderValue>,
}

/// A request with a key, and what it is.
pub(crate) struct Wanted {
    pub(super) of: EntryKey,
    pub(super) hash: RequestHash,
}

/// The request's key, if it has one. Refuses a request without one where the configuration requires it.
pub(crate) fn asked(app: &App, headers: &HeaderMap, method: &Method, uri: &Uri) -> Result<Option<Asked>, Problem> {
    let mut values = headers.get_all(KEY).iter();
    let Some(value) = values.next() else {
        if app.idempotency.settings().require {
            return Err(Problem::new(
                Code::TX_IDEMPOTENCY_KEY,
                "the request has no Idempotency-Key header and idempotency.require is on: send a key that is new for every operation",
            ));
        }
        return Ok(None);
    };
    if values.next().is_some() {
        return Err(Problem::new(
            Code::TX_IDEMPOTENCY_KEY,
            "the request has more than one Idempotency-Key header: send one",
        ));
    }
    let refuse = |cause: String| {
        Problem::new(Code::TX_IDEMPOTENCY_KEY, format!("the Idempotency-Key header isn't usable: {cause}"))
    };
    let text = value.to_str().ok().and_then(unquoted).ok_or_else(|| {
        refuse("write up to 255 visible ASCII characters, as they are or between double quotes".to_owned())
    })?;
    let key = IdempotencyKey::new(&text).map_err(|error| refuse(error.to_string()))?;
    let content_type = headers.get(header::CONTENT_TYPE).cloned();
    Ok(Some(Asked { key, method: method.clone(), uri: uri.clone(), content_type }))
}

/// The key in a header's text: a string of RFC 8941 in quotes, or a bare token.
pub(super) fn unquoted(text: &str) -> Option<String> {
    let text = text.trim();
    let Some(inner) = text.strip_prefix('"') else {
        return (!text.is_empty() && text.bytes().all(|byte| byte.is_ascii_graphic())).then(|| text.to_owned());
    };
    let mut key = String::new();
    let mut rest = inner.chars();
    loop {
        match rest.next()? {
            '"' => break,
            '\\' => key.push(rest.next().filter(|escaped| matches!(escaped, '"' | '\\'))?),
            plain => key.push(plain),
        }
    }
    (rest.as_str().is_empty() && !key.is_empty()).then_some(key)
}

/// The one tenant of messages that are sent under one key; none when there are no messages.
pub(crate) fn tenant_of(messages: &[NewMessage]) -> Result<Option<Tenant>, Problem> {
    let name = |message: &NewMessage| message.tenant.as_deref().unwrap_or(Tenant::UNNAMED).to_owned();
    let Some(first) = messages.first().map(name) else { return Ok(None) };
    if let Some(index) = messages.iter().position(|message| name(message) != first) {
        let mut problem = Problem::invalid(
            "messages of one request with an Idempotency-Key are of one tenant: send one request for each tenant",
        )
        .at("tenant");
        problem.at.index = Some(index);
        return Err(problem);
    }
    Tenant::new(&first).map(Some).map_err(|error| Problem::from(error).at("tenant"))
}

/// Lower-case hex, in one piece of memory: it is made for every request that has a key.
pub(super) fn hex(bytes: &[u8]) -> String {
    let digits = bytes.iter().flat_map(|byte| [byte >> 4, byte & 0xf]);
    let mut text = String::with_capacity(2 * bytes.len());
    text.extend(digits.filter_map(|digit| char::from_digit(u32::from(digit), 16)));
    text
}

impl Asked {
    /// Its query isn't part of what the request is: it only says how long the caller waits.
    #[must_use]
    pub fn without_query(self) -> Self {
        let uri = Uri::builder().path_and_query(self.uri.path()).build().unwrap_or(self.uri);
        Self { uri, ..self }
    }

    /// The request as a whole: another one under the same key is refused.
    pub fn of(self, tenant: Tenant, body: &[u8]) -> Result<Wanted, Problem> {
        let content_type = self.content_type.as_ref().map_or(&b""[..], HeaderValue::as_bytes);
        let mut hash = Sha256::new();
        for part in [
            self.method.as_str().as_bytes(),
            self.uri.path().as_bytes(),
            self.uri.query().unwrap_or("").as_bytes(),
            tenant.as_str().as_bytes(),
            &content_type.to_ascii_lowercase(),
            body,
        ] {
            hash.update((part.len() as u64).to_be_bytes());
            hash.update(part);
        }
        let hash = RequestHash::new(hex(&hash.finalize())).map_err(Problem::internal)?;
        Ok(Wanted { of: EntryKey { tenant, key: self.key }, hash })
    }
}
