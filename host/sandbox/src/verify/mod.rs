//! Whether a component is the one that was meant: its digest, and who vouches for it.
//!
//! A component is read once ([`Fetched`]); what is checked are the very bytes that are loaded, whatever happens to the file.
//! Order: digest, signature, then anything that parses it. A bundled component needs no signature: it came with the host.

mod fetch;
mod keys;

use std::collections::BTreeMap;

use thiserror::Error;
use waybill_core::code::Code;

pub use fetch::{Fetched, SIGNATURE_FILE_BYTES_MAX, signature_path};
pub use keys::{PublicKey, Signature, SigningKey};

#[derive(Clone, Debug, Default)]
pub struct Trust {
    /// Keys by the operator's name for them.
    pub keys: BTreeMap<String, PublicKey>,
    /// A component that isn't bundled must be signed by one of them.
    pub required: bool,
}

/// What is known of a component's signature.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum SignatureState {
    /// It came with this binary.
    Bundled,
    /// Nobody vouches for it.
    #[default]
    Unsigned,
    /// The holder of this key does.
    SignedBy(String),
    /// It is signed, and this host trusts no keys that it could be checked by.
    Unchecked,
}

impl SignatureState {
    /// In a word or two.
    pub fn words(&self) -> String {
        match self {
            Self::Bundled => "bundled".to_owned(),
            Self::Unsigned => "unsigned".to_owned(),
            Self::SignedBy(key) => format!("signed by {key}"),
            Self::Unchecked => "signed, not checked".to_owned(),
        }
    }
}

/// A component isn't the one that was meant, or nobody trusted vouches for it.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum VerifyError {
    /// The digest is another one.
    #[error(
        "its digest is {found}, and {expected} is expected: give the component that was meant, or correct `sha256`"
    )]
    DigestMismatch { expected: String, found: String },
    /// No signature where one is required.
    #[error(
        "it isn't signed, and plugins.require_signature is true: put its signature beside it (`waybill plugin sign FILE --key KEY`)"
    )]
    SignatureMissing,
    /// The signature doesn't fit the bytes, or isn't one.
    #[error("its signature isn't good: {cause}: the component or the signature was changed; fetch both again")]
    SignatureBad { cause: String },
    /// Signed by a stranger.
    #[error(
        "it is signed by {public}, whom this host doesn't trust: add the key to plugins.trusted_keys if you do (trusted: {trusted})"
    )]
    KeyUnknown {
        /// The key, in base64.
        public: String,
        /// Names of those that are trusted.
        trusted: String,
    },
    /// The file, or its signature's, can't be read.
    #[error("can't read {path}: {cause}: check the path and its permissions")]
    Read { path: String, cause: String },
    /// A key isn't usable.
    #[error("the key isn't usable: {cause}")]
    Key {
        /// What is wrong, with the fix.
        cause: String,
    },
}

impl VerifyError {
    pub fn code(&self) -> Code {
        match self {
            Self::DigestMismatch { .. } => Code::PLUGIN_DIGEST_MISMATCH,
            Self::SignatureMissing => Code::PLUGIN_SIGNATURE_MISSING,
            Self::SignatureBad { .. } => Code::PLUGIN_SIGNATURE_BAD,
            Self::KeyUnknown { .. } => Code::PLUGIN_KEY_UNKNOWN,
            Self::Read { .. } => Code::PLUGIN_READ,
            Self::Key { .. } => Code::PLUGIN_KEY,
        }
    }

    /// Whether the same act may succeed later without a change.
    pub fn retryable(&self) -> bool {
        matches!(self, Self::Read { .. })
    }
}

