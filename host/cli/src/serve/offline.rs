//! What is done to a store while no host runs: this process opens it in the host's place, and closes it again.

use serde_json::{Value, json};
use waybill_api::tokens::{CreatedToken, NewToken};
use waybill_core::code::Code;
use waybill_core::message::Message;
use waybill_core::outbox::filter::Filter;
use waybill_core::port::query::{Found, ListKind, QueryStore};
use waybill_core::port::store::StoreError;
use waybill_server::auth::Principal;
use waybill_server::tokens::{StoredTokens, TokenError};
use waybill_store::SurrealStore;

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
    close(&store).await;
    created
}

/// What was done is durable; a store that doesn't close in good order is as after a crash.
async fn close(store: &SurrealStore) {
    if let Ok(Err(error)) = tokio::time::timeout(CLOSE_TIMEOUT, store.close()).await {
        tracing::warn!(code = error.code().as_str(), %error, "the store didn't close in good order");
    }
}

/// Messages read of a store at once.
const PAGE: usize = 500;

/// Messages of a store that weren't delivered.
#[derive(Default)]
pub struct Undelivered {
    pub count: u64,
    /// The first of them, with id, tenant and topic.
    pub listed: Vec<Value>,
}

/// Opens a store that was restored, and looks what a host that is started on it is going to deliver.
pub async fn undelivered(config: &Config, listed_max: usize, term: &Term) -> Result<Undelivered, CliError> {
    let store = compose::store(config, term).await?;
    let found = read_undelivered(&store, listed_max).await;
    close(&store).await;
    found.map_err(|error| compose::of_read(&error))
}

async fn read_undelivered(store: &SurrealStore, listed_max: usize) -> Result<Undelivered, StoreError> {
    let mut undelivered = Undelivered::default();
    for kind in [ListKind::Flowing, ListKind::Parked, ListKind::Scheduled] {
        let mut cursor: Option<String> = None;
        loop {
            let page = store.list(kind, &Filter::default(), cursor.as_deref(), PAGE).await?;
            for message in page.items.iter().filter_map(message_of) {
                undelivered.count += 1;
                if undelivered.listed.len() < listed_max {
                    let (id, tenant, topic) = (message.id.as_str(), message.tenant.as_str(), message.topic.as_str());
                    undelivered.listed.push(json!({ "id": id, "tenant": tenant, "topic": topic }));
                }
            }
            cursor = page.next_cursor;
            if cursor.is_none() {
                break;
            }
        }
    }
    Ok(undelivered)
}

fn message_of(found: &Found) -> Option<&Message> {
    match found {
        Found::Flowing { entry, .. } => Some(entry.message.as_ref()),
        Found::Parked(parked) => Some(parked.message.as_ref()),
        Found::Scheduled(scheduled) => Some(scheduled.message.as_ref()),
        Found::Dead(_) | Found::Done(..) => None,
    }
}

fn refused(error: &TokenError) -> CliError {
    let code = error.code();
    CliError::Host { code, what: error.to_string(), exit: exit_of_code(code.as_str()) }
}
