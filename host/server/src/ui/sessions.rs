//! Sessions of the page: who showed a token at the form, or signed in at the provider, is known by a cookie afterwards.
//!
//! A session of a token is bound to it, and may what the token may at the time: it holds the token's hash, and each request asks the tokens in
//! force for it. One of a person may what the provider said when it began. They are in memory only, so a host that starts again has
//! forgotten them.

use std::collections::HashMap;
use std::sync::Arc;

use http::HeaderMap;
use parking_lot::Mutex;
use tokio::time::Instant;

use super::cookies::SESSION;
use crate::auth::{Principal, TokenHash, Tokens, hash_of};
use crate::limits::{SESSION_IDLE, SESSION_TIME, SESSIONS_MAX, SESSIONS_OF_ONE_MAX};
use crate::secret::secret;
use crate::tls::Encryption;

/// Sessions that were begun.
pub(crate) struct Sessions {
    /// By the hash of their cookie, so that what is compared with what a stranger sends tells nothing.
    begun: Mutex<HashMap<TokenHash, Session>>,
    /// Goes with forms of those who aren't signed in.
    pub door: String,
}

/// Whose a session is.
pub(crate) enum Holder {
    /// Whoever has this token, as long as it is in force.
    Token(TokenHash),
    /// A person whom the provider knows.
    Person(Arc<Principal>),
}

impl Holder {
    fn is_same(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Token(one), Self::Token(other)) => one == other,
            (Self::Person(one), Self::Person(other)) => one.name == other.name,
            (Self::Token(_), Self::Person(_)) | (Self::Person(_), Self::Token(_)) => false,
        }
    }

    /// What they may do now; none = their token was taken away.
    fn principal(&self, tokens: &Tokens) -> Option<Arc<Principal>> {
        match self {
            Self::Token(hash) => tokens.of_hash(hash),
            Self::Person(principal) => Some(Arc::clone(principal)),
        }
    }
}

struct Session {
    holder: Holder,
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

    /// Begins a session of a token that is in force, or of a person; the answer is its cookie's value.
    pub(crate) fn begin(&self, holder: Holder) -> Result<String, Full> {
        let now = Instant::now();
        let mut begun = self.begun.lock();
        begun.retain(|_, session| session.lasts(now));
        let same = begun.iter().filter(|(_, session)| session.holder.is_same(&holder));
        let quietest = same.clone().min_by_key(|(_, session)| session.used).map(|(cookie, _)| *cookie);
        if let Some(cookie) = quietest.filter(|_| same.count() >= SESSIONS_OF_ONE_MAX) {
            begun.remove(&cookie);
        }
        if begun.len() >= SESSIONS_MAX {
            return Err(Full);
        }
        let cookie = secret();
        begun.insert(hash_of(&cookie), Session { holder, form_token: secret().into(), begun: now, used: now });
        Ok(cookie)
    }

    /// The session of a request, if it has one that lasts and whose holder is known.
    pub(crate) fn of(&self, headers: &HeaderMap, tokens: &Tokens, encryption: &Encryption) -> Option<Found> {
        self.found(headers, tokens, encryption, true)
    }

    /// The same of what asks by itself: it makes no session last longer.
    pub(crate) fn seen(&self, headers: &HeaderMap, tokens: &Tokens, encryption: &Encryption) -> Option<Found> {
        self.found(headers, tokens, encryption, false)
    }

    fn found(&self, headers: &HeaderMap, tokens: &Tokens, encryption: &Encryption, is_used: bool) -> Option<Found> {
        let cookie = hash_of(SESSION.of(headers, encryption)?);
        let now = Instant::now();
        let mut begun = self.begun.lock();
        let session = begun.get_mut(&cookie)?;
        let Some(principal) = session.holder.principal(tokens).filter(|_| session.lasts(now)) else {
            begun.remove(&cookie);
            return None;
        };
        if is_used {
            session.used = now;
        }
        Some(Found { principal, form_token: Arc::clone(&session.form_token) })
    }

