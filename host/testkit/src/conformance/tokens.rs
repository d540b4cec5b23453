//! API tokens.

use waybill_core::port::store::StoreError;
use waybill_core::port::tokens::StoredToken;
use waybill_core::time::UnixMillis;

use super::Store;

/// A token for all tenants that doesn't expire.
fn token(name: &str) -> StoredToken {
    StoredToken {
        name: name.to_owned(),
        sha256: "0a".repeat(32),
        ends_with: "9f3a".to_owned(),
        roles: vec!["viewer".to_owned()],
        tenants: None,
        created_at: UnixMillis(1_700_000_000_123),
        created_by: "local".to_owned(),
        expires_at: None,
    }
}

pub async fn tokens_come_back_by_name_as_they_were_written(store: &impl Store) {
    assert!(store.stored_tokens().await.unwrap().is_empty());
    let full = StoredToken {
        roles: vec!["sender".to_owned(), "append:task.**".to_owned()],
        tenants: Some(vec!["acme".to_owned(), "Größe & Söhne".to_owned()]),
        expires_at: Some(UnixMillis(1_800_000_000_000)),
        ..token("orders-service.2")
    };
    for token in [token("z"), full.clone(), token("A_1")] {
        store.add_token(&token).await.unwrap();
    }
    assert_eq!(store.stored_tokens().await.unwrap(), [token("A_1"), full, token("z")]);
}

pub async fn a_name_is_taken_once_until_its_token_is_removed(store: &impl Store) {
    store.add_token(&token("ci")).await.unwrap();
    let other = StoredToken { sha256: "0b".repeat(32), ..token("ci") };
    let refused = store.add_token(&other).await.unwrap_err();
    assert!(matches!(refused, StoreError::Exists(_)), "{refused:?}");
    assert_eq!(store.stored_tokens().await.unwrap(), [token("ci")]);
    assert!(store.remove_token("ci").await.unwrap());
    assert!(!store.remove_token("ci").await.unwrap());
    store.add_token(&other).await.unwrap();
    assert_eq!(store.stored_tokens().await.unwrap(), [other]);
}

pub async fn of_two_tokens_of_a_name_at_once_exactly_one_goes_in(store: &impl Store) {
    let (one, other) = (token("ci"), StoredToken { sha256: "0b".repeat(32), ..token("ci") });
    let (first, second) = tokio::join!(store.add_token(&one), store.add_token(&other));
    assert!(first.is_ok() != second.is_ok(), "{first:?} {second:?}");
    let stands = if first.is_ok() { one } else { other };
    assert_eq!(store.stored_tokens().await.unwrap(), [stands]);
}
