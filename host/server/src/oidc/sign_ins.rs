//! Sign-ins that were begun and that the provider hasn't answered: in memory, for ten minutes, each for one answer to one browser.

use std::collections::HashMap;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use parking_lot::Mutex;
use sha2::{Digest as _, Sha256};
use tokio::time::Instant;

use crate::auth::{TokenHash, hash_of};
use crate::limits::{SIGN_IN_TIME, SIGN_IN_TO_BYTES_MAX, SIGN_INS_MAX};
use crate::secret::secret;

#[derive(Default)]
pub(crate) struct SignIns {
    /// By the hash of their state, so that what is compared with what a stranger sends tells nothing.
    begun: Mutex<HashMap<TokenHash, Waiting>>,
}

struct Waiting {
    /// Hash of what the cookie of the browser holds that began it.
    browser: TokenHash,
    begun: Begun,
    until: Instant,
}

/// What is remembered of a sign-in until its answer comes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Begun {
    /// Which the ID token has to hold.
    pub nonce: String,
    /// Shows to the provider that who has the code is who asked for it (RFC 7636).
    pub verifier: String,
    /// Address of the page to go on to.
    pub to: String,
}

/// What goes out with a sign-in that begins.
pub(crate) struct Sent {
    pub state: String,
    pub nonce: String,
    /// SHA-256 of the verifier.
    pub challenge: String,
    /// The cookie that binds it to the browser.
    pub cookie: String,
}

impl SignIns {
    pub(crate) fn begin(&self, to: &str) -> Sent {
        let now = Instant::now();
        let (state, cookie) = (secret(), secret());
        let to = if to.len() <= SIGN_IN_TO_BYTES_MAX { to.to_owned() } else { String::new() };
        let begun = Begun { nonce: secret(), verifier: format!("{}{}", secret(), secret()), to };
        let sent = Sent {
            nonce: begun.nonce.clone(),
            challenge: URL_SAFE_NO_PAD.encode(Sha256::digest(begun.verifier.as_bytes())),
            cookie: cookie.clone(),
            state: state.clone(),
        };
        let mut all = self.begun.lock();
        all.retain(|_, waiting| waiting.until > now);
        let oldest = all.iter().min_by_key(|(_, waiting)| waiting.until).map(|(state, _)| *state);
        if let Some(oldest) = oldest.filter(|_| all.len() >= SIGN_INS_MAX) {
            all.remove(&oldest);
        }
        all.insert(hash_of(&state), Waiting { browser: hash_of(&cookie), begun, until: now + SIGN_IN_TIME });
        sent
    }

    /// The sign-in that an answer belongs to; none = there is no such one, or another browser began it. It is used up either way.
    pub(crate) fn used(&self, state: &str, cookie: Option<&str>) -> Option<Begun> {
        let waiting = self.begun.lock().remove(&hash_of(state))?;
        let is_browser = cookie.is_some_and(|cookie| hash_of(cookie) == waiting.browser);
        (is_browser && waiting.until > Instant::now()).then_some(waiting.begun)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_state_is_good_once_in_its_own_browser_and_for_ten_minutes() {
        let all = SignIns::default();
        let sent = all.begin("/ui/messages");
        let begun = all.used(&sent.state, Some(&sent.cookie)).unwrap();
        assert_eq!((begun.to.as_str(), begun.nonce.as_str()), ("/ui/messages", sent.nonce.as_str()));
        assert_eq!(URL_SAFE_NO_PAD.encode(Sha256::digest(begun.verifier.as_bytes())), sent.challenge);
        assert!((43..=128).contains(&begun.verifier.len()), "RFC 7636, section 4.1");
        assert_eq!(all.used(&sent.state, Some(&sent.cookie)), None, "it was used");

        let (one, other) = (all.begin(""), all.begin(""));
        assert_eq!(all.used(&one.state, Some(&other.cookie)), None, "another browser");
        assert_eq!(all.used(&one.state, Some(&one.cookie)), None, "a wrong use uses it up");
        assert_eq!(all.used(&other.state, None), None, "no browser");
        assert_eq!(all.used("guessed", Some(&other.cookie)), None);

        let late = all.begin("");
        tokio::time::advance(SIGN_IN_TIME).await;
        assert_eq!(all.used(&late.state, Some(&late.cookie)), None, "its time is over");
    }

    #[tokio::test(start_paused = true)]
    async fn sign_ins_are_bounded_and_the_oldest_gives_way() {
        let all = SignIns::default();
        let first = all.begin("");
        tokio::time::advance(Duration::from_secs(1)).await;
        for _ in 0..SIGN_INS_MAX {
            all.begin("");
        }
        assert_eq!(all.begun.lock().len(), SIGN_INS_MAX);
        assert_eq!(all.used(&first.state, Some(&first.cookie)), None);
        let long = all.begin(&format!("/ui/messages?filter={}", "x".repeat(SIGN_IN_TO_BYTES_MAX)));
        assert_eq!(all.used(&long.state, Some(&long.cookie)).unwrap().to, "");
    }
}