/// Checks what was fetched: `pin` is the digest that is expected (`sha256:<hex>` or the hex digits), if one is.
pub fn verify(fetched: &Fetched, trust: &Trust, pin: Option<&str>) -> Result<SignatureState, VerifyError> {
    if let Some(pin) = pin {
        let hex = pin.strip_prefix("sha256:").unwrap_or(pin);
        let found = fetched.digest().strip_prefix("sha256:").unwrap_or_default();
        if !hex.eq_ignore_ascii_case(found) {
            let (expected, found) = (format!("sha256:{}", hex.to_ascii_lowercase()), fetched.digest().to_owned());
            return Err(VerifyError::DigestMismatch { expected, found });
        }
    }
    if fetched.is_bundled() {
        return Ok(SignatureState::Bundled);
    }
    let Some(text) = fetched.signature() else {
        return if trust.required { Err(VerifyError::SignatureMissing) } else { Ok(SignatureState::Unsigned) };
    };
    let signature = Signature::parse(text)?;
    let signer = trust.keys.iter().find(|(_, key)| **key == signature.key);
    match signer {
        Some((name, _)) => {
            signature.check(fetched.bytes())?;
            Ok(SignatureState::SignedBy(name.clone()))
        }
        // Nothing to judge it by, and nobody asked for it.
        None if trust.keys.is_empty() && !trust.required => Ok(SignatureState::Unchecked),
        None => {
            let trusted: Vec<&str> = trust.keys.keys().map(String::as_str).collect();
            let trusted = if trusted.is_empty() { "nobody".to_owned() } else { trusted.join(", ") };
            Err(VerifyError::KeyUnknown { public: signature.key.to_string(), trusted })
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn signed(bytes: &[u8], key: &SigningKey) -> Fetched {
        Fetched::new(bytes.to_vec(), Some(key.sign(bytes).to_string()))
    }

    fn trust(key: &SigningKey, required: bool) -> Trust {
        Trust { keys: BTreeMap::from([("acme".to_owned(), key.public())]), required }
    }

    #[test]
    fn a_trusted_signature_names_its_key() {
        let key = SigningKey::generate().unwrap();
        let state = verify(&signed(b"component", &key), &trust(&key, true), None).unwrap();
        assert_eq!(state, SignatureState::SignedBy("acme".to_owned()));
    }

    #[test]
    fn what_is_changed_stolen_or_unsigned_is_refused() {
        let (key, stranger) = (SigningKey::generate().unwrap(), SigningKey::generate().unwrap());
        let trust = trust(&key, true);
        let code = |fetched: &Fetched, pin: Option<&str>| verify(fetched, &trust, pin).unwrap_err().code().as_str();
        let other = Fetched::new(b"componenT".to_vec(), Some(key.sign(b"component").to_string()));
        assert_eq!(code(&other, None), "PLUGIN.SIGNATURE_BAD");
        assert_eq!(code(&signed(b"component", &stranger), None), "PLUGIN.KEY_UNKNOWN");
        assert_eq!(code(&Fetched::new(b"component".to_vec(), None), None), "PLUGIN.SIGNATURE_MISSING");
        assert_eq!(code(&Fetched::new(b"component".to_vec(), Some("???".into())), None), "PLUGIN.SIGNATURE_BAD");
        assert_eq!(code(&signed(b"component", &key), Some(&"0".repeat(64))), "PLUGIN.DIGEST_MISMATCH");
    }

    #[test]
    fn a_signature_under_another_keys_name_is_bad() {
        let (key, stranger) = (SigningKey::generate().unwrap(), SigningKey::generate().unwrap());
        let stolen =
            stranger.sign(b"component").to_string().replace(&stranger.public().to_string(), &key.public().to_string());
        let fetched = Fetched::new(b"component".to_vec(), Some(stolen));
        assert_eq!(verify(&fetched, &trust(&key, false), None).unwrap_err().code().as_str(), "PLUGIN.SIGNATURE_BAD");
    }

    #[test]
    fn without_keys_nothing_is_claimed() {
        let key = SigningKey::generate().unwrap();
        let fetched = signed(b"component", &key);
        assert_eq!(verify(&fetched, &Trust::default(), Some(fetched.digest())).unwrap(), SignatureState::Unchecked);
        let required = Trust { required: true, ..Trust::default() };
        assert_eq!(verify(&fetched, &required, None).unwrap_err().code().as_str(), "PLUGIN.KEY_UNKNOWN");
        assert_eq!(verify(&Fetched::bundled(b"component"), &required, None).unwrap(), SignatureState::Bundled);
    }
}
