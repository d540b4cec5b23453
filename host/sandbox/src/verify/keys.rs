//! Ed25519 keys and detached signatures as text.
//!
//! A signature is over the component's bytes as they are. Its file, `<component>.sig`, is one line of three words:
//! `ed25519 <public key> <signature>`, both in base64. A signing key is a PKCS #8 document in PEM, as `openssl genpkey
//! -algorithm ed25519` makes it; a public key is its 32 bytes in base64.

use std::fmt;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use ring::rand::{SecureRandom, SystemRandom};
use ring::signature::{ED25519, Ed25519KeyPair, KeyPair, UnparsedPublicKey};

use super::VerifyError;

/// First word of a signature's file.
const ALGORITHM: &str = "ed25519";
const SEED_BYTES: usize = 32;
const PUBLIC_BYTES: usize = 32;
const SIGNATURE_BYTES: usize = 64;
/// What comes before the seed in PKCS #8 (RFC 8410).
const PKCS8_BEFORE: [u8; 16] =
    [0x30, 0x2e, 0x02, 0x01, 0x00, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x04, 0x22, 0x04, 0x20];
const PEM_BEGIN: &str = "-----BEGIN PRIVATE KEY-----";
const PEM_END: &str = "-----END PRIVATE KEY-----";

/// A public key. Its text is base64.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct PublicKey([u8; PUBLIC_BYTES]);

impl PublicKey {
    /// Reads base64 of 32 bytes.
    pub fn parse(text: &str) -> Result<Self, VerifyError> {
        let cause = "it takes the 32 bytes of an ed25519 public key in base64, as `waybill plugin keygen` prints it";
        let wrong = || VerifyError::Key { cause: cause.to_owned() };
        let bytes = STANDARD.decode(text.trim()).map_err(|_| wrong())?;
        bytes.try_into().map(Self).map_err(|_| wrong())
    }
}

impl fmt::Display for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&STANDARD.encode(self.0))
    }
}

impl fmt::Debug for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PublicKey({self})")
    }
}

/// A detached signature with the key it claims to be by.
#[derive(Clone, PartialEq, Eq)]
pub struct Signature {
    /// Whose it claims to be.
    pub key: PublicKey,
    bytes: [u8; SIGNATURE_BYTES],
}

impl Signature {
    /// Reads a signature's file.
    pub fn parse(text: &str) -> Result<Self, VerifyError> {
        let wrong = |cause: &str| VerifyError::SignatureBad { cause: cause.to_owned() };
        let words: Vec<&str> = text.split_whitespace().collect();
        let [ALGORITHM, key, signature] = words.as_slice() else {
            return Err(wrong("its file isn't `ed25519 PUBLIC-KEY SIGNATURE`, both in base64"));
        };
        let key = PublicKey::parse(key).map_err(|_| wrong("the public key in its file isn't 32 bytes in base64"))?;
        let bytes = STANDARD.decode(signature).ok().and_then(|bytes| bytes.try_into().ok());
        let bytes = bytes.ok_or_else(|| wrong("the signature in its file isn't 64 bytes in base64"))?;
        Ok(Self { key, bytes })
    }

    /// Whether it is over these bytes by the key it names.
    pub fn check(&self, bytes: &[u8]) -> Result<(), VerifyError> {
        UnparsedPublicKey::new(&ED25519, self.key.0)
            .verify(bytes, &self.bytes)
            .map_err(|_| VerifyError::SignatureBad { cause: format!("it isn't over this component by {}", self.key) })
    }
}

impl fmt::Display for Signature {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{ALGORITHM} {} {}", self.key, STANDARD.encode(self.bytes))
    }
}

impl fmt::Debug for Signature {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Signature({self})")
    }
}

/// A key to sign with. Never shown but by [`SigningKey::to_pem`].
pub struct SigningKey {
    pair: Ed25519KeyPair,
    seed: [u8; SEED_BYTES],
}

impl fmt::Debug for SigningKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SigningKey({})", self.public())
    }
}

impl SigningKey {
    /// A new one from the system's randomness.
    pub fn generate() -> Result<Self, VerifyError> {
        let mut seed = [0; SEED_BYTES];
        SystemRandom::new()
            .fill(&mut seed)
            .map_err(|_| VerifyError::Key { cause: "the system gives no random bytes".to_owned() })?;
        Self::of_seed(seed)
    }

