//! Sign-ins that were begun and that the provider hasn't answered, each good for ten minutes in one browser.
//!
//! Nothing is kept of them here, or strangers who begin and never finish would push out those who do: all that belongs to one follows from
//! its cookie by a key of this run. A code of the provider is good once, and a finished sign-in takes its cookie away.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use hmac::digest::InvalidLength;
use hmac::{Hmac, Mac};
use sha2::{Digest as _, Sha256};
use waybill_core::time::UnixMillis;

use crate::auth::hash_of;
use crate::limits::{SIGN_IN_TIME, SIGN_IN_TO_BYTES_MAX};
use crate::secret::secret;

pub(crate) struct SignIns {
    mac: Hmac<Sha256>,
}

/// What belongs to a sign-in until its answer comes.
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
    pub(crate) fn new() -> Result<Self, InvalidLength> {
        Ok(Self { mac: Hmac::new_from_slice(secret().as_bytes())? })
    }

    pub(crate) fn begin(&self, to: &str, now: UnixMillis) -> Sent {
        let to = if to.len() <= SIGN_IN_TO_BYTES_MAX { to } else { "" };
        let until = now.0.saturating_add(u64::try_from(SIGN_IN_TIME.as_millis()).unwrap_or(u64::MAX));
        let cookie = format!("{}.{until}.{}", secret(), URL_SAFE_NO_PAD.encode(to));
        Sent {
            state: self.part("state", &cookie),
            nonce: self.part("nonce", &cookie),
            challenge: URL_SAFE_NO_PAD.encode(Sha256::digest(self.part("verifier", &cookie).as_bytes())),
            cookie,
        }
    }

    /// The sign-in that an answer belongs to; none = this browser began no such one, or its time is over.
    pub(crate) fn begun(&self, state: &str, cookie: Option<&str>, now: UnixMillis) -> Option<Begun> {
        let cookie = cookie?;
        // Hashes are compared, so that how long it takes tells nothing. Only what this run made has a state that fits.
        if hash_of(&self.part("state", cookie)) != hash_of(state) {
            return None;
        }
        let (_, rest) = cookie.split_once('.')?;
        let (until, to) = rest.split_once('.')?;
        if until.parse::<u64>().ok()? <= now.0 {
            return None;
        }
        let to = String::from_utf8(URL_SAFE_NO_PAD.decode(to).ok()?).ok()?;
        Some(Begun { nonce: self.part("nonce", cookie), verifier: self.part("verifier", cookie), to })
    }

    /// What stands for a purpose in the sign-in of a cookie: 64 hex digits.
    fn part(&self, what: &str, cookie: &str) -> String {
        let mac = self.mac.clone().chain_update(what).chain_update([0]).chain_update(cookie);
        mac.finalize().into_bytes().iter().map(|byte| format!("{byte:02x}")).collect()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    const NOW: UnixMillis = UnixMillis(1_800_000_000_000);

    #[test]
    fn a_state_is_good_in_its_own_browser_for_ten_minutes() {
        let all = SignIns::new().unwrap();
        let sent = all.begin("/ui/messages", NOW);
        let begun = all.begun(&sent.state, Some(&sent.cookie), NOW).unwrap();
        assert_eq!((begun.to.as_str(), begun.nonce.as_str()), ("/ui/messages", sent.nonce.as_str()));
        assert_eq!(URL_SAFE_NO_PAD.encode(Sha256::digest(begun.verifier.as_bytes())), sent.challenge);
        assert!((43..=128).contains(&begun.verifier.len()), "RFC 7636, section 4.1");

        let (one, other) = (all.begin("", NOW), all.begin("", NOW));
        assert_eq!(all.begun(&one.state, Some(&other.cookie), NOW), None, "another browser");
        assert_eq!(all.begun(&one.state, None, NOW), None, "no browser");
        assert_eq!(all.begun("guessed", Some(&other.cookie), NOW), None);
        assert_eq!(all.begun("", Some(""), NOW), None);
        assert!(all.begun(&one.state, Some(&one.cookie), NOW).is_some(), "a wrong answer uses nothing up");

        let last = UnixMillis(NOW.0 + u64::try_from(SIGN_IN_TIME.as_millis()).unwrap() - 1);
        assert!(all.begun(&sent.state, Some(&sent.cookie), last).is_some());
        assert_eq!(all.begun(&sent.state, Some(&sent.cookie), UnixMillis(last.0 + 1)), None, "its time is over");
    }

    #[test]
    fn a_cookie_that_this_run_did_not_make_is_no_sign_in() {
        let (all, before) = (SignIns::new().unwrap(), SignIns::new().unwrap());
        let sent = before.begin("/ui", NOW);
        assert_eq!(all.begun(&sent.state, Some(&sent.cookie), NOW), None);
        let sent = all.begin("/ui", NOW);
        let later = sent.cookie.replacen("18", "19", 1);
        assert_eq!(all.begun(&sent.state, Some(&later), NOW), None, "nobody gives it more time");
    }

    #[test]
    fn an_address_too_long_for_a_cookie_is_forgotten() {
        let all = SignIns::new().unwrap();
        let longest = "x".repeat(SIGN_IN_TO_BYTES_MAX);
        let sent = all.begin(&longest, NOW);
        assert!(sent.cookie.len() < 3_500, "browsers keep 4,096 bytes with the name and the attributes");
        assert_eq!(all.begun(&sent.state, Some(&sent.cookie), NOW).unwrap().to, longest);
        let sent = all.begin(&format!("{longest}x"), NOW);
        assert_eq!(all.begun(&sent.state, Some(&sent.cookie), NOW).unwrap().to, "");
    }
}
