//! Sessions of the page: who showed a token at the form is known by a cookie afterwards.
//!
//! A session is bound to its token, and may what the token may at the time: it holds the token's hash, and each request asks the tokens in
//! force for it. They are in memory only, so a host that starts again has forgotten them.

use std::collections::HashMap;
use std::sync::Arc;

use http::{HeaderMap, header};
use parking_lot::Mutex;
use sha2::{Digest, Sha256};
use tokio::time::Instant;
use ulid::Ulid;

use crate::auth::{Principal, TokenHash, Tokens};
use crate::limits::{SESSION_IDLE, SESSION_TIME, SESSIONS_MAX, SESSIONS_OF_TOKEN_MAX};
use crate::tls::Encryption;

/// The cookie where it goes over TLS: browsers take one of this prefix from this host alone, for all of it, and never in clear text.
const SECURE_NAME: &str = "__Host-waybill";
/// The one of loopback, where there is no TLS.
const LOCAL_NAME: &str = "waybill";

/// Sessions that were begun.
pub(crate) struct Sessions {
    /// By the hash of their cookie, so that what is compared with what a stranger sends tells nothing.
    begun: Mutex<HashMap<[u8; 32], Session>>,
    /// Goes with forms of those who aren't signed in.
    pub door: String,
}

struct Session {
    token: TokenHash,
    form_token: Arc<str>,
    begun: Instant,
    used: Instant,
}

/// A session that a request has.
#[derive(Clone)]
pub(crate) struct Found {
    pub principal: Arc<Principal>,
    /// Goes with every form of the session.
    pub form_token: Arc<str>,
}

/// As many sessions are open as may be.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Full;

impl Sessions {
    pub(crate) fn new() -> Self {
        Self { begun: Mutex::default(), door: secret() }
    }

    /// Begins a session with a token that is in force; the answer is its cookie's value.
    pub(crate) fn begin(&self, token: TokenHash) -> Result<String, Full> {
        let now = Instant::now();
        let mut begun = self.begun.lock();
        begun.retain(|_, session| session.lasts(now));
        let same = begun.iter().filter(|(_, session)| session.token == token);
        let quietest = same.clone().min_by_key(|(_, session)| session.used).map(|(cookie, _)| *cookie);
        if let Some(cookie) = quietest.filter(|_| same.count() >= SESSIONS_OF_TOKEN_MAX) {
            begun.remove(&cookie);
        }
        if begun.len() >= SESSIONS_MAX {
            return Err(Full);
        }
        let cookie = secret();
        begun.insert(hash(&cookie), Session { token, form_token: secret().into(), begun: now, used: now });
        Ok(cookie)
    }

    /// The session of a request, if it has one that lasts and whose token is in force.
    pub(crate) fn of(&self, headers: &HeaderMap, tokens: &Tokens, encryption: &Encryption) -> Option<Found> {
        let found = self.seen(headers, tokens, encryption)?;
        if let Some(session) = self.begun.lock().get_mut(&hash(cookie(headers, encryption)?)) {
            session.used = Instant::now();
        }
        Some(found)
    }

    /// The same of what asks by itself: it makes no session last longer.
    pub(crate) fn seen(&self, headers: &HeaderMap, tokens: &Tokens, encryption: &Encryption) -> Option<Found> {
        let cookie = hash(cookie(headers, encryption)?);
        let now = Instant::now();
        let mut begun = self.begun.lock();
        let session = begun.get(&cookie)?;
        let principal = tokens.of_hash(&session.token).filter(|_| session.lasts(now));
        match principal {
            Some(principal) => Some(Found { principal, form_token: Arc::clone(&session.form_token) }),
            None => {
                begun.remove(&cookie);
                None
            }
        }
    }

    /// Ends the session of a request.
    pub(crate) fn end(&self, headers: &HeaderMap, encryption: &Encryption) {
        if let Some(cookie) = cookie(headers, encryption) {
            self.begun.lock().remove(&hash(cookie));
        }
    }
}

impl Session {
    fn lasts(&self, now: Instant) -> bool {
        now.duration_since(self.used) < SESSION_IDLE && now.duration_since(self.begun) < SESSION_TIME
    }
}

/// The header by which a browser takes a session's cookie, or with none forgets it.
pub(crate) fn set_cookie(value: Option<&str>, encryption: &Encryption) -> String {
    let (name, secure) = if is_encrypted(encryption) { (SECURE_NAME, "; Secure") } else { (LOCAL_NAME, "") };
    let (value, ends) = value.map_or(("", "; Max-Age=0"), |value| (value, ""));
    format!("{name}={value}; Path=/; HttpOnly{secure}; SameSite=Lax{ends}")
}

