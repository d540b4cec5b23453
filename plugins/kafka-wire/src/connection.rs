//! One connection: what the server can do, logging in, and one question after the other.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use bytes::{Bytes, BytesMut};
use kafka_protocol::messages::{
    ApiVersionsRequest, RequestHeader, ResponseHeader, SaslAuthenticateRequest, SaslHandshakeRequest,
};
use kafka_protocol::protocol::{Decodable, Encodable, HeaderVersion as _};
use waybill_plugin::broker::{Address, Codes, Link};
use waybill_plugin::deadline::Deadline;
use waybill_plugin::net::Input;
use waybill_plugin::transport::{ErrorKind, Fault, PluginError};

use crate::ask::Ask;
use crate::login::{Identity, Login, Sasl};
use crate::refusal::{self, Refusal};
use crate::scram::{Hash, Scram};
use crate::text;

/// Codes of what goes wrong below the protocol.
pub const CODES: &Codes = &Codes {
    denied: "KAFKA.DENIED",
    tls: "KAFKA.TLS",
    unsupported: "KAFKA.UNSUPPORTED",
    resolve: "KAFKA.RESOLVE",
    refused: "KAFKA.REFUSED",
    timeout: "KAFKA.TIMEOUT",
    cancelled: "KAFKA.CANCELLED",
    limit: "KAFKA.LIMIT",
    lost: "KAFKA.LOST",
};

/// Largest answer: what a fetch may bring, and more than any other says.
const ANSWER_BYTES_MAX: usize = 48 * 1024 * 1024;
/// The server has no such mechanism.
const UNSUPPORTED_MECHANISM: i16 = 33;

/// A connection that is logged in.
pub struct Connection {
    link: Link,
    input: Input,
    client: String,
    number: i32,
    /// Versions that the server speaks, by the numbers of requests.
    versions: HashMap<i16, (i16, i16)>,
    /// When the login ends: the server closes what goes on after that.
    expires: Option<Instant>,
    /// Milliseconds for which the server asked to wait, until they are taken.
    throttle: u32,
}

/// What came of logging in.
enum LoggedIn {
    Yes,
    /// The server has these mechanisms only, and closes.
    Other(Vec<String>),
}

impl Connection {
    /// Logs in at the server behind this link. None if it has to be connected to once more, for another mechanism.
    ///
    /// # Errors
    /// It speaks another protocol, or refuses us.
    pub async fn open(
        link: Link,
        identity: &Identity,
        secure: bool,
        deadline: Deadline,
    ) -> Result<Option<Self>, PluginError> {
        let mut connection = Self {
            link,
            input: Input::new(),
            client: identity.client.clone(),
            number: 0,
            versions: HashMap::new(),
            expires: None,
            throttle: 0,
        };
        connection.learn_versions(deadline).await?;
        let Some(login) = &identity.login else { return Ok(Some(connection)) };
        let sasl = identity.settled.get().unwrap_or(login.sasl);
        match connection.log_in(login, sasl, deadline).await? {
            LoggedIn::Yes => Ok(Some(connection)),
            // What was settled may have been taken away since: it is looked for anew.
            LoggedIn::Other(offered) if login.sasl == Sasl::Auto => {
                identity.settled.set(Some(choose(&offered, secure)?));
                Ok(None)
            }
            LoggedIn::Other(offered) => Err(no_mechanism(sasl, &offered)),
        }
    }

    /// The server that it is connected to.
    pub fn address(&self) -> &Address {
        self.link.address()
    }

    /// Takes what has come while nobody asked. Nothing should have, but for the end.
    ///
    /// # Errors
    /// The connection is of no more use.
    pub async fn catch_up(&mut self) -> Result<(), PluginError> {
        if self.expires.is_some_and(|expires| Instant::now() >= expires) {
            return Err(PluginError::unavailable(CODES.lost, "the login is about to end: a new connection is made"));
        }
        let bytes = self.link.receive_ready().await?;
        if bytes.is_empty() { Ok(()) } else { Err(strange("an answer that nobody asked for")) }
    }

    /// Says goodbye: nothing is unsent.
    pub async fn close(self) {
        self.link.finish().await;
    }

    /// Milliseconds for which the server asked to wait since this was taken last.
    pub fn take_throttle(&mut self) -> u32 {
        std::mem::take(&mut self.throttle)
    }

