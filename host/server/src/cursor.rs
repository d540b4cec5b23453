//! Cursors as callers see them: opaque, and bound to the list they came from, so that one from elsewhere is refused
//! instead of silently skipping items.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use sha2::{Digest, Sha256};

use crate::problem::Problem;

/// Bytes of the check that goes before the store's cursor.
const CHECK_BYTES: usize = 6;

/// Wraps the store's cursor for the list that `scope` names (route, tenant, filter).
pub fn wrap(scope: &[&str], inner: &str) -> String {
    let mut bytes = check(scope, inner.as_bytes()).to_vec();
    bytes.extend_from_slice(inner.as_bytes());
    URL_SAFE_NO_PAD.encode(bytes)
}

/// The store's cursor in a caller's.
pub fn unwrap(scope: &[&str], cursor: &str) -> Result<String, Problem> {
    let refuse = || {
        Problem::invalid(
            "the cursor isn't one of this list: pass next_cursor unchanged, with the same tenant, filter and order",
        )
        .at("cursor")
    };
    let bytes = URL_SAFE_NO_PAD.decode(cursor).map_err(|_| refuse())?;
    let (sum, inner) = bytes.split_at_checked(CHECK_BYTES).ok_or_else(refuse)?;
    if sum != check(scope, inner) {
        return Err(refuse());
    }
    String::from_utf8(inner.to_vec()).map_err(|_| refuse())
}

fn check(scope: &[&str], inner: &[u8]) -> [u8; CHECK_BYTES] {
    let mut hash = Sha256::new();
    for part in scope {
        hash.update((part.len() as u64).to_be_bytes());
        hash.update(part.as_bytes());
    }
    hash.update(inner);
    let mut sum = [0; CHECK_BYTES];
    for (to, from) in sum.iter_mut().zip(hash.finalize()) {
        *to = from;
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_comes_back_in_its_own_list_only() {
        let cursor = wrap(&["/v1/messages", "acme", "state=done"], "0:17");
        assert_eq!(unwrap(&["/v1/messages", "acme", "state=done"], &cursor), Ok("0:17".to_owned()));
        for scope in [
            ["/v1/messages", "acme", ""],
            ["/v1/dead-letters", "acme", "state=done"],
            ["/v1/messages", "", "acmestate=done"],
        ] {
            assert_eq!(unwrap(&scope, &cursor).unwrap_err().code.status(), 400);
        }
        for broken in ["", "AAAA", "not base64!", &cursor[1..], &format!("{cursor}A")] {
            assert!(unwrap(&["/v1/messages", "acme", "state=done"], broken).is_err(), "{broken}");
        }
    }
}