    fn of_seed(seed: [u8; SEED_BYTES]) -> Result<Self, VerifyError> {
        let pair = Ed25519KeyPair::from_seed_unchecked(&seed)
            .map_err(|error| VerifyError::Key { cause: error.to_string() })?;
        Ok(Self { pair, seed })
    }

    /// Reads a PKCS #8 document in PEM.
    pub fn parse_pem(text: &str) -> Result<Self, VerifyError> {
        let wrong = || {
            VerifyError::Key {
            cause: "it takes an ed25519 private key in PEM, as `waybill plugin keygen` or `openssl genpkey -algorithm ed25519` makes it".to_owned(),
        }
        };
        let (_, inner) = text.split_once(PEM_BEGIN).ok_or_else(wrong)?;
        let (inner, _) = inner.split_once(PEM_END).ok_or_else(wrong)?;
        let base64: String = inner.split_whitespace().collect();
        let document = STANDARD.decode(base64).map_err(|_| wrong())?;
        // Also rejects keys of other kinds.
        Ed25519KeyPair::from_pkcs8_maybe_unchecked(&document).map_err(|_| wrong())?;
        let seed = document.get(PKCS8_BEFORE.len()..PKCS8_BEFORE.len() + SEED_BYTES).ok_or_else(wrong)?;
        Self::of_seed(seed.try_into().map_err(|_| wrong())?)
    }

    /// The PKCS #8 document in PEM: keep it secret.
    pub fn to_pem(&self) -> String {
        let document: Vec<u8> = PKCS8_BEFORE.iter().chain(&self.seed).copied().collect();
        format!("{PEM_BEGIN}\n{}\n{PEM_END}\n", STANDARD.encode(document))
    }

    pub fn public(&self) -> PublicKey {
        let mut bytes = [0; PUBLIC_BYTES];
        let public = self.pair.public_key().as_ref();
        bytes.iter_mut().zip(public).for_each(|(to, from)| *to = *from);
        PublicKey(bytes)
    }

    pub fn sign(&self, bytes: &[u8]) -> Signature {
        let mut signature = [0; SIGNATURE_BYTES];
        let signed = self.pair.sign(bytes);
        signature.iter_mut().zip(signed.as_ref()).for_each(|(to, from)| *to = *from);
        Signature { key: self.public(), bytes: signature }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    /// Made by `openssl genpkey -algorithm ed25519`; its public half by `openssl pkey -pubout -outform DER | tail -c 32`.
    const OPENSSL: &str = "-----BEGIN PRIVATE KEY-----\nMC4CAQAwBQYDK2VwBCIEIJ1hsZ3v/VpguoRK9JLsLMREScVpezJpGXA7rAMcrn9g\n-----END PRIVATE KEY-----\n";
    /// RFC 8032, 7.1, TEST 1 has this key.
    const PUBLIC: &str = "11qYAYKxCrfVS/7TyWQHOg7hcvPapiMlrwIaaPcHURo=";

    #[test]
    fn a_key_in_pem_is_read_and_written_as_openssl_does() {
        let key = SigningKey::parse_pem(OPENSSL).unwrap();
        assert_eq!(key.public().to_string(), PUBLIC);
        assert_eq!(key.to_pem(), OPENSSL);
    }

    #[test]
    fn the_signature_of_rfc_8032_comes_out() {
        let signature = SigningKey::parse_pem(OPENSSL).unwrap().sign(b"");
        let text = signature.to_string();
        let expected = "5VZDAMNgrHKQhuLMgG6CioSHfx645dl02HPgZSJJAVVfuIIVkKM7rMYeOXAc+bRr0lv18FlbviRlUUFDjnoQCw==";
        assert_eq!(text, format!("ed25519 {PUBLIC} {expected}"));
        assert!(Signature::parse(&text).unwrap().check(b"").is_ok());
        assert!(signature.check(b"x").is_err());
    }

    #[test]
    fn a_key_shows_nothing_of_itself() {
        let key = SigningKey::generate().unwrap();
        let secret: String = key.to_pem().lines().nth(1).unwrap().to_owned();
        assert!(!format!("{key:?}").contains(&secret[24..]));
        assert!(SigningKey::parse_pem("no key").is_err() && PublicKey::parse("AAAA").is_err());
    }
}
