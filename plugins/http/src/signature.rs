//! Standard Webhooks 1.0.0: `v1`, HMAC-SHA256 over `id.timestamp.body`, one signature a key so that keys can be rotated.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, Mac as _};
use sha2::Sha256;

/// What a key starts with in its text form.
const PREFIX: &str = "whsec_";

/// Shortest and longest key, in bytes, that the specification allows.
const KEY_BYTES: std::ops::RangeInclusive<usize> = 24..=64;

/// Keys at once. A rotation needs two; each costs every request a pass over its body.
const KEYS_MAX: usize = 8;

/// Signs with every key.
#[derive(Clone)]
pub(crate) struct Signer {
    keys: Vec<Hmac<Sha256>>,
}

impl Signer {
    /// Reads one or several keys, `whsec_<base64>`, separated by blanks. The error never holds any of the secret.
    pub(crate) fn from_secret(secret: &[u8]) -> Result<Self, String> {
        let text = std::str::from_utf8(secret).map_err(|_| "is not text: write `whsec_<base64>`".to_owned())?;
        let keys = text
            .split_ascii_whitespace()
            .enumerate()
            .map(|(place, key)| key_from_text(key).map_err(|reason| format!("key {}: {reason}", place + 1)));
        let keys: Vec<Hmac<Sha256>> = keys.collect::<Result<_, String>>()?;
        match keys.len() {
            0 => Err("is empty: write one or several `whsec_<base64>`, separated by a blank".to_owned()),
            count if count > KEYS_MAX => Err(format!("holds {count} keys, at most {KEYS_MAX} are taken")),
            _ => Ok(Self { keys }),
        }
    }

    /// The value of `webhook-signature`. `id` is the value of `webhook-id`, `seconds` that of `webhook-timestamp`.
    pub(crate) fn sign(&self, id: &str, seconds: u64, body: &[u8]) -> String {
        let head = format!("{id}.{seconds}.");
        let signatures = self.keys.iter().map(|key| {
            let mut mac = key.clone();
            mac.update(head.as_bytes());
            mac.update(body);
            format!("v1,{}", STANDARD.encode(mac.finalize().into_bytes()))
        });
        signatures.collect::<Vec<String>>().join(" ")
    }
}

fn key_from_text(text: &str) -> Result<Hmac<Sha256>, String> {
    let encoded = text.strip_prefix(PREFIX).ok_or("doesn't start with `whsec_`")?;
    let key = STANDARD.decode(encoded).map_err(|_| "isn't base64 after `whsec_`")?;
    if !KEY_BYTES.contains(&key.len()) {
        return Err(format!("has {} bytes, must have {} to {}", key.len(), KEY_BYTES.start(), KEY_BYTES.end()));
    }
    Hmac::new_from_slice(&key).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    /// The vector of the Standard Webhooks libraries' own tests.
    const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
    const ID: &str = "msg_p5jXN8AQM9LWM0D4loKWxJek";
    const SECONDS: u64 = 1_614_265_330;
    const BODY: &[u8] = br#"{"test": 2432232314}"#;
    const SIGNATURE: &str = "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=";

    /// Another key, for rotation.
    const NEXT: &str = "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD";

    #[test]
    fn the_published_vector_is_met() {
        assert_eq!(Signer::from_secret(SECRET.as_bytes()).unwrap().sign(ID, SECONDS, BODY), SIGNATURE);
    }

    #[test]
    fn every_key_of_a_rotation_signs() {
        let both = Signer::from_secret(format!("{NEXT} {SECRET}\n").as_bytes()).unwrap().sign(ID, SECONDS, BODY);
        let (next, old) = both.split_once(' ').unwrap();
        assert_eq!(old, SIGNATURE);
        assert_eq!(next, Signer::from_secret(NEXT.as_bytes()).unwrap().sign(ID, SECONDS, BODY));
        assert_ne!(next, old);
    }

    #[test]
    fn id_time_and_body_are_all_signed() {
        let signer = Signer::from_secret(SECRET.as_bytes()).unwrap();
        assert_ne!(signer.sign("msg_other", SECONDS, BODY), SIGNATURE);
        assert_ne!(signer.sign(ID, SECONDS + 1, BODY), SIGNATURE);
        assert_ne!(signer.sign(ID, SECONDS, b"{}"), SIGNATURE);
    }

    #[test]
    fn a_bad_secret_is_refused_without_showing_it() {
        for secret in
            ["", "  ", "MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "whsec_c2hvcnQ=", "whsec_????", &[SECRET; 9].join(" ")]
        {
            let reason = Signer::from_secret(secret.as_bytes()).err().unwrap();
            assert!(!reason.contains("MfKQ") && !reason.contains("c2hv") && !reason.contains("????"), "{reason}");
        }
        assert!(Signer::from_secret(&[0xff]).is_err());
    }
}
