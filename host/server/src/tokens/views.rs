//! Tokens as they are shown: what is known of each, never itself.

use waybill_api::instant::Instant;
use waybill_api::tokens::{TokenSource, TokenState, TokenView};
use waybill_core::port::tokens::StoredToken;

use crate::auth::{Principal, Stored};

pub(super) fn of_configured(principal: &Principal) -> TokenView {
    TokenView {
        name: principal.name.clone(),
        source: TokenSource::Configuration,
        state: TokenState::InForce,
        roles: principal.roles(),
        tenants: principal.tenants.names(),
        ends_with: None,
        created_at: None,
        created_by: None,
        expires_at: None,
    }
}

pub(super) fn of_stored(token: &Stored, is_configured: bool) -> TokenView {
    let state = if is_configured {
        TokenState::Shadowed
    } else if !token.is_usable() {
        TokenState::Unusable
    } else if token.is_over() {
        TokenState::Expired
    } else {
        TokenState::InForce
    };
    of_record(&token.record, state)
}

pub(super) fn of_record(record: &StoredToken, state: TokenState) -> TokenView {
    TokenView {
        name: record.name.clone(),
        source: TokenSource::Store,
        state,
        roles: record.roles.clone(),
        tenants: record.tenants.clone().unwrap_or_else(|| vec!["*".to_owned()]),
        ends_with: Some(record.ends_with.clone()),
        created_at: Some(record.created_at.into()),
        created_by: Some(record.created_by.clone()),
        expires_at: record.expires_at.map(Instant::from),
    }
}

/// One of which only its name is known.
pub(super) fn unknown(name: &str) -> TokenView {
    TokenView {
        name: name.to_owned(),
        source: TokenSource::Store,
        state: TokenState::Unusable,
        roles: Vec::new(),
        tenants: Vec::new(),
        ends_with: None,
        created_at: None,
        created_by: None,
        expires_at: None,
    }
}
