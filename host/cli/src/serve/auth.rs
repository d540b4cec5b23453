//! Who may call: the tokens of a configuration, and whether a host goes by them and by the stored ones.

use waybill_api::tokens::TokenSource;
use waybill_core::code::Code;
use waybill_server::auth::{TokenRecord, Tokens};
use waybill_server::tokens::StoredTokens;

use super::of_server;
use crate::config::{AuthSettings, AuthToken, Config};
use crate::exit::{CliError, Exit};

/// The tokens of a configuration.
pub(super) fn tokens(configured: &[AuthToken]) -> Result<Tokens, CliError> {
    let records = configured.iter().map(record).collect::<Result<Vec<TokenRecord>, CliError>>()?;
    Tokens::new(records).map_err(of_server)
}

/// Nothing opens by itself: where a token was asked for because one was configured, nobody would be asked any more once that is taken
/// out. Stored tokens show that somebody means to ask.
pub(super) fn refuse_unsaid(auth: &AuthSettings, stored: &StoredTokens) -> Result<(), CliError> {
    if auth.required || auth.is_said || !has_stored(stored) {
        return Ok(());
    }
    let what = "tokens are stored, and nothing says whether callers are asked for one: write [auth] required = true, or false where whoever \
                has an account on this machine may do everything";
    Err(CliError::Host { code: Code::CONFIG_MISSING, what: what.to_owned(), exit: Exit::Usage })
}

fn has_stored(stored: &StoredTokens) -> bool {
    stored.list().iter().any(|token| token.source == TokenSource::Store)
}

/// Says where what is asked for and what there is don't fit.
pub(super) fn warn_of_tokens(config: &Config, known: &Tokens, stored: &StoredTokens) {
    let required = config.auth.required;
    // A host without tokens may be there for its page alone.
    let people_sign_in = config.auth.oidc.is_some() && config.ui.is_some();
    if required && known.is_empty() && !people_sign_in {
        tracing::warn!(
            code = Code::AUTH_NO_TOKENS.as_str(),
            "a token is asked for and none is known, so nobody can call: make one with `waybill token create` while no host runs, or \
             configure [[auth.token]]"
        );
    }
    if !required && has_stored(stored) {
        tracing::warn!("tokens are stored and nobody is asked for one: set [auth] required = true");
    }
}

fn record(token: &AuthToken) -> Result<TokenRecord, CliError> {
    use waybill_server::auth::Tenants;
    let tenants = match &token.tenants {
        None => Tenants::All,
        Some(names) => {
            Tenants::Only(names.iter().map(waybill_core::ids::Tenant::new).collect::<Result<_, _>>().map_err(
                |error| CliError::usage(format!("[[auth.token]] {:?}: {error}", token.name), "correct its tenants"),
            )?)
        }
    };
    let sha256 = token.sha256.iter().map(|byte| format!("{byte:02x}")).collect();
    let (roles, streams) = (token.roles.clone(), token.streams.clone());
    Ok(TokenRecord { name: token.name.clone(), sha256, tenants, roles, streams })
}