    /// Notes that the server asked to wait.
    pub fn throttled(&mut self, millis: i32) {
        self.throttle = self.throttle.max(u32::try_from(millis).unwrap_or(0));
    }

    /// The version of a request that both sides speak.
    ///
    /// # Errors
    /// There is none.
    pub fn version<R: Ask>(&self) -> Result<i16, PluginError> {
        let (least, most) = self.versions.get(&R::KEY).copied().unwrap_or((0, -1));
        let version = most.min(R::MOST);
        if version < least.max(R::LEAST) {
            let reason = format!(
                "the server speaks versions {least} to {most} of {}, and {} to {} are spoken here: use Kafka 2.1 or newer",
                R::NAME,
                R::LEAST,
                R::MOST
            );
            return Err(PluginError::new(ErrorKind::Unsupported, Fault::new("KAFKA.UNSUPPORTED", reason)));
        }
        Ok(version)
    }

    /// Asks, and waits for the answer.
    ///
    /// # Errors
    /// The connection is of no more use.
    pub async fn ask<R: Ask>(&mut self, request: &R, deadline: Deadline) -> Result<R::Answer, PluginError> {
        let version = self.version::<R>()?;
        self.ask_in(request, version, deadline).await
    }

    async fn ask_in<R: Ask>(
        &mut self,
        request: &R,
        version: i16,
        deadline: Deadline,
    ) -> Result<R::Answer, PluginError> {
        self.number = self.number.wrapping_add(1);
        let bytes = self.encode(request, version)?;
        self.link.write(bytes, deadline).await?;
        let mut answer = self.answer::<R>(deadline).await?;
        let header = ResponseHeader::decode(&mut answer, R::Answer::header_version(version));
        let header = header.map_err(|_| strange("an answer without a head"))?;
        if header.correlation_id != self.number {
            return Err(strange("an answer to another question"));
        }
        R::Answer::decode(&mut answer, version).map_err(|_| strange("an answer that can't be read"))
    }

    fn encode<R: Ask>(&self, request: &R, version: i16) -> Result<Vec<u8>, PluginError> {
        let head = RequestHeader::default()
            .with_request_api_key(R::KEY)
            .with_request_api_version(version)
            .with_correlation_id(self.number)
            .with_client_id(Some(text(&self.client)));
        let cant = |_| PluginError::internal(format!("{} can't be written in version {version}", R::NAME));
        let size = request.compute_size(version).map_err(cant)?;
        let mut out = BytesMut::with_capacity(size + 64);
        out.extend_from_slice(&[0; 4]);
        head.encode(&mut out, R::header_version(version)).map_err(cant)?;
        request.encode(&mut out, version).map_err(cant)?;
        let mut bytes = Vec::from(out);
        let length = u32::try_from(bytes.len().saturating_sub(4)).unwrap_or(u32::MAX).to_be_bytes();
        for (place, byte) in bytes.iter_mut().zip(length) {
            *place = byte;
        }
        Ok(bytes)
    }

    /// The next answer without its length.
    async fn answer<R: Ask>(&mut self, deadline: Deadline) -> Result<Bytes, PluginError> {
        loop {
            if let Some((head, rest)) = self.input.unread().split_first_chunk::<4>() {
                let length = u32::from_be_bytes(*head) as usize;
                if length > ANSWER_BYTES_MAX {
                    return Err(strange("an answer larger than any"));
                }
                if let Some(whole) = rest.get(..length) {
                    let answer = Bytes::copy_from_slice(whole);
                    self.input.consume(4 + length);
                    return Ok(answer);
                }
            }
            match self.link.receive(deadline).await {
                Ok(bytes) => self.input.push(bytes),
                Err(error) if error.fault.code == CODES.timeout => {
                    let reason = format!("the server didn't answer {} in time", R::NAME);
                    return Err(PluginError::unavailable("KAFKA.ACK_TIMEOUT", reason));
                }
                Err(error) => return Err(error),
            }
        }
    }

    async fn learn_versions(&mut self, deadline: Deadline) -> Result<(), PluginError> {
        let answer = self.ask_in(&ApiVersionsRequest::default(), 0, deadline).await?;
        refusal::check(answer.error_code, "ApiVersions", None)?;
        self.versions = answer.api_keys.iter().map(|key| (key.api_key, (key.min_version, key.max_version))).collect();
        Ok(())
    }