/// Whether what goes between the browser and this host is encrypted.
pub(crate) fn is_encrypted(encryption: &Encryption) -> bool {
    matches!(encryption, Encryption::Tls(_) | Encryption::Proxy)
}

fn cookie<'h>(headers: &'h HeaderMap, encryption: &Encryption) -> Option<&'h str> {
    let name = if is_encrypted(encryption) { SECURE_NAME } else { LOCAL_NAME };
    let values = headers.get_all(header::COOKIE).iter().filter_map(|value| value.to_str().ok());
    let mut pairs = values.flat_map(|value| value.split(';')).filter_map(|pair| pair.trim().split_once('='));
    pairs.find(|(of, _)| *of == name).map(|(_, value)| value)
}

/// The random bits of two: 160.
fn secret() -> String {
    format!("{}{}", Ulid::new(), Ulid::new()).to_lowercase()
}

fn hash(text: &str) -> [u8; 32] {
    Sha256::digest(text.as_bytes()).into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::auth::{Role, Tenants, TokenRecord, hash_of};

    fn tokens(names: &[&str]) -> Tokens {
        let record = |name: &&str| TokenRecord {
            name: (*name).to_owned(),
            sha256: hash_of(name).iter().map(|byte| format!("{byte:02x}")).collect(),
            tenants: Tenants::All,
            roles: vec![Role::Viewer],
            streams: Vec::new(),
        };
        Tokens::new(names.iter().map(record).collect()).unwrap()
    }

    fn with(cookie: &str) -> HeaderMap {
        HeaderMap::from_iter([(header::COOKIE, format!("other=1; {LOCAL_NAME}={cookie}").parse().unwrap())])
    }

    #[tokio::test(start_paused = true)]
    async fn a_session_ends_when_it_is_idle_old_signed_out_or_without_its_token() {
        let (sessions, known) = (Sessions::new(), tokens(&["ops", "dev"]));
        let found = |cookie: &str| sessions.of(&with(cookie), &known, &Encryption::None).is_some();
        let begin = || sessions.begin(hash_of("ops")).unwrap();
        let (idle, old, out) = (begin(), begin(), begin());
        assert!(found(&idle) && found(&old) && found(&out) && !found("guessed"));
        sessions.end(&with(&out), &Encryption::None);
        assert!(!found(&out));
        for _ in 0..14 {
            tokio::time::advance(SESSION_IDLE - std::time::Duration::from_secs(300)).await;
            found(&old);
        }
        assert!(!found(&idle) && !found(&old));
        let revoked = begin();
        assert!(found(&revoked));
        known.put_in_force(&tokens(&["dev"]));
        assert!(!found(&revoked));
        known.put_in_force(&tokens(&["ops"]));
        assert!(!found(&revoked), "it is gone for good");
    }

    #[tokio::test(start_paused = true)]
    async fn a_page_that_is_left_open_makes_no_session_last_longer() {
        let (sessions, known) = (Sessions::new(), tokens(&["ops"]));
        let cookie = sessions.begin(hash_of("ops")).unwrap();
        let is_seen = || sessions.seen(&with(&cookie), &known, &Encryption::None).is_some();
        tokio::time::advance(SESSION_IDLE - std::time::Duration::from_secs(1)).await;
        assert!(is_seen());
        tokio::time::advance(std::time::Duration::from_secs(1)).await;
        assert!(!is_seen());
    }

    #[tokio::test(start_paused = true)]
    async fn sessions_are_bounded() {
        let (sessions, known) = (Sessions::new(), tokens(&["ops"]));
        let first = sessions.begin(hash_of("ops")).unwrap();
        for _ in 0..SESSIONS_OF_TOKEN_MAX {
            tokio::time::advance(std::time::Duration::from_secs(1)).await;
            sessions.begin(hash_of("ops")).unwrap();
        }
        assert!(sessions.of(&with(&first), &known, &Encryption::None).is_none(), "the quietest gave way");
        assert_eq!(sessions.begun.lock().len(), SESSIONS_OF_TOKEN_MAX);
        let others = (0..SESSIONS_MAX).map(|number| sessions.begin(hash_of(&number.to_string())));
        assert_eq!(others.filter(Result::is_err).count(), SESSIONS_OF_TOKEN_MAX);
    }

    #[test]
    fn the_cookie_is_for_this_host_alone() {
        let expected = "__Host-waybill=x; Path=/; HttpOnly; Secure; SameSite=Lax";
        assert_eq!(set_cookie(Some("x"), &Encryption::Proxy), expected);
        assert_eq!(set_cookie(None, &Encryption::None), "waybill=; Path=/; HttpOnly; SameSite=Lax; Max-Age=0");
        // One that went in clear text doesn't count over TLS.
        assert_eq!(cookie(&with("x"), &Encryption::Proxy), None);
    }
}
