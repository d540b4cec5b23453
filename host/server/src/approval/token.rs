//! The token of a link: `<claims>.<signature>`, both in base64url.
//!
//! The claims are JSON that anybody can read who has the link; the signature is HMAC-SHA256 over them as they are
//! written. It is checked, in constant time, before anything else is done with them.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use hmac::digest::InvalidLength;
use hmac::{Hmac, Mac};
use serde::{Deserialize, Serialize};
use sha2::Sha256;
use thiserror::Error;
use utoipa::ToSchema;
use waybill_core::ids::Tenant;
use waybill_core::saga::id::SagaId;
use waybill_core::time::UnixMillis;

/// Longest token that is looked at, in bytes. The longest there can be has a sub-saga's id, a tenant, a step and a name.
pub const TOKEN_BYTES_MAX: usize = 4_096;
/// Stands before the claims in what is signed, so that no other use of the key makes a token.
const PURPOSE: &[u8] = b"waybill approval link 1\n";

/// What a link is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
#[schema(as = ApprovalDecision)]
pub enum Decision {
    /// The saga goes on.
    Approve,
    /// The saga goes back: it compensates what was done.
    Reject,
}

impl Decision {
    /// As in the API.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Approve => "approve",
            Self::Reject => "reject",
        }
    }

    #[must_use]
    pub fn other(self) -> Self {
        match self {
            Self::Approve => Self::Reject,
            Self::Reject => Self::Approve,
        }
    }
}

/// What a token says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Claims {
    pub tenant: Tenant,
    /// Saga, root or sub-saga.
    pub saga: SagaId,
    pub step: String,
    /// Begin of the wait that it is about: of another wait of the same step it decides nothing.
    pub since: UnixMillis,
    pub decision: Decision,
    /// Who decides, in the words of whoever made the link.
    pub by: String,
    /// From then on it is refused.
    pub expires_at: UnixMillis,
}

/// Why a token isn't one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error(
    "this link wasn't made by this host, was altered on its way, or was signed with a key that isn't in use any more"
)]
pub struct TokenError;

/// Writes tokens, and reads them.
pub struct Token {
    mac: Hmac<Sha256>,
}

impl Token {
    /// With the key that signs.
    pub fn new(key: &[u8]) -> Result<Self, InvalidLength> {
        Ok(Self { mac: Hmac::new_from_slice(key)? })
    }

    /// Signs what a link says.
    pub fn write(&self, claims: &Claims) -> Result<String, serde_json::Error> {
        let claims = URL_SAFE_NO_PAD.encode(serde_json::to_vec(claims)?);
        let signature = URL_SAFE_NO_PAD.encode(self.over(&claims).finalize().into_bytes());
        Ok(format!("{claims}.{signature}"))
    }

    /// Reads a token whose signature is right.
    pub fn read(&self, token: &str) -> Result<Claims, TokenError> {
        if token.len() > TOKEN_BYTES_MAX {
            return Err(TokenError);
        }
        let (claims, signature) = token.split_once('.').ok_or(TokenError)?;
        let signature = URL_SAFE_NO_PAD.decode(signature).map_err(|_| TokenError)?;
        self.over(claims).verify_slice(&signature).map_err(|_| TokenError)?;
        let claims = URL_SAFE_NO_PAD.decode(claims).map_err(|_| TokenError)?;
        serde_json::from_slice(&claims).map_err(|_| TokenError)
    }

    fn over(&self, claims: &str) -> Hmac<Sha256> {
        self.mac.clone().chain_update(PURPOSE).chain_update(claims)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn claims() -> Claims {
        Claims {
            tenant: Tenant::unnamed(),
            saga: SagaId::new("order-17~pay").unwrap(),
            step: "release".into(),
            since: UnixMillis(1_790_000_000_123),
            decision: Decision::Approve,
            by: "Ann \u{e4}".into(),
            expires_at: UnixMillis(1_790_000_600_000),
        }
    }

    #[test]
    fn a_token_says_what_was_signed() {
        let token = Token::new(&[7; 32]).unwrap();
        let text = token.write(&claims()).unwrap();
        assert!(text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte)), "{text}");
        assert_eq!(token.read(&text), Ok(claims()));
    }

    #[test]
    fn the_signature_is_hmac_sha256_over_purpose_and_claims() {
        let text = Token::new(&[7; 32]).unwrap().write(&claims()).unwrap();
        let (claims, signature) = text.split_once('.').unwrap();
        let mut mac = <Hmac<Sha256> as Mac>::new_from_slice(&[7; 32]).unwrap();
        mac.update(format!("waybill approval link 1\n{claims}").as_bytes());
        assert_eq!(URL_SAFE_NO_PAD.decode(signature).unwrap(), mac.finalize().into_bytes().as_slice());
    }

    #[test]
    fn every_altered_character_is_noticed() {
        let token = Token::new(&[7; 32]).unwrap();
        let text = token.write(&claims()).unwrap();
        for at in 0..text.len() {
            let other = if text.as_bytes()[at] == b'A' { "B" } else { "A" };
            let mut altered = text.clone();
            altered.replace_range(at..=at, other);
            assert_eq!(token.read(&altered), Err(TokenError), "{at}");
        }
        for cut in [&text[1..], &text[..text.len() - 1], &format!("{text}A"), &format!("{text}.A"), "", ".", "a.b"] {
            assert_eq!(token.read(cut), Err(TokenError), "{cut}");
        }
        assert_eq!(token.read(&"A".repeat(5000)), Err(TokenError));
        assert_eq!(Token::new(&[8; 32]).unwrap().read(&text), Err(TokenError), "another key");
    }
}