    async fn log_in(&mut self, login: &Login, sasl: Sasl, deadline: Deadline) -> Result<LoggedIn, PluginError> {
        let request = SaslHandshakeRequest::default().with_mechanism(text(sasl.name()));
        let answer = self.ask(&request, deadline).await?;
        if answer.error_code == UNSUPPORTED_MECHANISM {
            return Ok(LoggedIn::Other(answer.mechanisms.iter().map(|name| name.as_str().to_owned()).collect()));
        }
        refusal::check(answer.error_code, "the login", None)?;
        let hash = match sasl {
            Sasl::Plain => {
                let proof = format!("\0{}\0{}", login.user, login.password).into_bytes();
                self.authenticate(proof, deadline).await?;
                return Ok(LoggedIn::Yes);
            }
            Sasl::ScramSha256 => Hash::Sha256,
            Sasl::Auto | Sasl::ScramSha512 => Hash::Sha512,
        };
        let mut scram = Scram::new(hash, &login.user, &login.password, &nonce()?);
        let challenge = self.authenticate(scram.first(), deadline).await?;
        let answer = scram.answer(&challenge).map_err(unproven)?;
        let last = self.authenticate(answer, deadline).await?;
        if scram.is_proven(&last) { Ok(LoggedIn::Yes) } else { Err(unproven("it doesn't know the password")) }
    }

    async fn authenticate(&mut self, proof: Vec<u8>, deadline: Deadline) -> Result<Bytes, PluginError> {
        let request = SaslAuthenticateRequest::default().with_auth_bytes(Bytes::from(proof));
        let answer = self.ask(&request, deadline).await?;
        let said = answer.error_message.as_ref().map(|said| said.as_str());
        refusal::check(answer.error_code, "the login", said)?;
        // A tenth before its end, so that no request comes too late.
        let lifetime = u64::try_from(answer.session_lifetime_ms).ok().filter(|lifetime| *lifetime > 0);
        self.expires = lifetime.map(|lifetime| Instant::now() + Duration::from_millis(lifetime - lifetime / 10));
        Ok(answer.auth_bytes)
    }
}

/// The strongest mechanism of those that a server has.
fn choose(offered: &[String], secure: bool) -> Result<Sasl, PluginError> {
    let has = |sasl: Sasl| offered.iter().any(|name| name == sasl.name());
    if let Some(sasl) = [Sasl::ScramSha512, Sasl::ScramSha256].into_iter().find(|sasl| has(*sasl)) {
        return Ok(sasl);
    }
    match has(Sasl::Plain) {
        true if secure => Ok(Sasl::Plain),
        true => Err(PluginError::denied(
            "KAFKA.SASL_MECHANISM",
            "the server has PLAIN alone, and without TLS that shows the password to the network: use TLS, or set `sasl = \"plain\"`",
        )),
        false => Err(no_mechanism(Sasl::Auto, offered)),
    }
}

fn no_mechanism(sasl: Sasl, offered: &[String]) -> PluginError {
    let of = format!("{}; it has {}", sasl.name(), offered.join(", "));
    Refusal::of(UNSUPPORTED_MECHANISM, &of, None).error()
}

fn nonce() -> Result<String, PluginError> {
    let mut bytes = [0; 24];
    getrandom::fill(&mut bytes).map_err(|_| PluginError::internal("the host gives no random bytes"))?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

fn unproven(why: &str) -> PluginError {
    PluginError::denied("KAFKA.AUTH", format!("the server doesn't prove who it is: {why}"))
}

/// Something else than Kafka, or another port of it.
fn strange(why: &str) -> PluginError {
    PluginError::unavailable("KAFKA.PROTOCOL", format!("who answers there speaks no Kafka without TLS or in it: {why}"))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_password_in_plain_text_is_the_last_resort() {
        let offered = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        let both = offered(&["PLAIN", "SCRAM-SHA-256"]);
        assert_eq!(choose(&both, true), Ok(Sasl::ScramSha256));
        assert_eq!(choose(&offered(&["PLAIN"]), true), Ok(Sasl::Plain));
        for (names, secure) in [(&["PLAIN"], false), (&["GSSAPI"], true)] {
            let error = choose(&offered(names), secure).unwrap_err();
            assert_eq!((error.kind, error.fault.code.as_str()), (ErrorKind::Denied, "KAFKA.SASL_MECHANISM"));
        }
    }
}
