//! Links by which a person without a credential decides on a step that waits for approval (`semantics.md` §3).
//!
//! A link is an address of this host with a [`token`] in it: what may be decided, for whom, until when, signed with the
//! key of the configuration. Nothing is stored, so a link can't be taken back; it ends with its time, with the wait that
//! it was made for, or with the key.

pub(crate) mod page;
pub mod token;

use crate::error::ServerError;
use token::{Claims, Token, TokenError};

/// Shortest key: HMAC-SHA256 is as strong as its key up to 32 bytes.
pub const KEY_BYTES_MIN: usize = 32;
/// Path of a link, with the token behind it.
const PATH: &str = "/v1/approvals/";

/// Makes links, and reads them.
pub struct ApprovalLinks {
    token: Token,
    /// What stands before [`PATH`], without a slash at its end.
    public_url: String,
}

impl ApprovalLinks {
    /// With the key that signs, and the address under which people reach this host, e.g. `https://waybill.example.com`.
    /// A key below [`KEY_BYTES_MIN`] bytes is refused: links could be forged by trying.
    pub fn new(key: &[u8], public_url: &str) -> Result<Self, ServerError> {
        let refused = || ServerError::ApprovalKey { bytes: key.len(), bytes_min: KEY_BYTES_MIN };
        if key.len() < KEY_BYTES_MIN {
            return Err(refused());
        }
        let token = Token::new(key).map_err(|_| refused())?;
        Ok(Self { token, public_url: public_url.trim_end_matches('/').to_owned() })
    }

    /// The whole address of a link.
    pub fn url(&self, claims: &Claims) -> Result<String, serde_json::Error> {
        Ok(format!("{}{PATH}{}", self.public_url, self.token(claims)?))
    }

    /// The token of a link: the last part of its address.
    pub fn token(&self, claims: &Claims) -> Result<String, serde_json::Error> {
        self.token.write(claims)
    }

    /// What a token says, if this host's key signed it. Whether its time is over is the caller's question.
    pub fn read(&self, token: &str) -> Result<Claims, TokenError> {
        self.token.read(token)
    }
}
