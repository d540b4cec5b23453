//! What is done to a store while no host runs: this process opens it in the host's place, and closes it again.

use waybill_api::tokens::{CreatedToken, NewToken};
use waybill_server::auth::Principal;
use waybill_server::tokens::{StoredTokens, TokenError};

use super::{CLOSE_TIMEOUT, compose, tokens};
use crate::client::exit_of_code;
use crate::config::{Config, StoreKind};
use crate::data;
use crate::exit::CliError;
use crate::term::Term;

/// Makes a token. A store that a host has open is refused.
pub async fn create_token(config: &Config, asked: NewToken, term: &Term) -> Result<CreatedToken, CliError> {
    if !matches!(config.store.kind, StoreKind::Disk(_)) {
        let what = format!("store.url = {} isn't a folder that could be opened while no host runs", config.store.url);
        return Err(CliError::usage(
            what,
            "name the host's data folder with --data, or ask the running host without it",
        ));
    }
    let known = tokens(&config.auth.tokens)?;
    data::check(config)?;
    compose::close_folders(config);
    let store = compose::store(config, term).await?;
    let stored = StoredTokens::new(known, compose::tokens(config, &store), compose::trail(config, &store));
    let created = async {
        stored.read().await.map_err(TokenError::from)?;
        stored.create(asked, &Principal::offline()).await
    };
    let created = created.await.map_err(|error| refused(&error));
    // What was done is durable; a store that doesn't close in good order is as after a crash.
    if let Ok(Err(error)) = tokio::time::timeout(CLOSE_TIMEOUT, store.close()).await {
        tracing::warn!(code = error.code().as_str(), %error, "the store didn't close in good order");
    }
    created
}

fn refused(error: &TokenError) -> CliError {
    let code = error.code();
    CliError::Host { code, what: error.to_string(), exit: exit_of_code(code.as_str()) }
}
