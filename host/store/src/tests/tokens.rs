//! API tokens whose rows aren't as they were written.

use waybill_core::port::quarantine::QuarantineStore;
use waybill_core::port::store::StoreError;
use waybill_core::port::tokens::{StoredToken, TokenStore};
use waybill_core::time::UnixMillis;
use waybill_surreal::{array, int, object};

use super::{memory, sql};
use crate::rows::small;
use crate::tables::TOKEN;

/// A token of one tenant that ends.
fn token(name: &str) -> StoredToken {
    StoredToken {
        name: name.to_owned(),
        sha256: "0a".repeat(32),
        ends_with: "9f3a".to_owned(),
        roles: vec!["viewer".to_owned()],
        tenants: Some(vec!["acme".to_owned()]),
        created_at: UnixMillis(1_700_000_000_123),
        created_by: "ops".to_owned(),
        expires_at: Some(UnixMillis(1_800_000_000_000)),
    }
}

/// One without tenants would be for all, one without an end would be good for ever.
#[tokio::test]
async fn a_token_whose_row_lost_something_gains_no_right_by_it() {
    let store = memory().await;
    for name in ["a", "b", "c", "d"] {
        store.add_token(&token(name)).await.unwrap();
    }
    for change in ["a UNSET tenants", "b UNSET expires_at", "c SET banned = true"] {
        sql(&store, &format!("UPDATE {TOKEN}:{change} RETURN NONE")).await.unwrap();
    }
    assert_eq!(store.stored_tokens().await.unwrap(), [token("d")]);
    assert_eq!(store.quarantined_counts().await.unwrap().tables, [(TOKEN.to_owned(), 3)]);
}

#[test]
fn a_row_that_cannot_be_passed_on_is_a_damaged_one() {
    let too_deep = (0..300).fold(int(1), |inner, _| array([inner]));
    let read: Result<StoredToken, StoreError> = small::json(TOKEN, object([("name", too_deep)]));
    assert!(matches!(read, Err(StoreError::Corrupt(_))), "{read:?}");
}