    /// Ends the session of a request.
    pub(crate) fn end(&self, headers: &HeaderMap, encryption: &Encryption) {
        if let Some(cookie) = SESSION.of(headers, encryption) {
            self.begun.lock().remove(&hash_of(cookie));
        }
    }
}

impl Session {
    fn lasts(&self, now: Instant) -> bool {
        now.duration_since(self.used) < SESSION_IDLE && now.duration_since(self.begun) < SESSION_TIME
    }
}

#[cfg(test)]
mod tests {
    use http::header;

    use super::*;
    use crate::auth::{Role, Tenants, TokenRecord};

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
        HeaderMap::from_iter([(header::COOKIE, format!("other=1; waybill={cookie}").parse().unwrap())])
    }

    #[tokio::test(start_paused = true)]
    async fn a_session_ends_when_it_is_idle_old_signed_out_or_without_its_token() {
        let (sessions, known) = (Sessions::new(), tokens(&["ops", "dev"]));
        let found = |cookie: &str| sessions.of(&with(cookie), &known, &Encryption::None).is_some();
        let begin = || sessions.begin(Holder::Token(hash_of("ops"))).unwrap();
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
        let cookie = sessions.begin(Holder::Token(hash_of("ops"))).unwrap();
        let is_seen = || sessions.seen(&with(&cookie), &known, &Encryption::None).is_some();
        tokio::time::advance(SESSION_IDLE - std::time::Duration::from_secs(1)).await;
        assert!(is_seen());
        tokio::time::advance(std::time::Duration::from_secs(1)).await;
        assert!(!is_seen());
    }

    #[tokio::test(start_paused = true)]
    async fn sessions_are_bounded() {
        let (sessions, known) = (Sessions::new(), tokens(&["ops"]));
        let first = sessions.begin(Holder::Token(hash_of("ops"))).unwrap();
        for _ in 0..SESSIONS_OF_ONE_MAX {
            tokio::time::advance(std::time::Duration::from_secs(1)).await;
            sessions.begin(Holder::Token(hash_of("ops"))).unwrap();
        }
        assert!(sessions.of(&with(&first), &known, &Encryption::None).is_none(), "the quietest gave way");
        assert_eq!(sessions.begun.lock().len(), SESSIONS_OF_ONE_MAX);
        let others = (0..SESSIONS_MAX).map(|number| sessions.begin(Holder::Token(hash_of(&number.to_string()))));
        assert_eq!(others.filter(Result::is_err).count(), SESSIONS_OF_ONE_MAX);
    }

    #[tokio::test(start_paused = true)]
    async fn a_person_has_sessions_of_their_own_that_end_as_others_do() {
        let (sessions, known) = (Sessions::new(), tokens(&["ops"]));
        let person = |name: &str| Holder::Person(Arc::new(Principal { name: name.to_owned(), ..Principal::local() }));
        let found = |cookie: &str| sessions.of(&with(cookie), &known, &Encryption::None);
        let (ada, eve) = (sessions.begin(person("ada")).unwrap(), sessions.begin(person("eve")).unwrap());
        known.put_in_force(&tokens(&["dev"]));
        assert_eq!(found(&ada).unwrap().principal.name, "ada");
        for _ in 0..SESSIONS_OF_ONE_MAX {
            tokio::time::advance(std::time::Duration::from_secs(1)).await;
            sessions.begin(person("ada")).unwrap();
        }
        assert!(found(&ada).is_none() && found(&eve).is_some(), "the quietest of the same person gave way");
        tokio::time::advance(SESSION_IDLE).await;
        assert!(found(&eve).is_none());
        let old = sessions.begin(person("eve")).unwrap();
        let began = Instant::now();
        while began.elapsed() < SESSION_TIME {
            assert!(found(&old).is_some());
            tokio::time::advance(SESSION_IDLE - std::time::Duration::from_secs(300)).await;
        }
        assert!(found(&old).is_none());
    }
}
