//! What is done to a store while no host runs: this process opens it in the host's place, and closes it again.

use waybill_api::tokens::{CreatedToken, NewToken};
use waybill_core::code::Code;
use waybill_server::auth::Principal;
use waybill_server::tokens::{StoredTokens, TokenError};

use super::{CLOSE_TIMEOUT, compose, tokens};
use crate::client::exit_of_code;
use crate::config::{Config, StoreKind};
use crate::data;
use crate::exit::{CliError, Exit};
use crate::term::Term;

/// Makes a token. A store that a host has open is refused, and so is one of another user: what is written there would be this one's, and
/// the host couldn't open it.
pub async fn create_token(config: &Config, asked: NewToken, term: &mut Term) -> Result<CreatedToken, CliError> {
    let StoreKind::Disk(folder) = &config.store.kind else {
        let what = format!("store.url = {} isn't a folder that could be opened while no host runs", config.store.url);
        return Err(CliError::usage(
            what,
            "name the host's data folder with --data, or ask the running host without it",
        ));
    };
    let is_new = !folder.exists();
    if !is_new && !data::is_this_users(folder) {
        let what = format!(
            "the data folder {} belongs to another user: do this as the user that the host runs as",
            folder.display()
        );
        return Err(CliError::Host { code: Code::STORAGE_DIRECTORY, what, exit: Exit::Failed });
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
    if is_new && created.is_ok() {
        term.say(&format!("note: {} is new: only a host that is started on it knows the token", folder.display()));
    }
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
