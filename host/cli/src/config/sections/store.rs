//! `[store]`.

use std::path::Path;

use super::{SECOND, U32};
use crate::config::kinds::{Set, beside};
use crate::config::model::{StoreKind, StoreSettings};
use crate::config::problem::{Origin, Problem};
use crate::config::reader::Section;

/// Reads `[store]`. `data` is the folder used when nothing names another.
pub fn store(mut section: Section<'_, '_>, file: &Path, data: Option<&Path>) -> Option<StoreSettings> {
    let takes = "\"surrealkv://DIR\", \"mem://\" or \"ws://HOST:PORT\"";
    let default = data.map(|data| format!("surrealkv://{}", data.join("store").display()));
    let url = match &default {
        Some(default) => section.text("url", takes, default),
        None => match section.optional_text("url", takes) {
            Some(url) => url,
            None => {
                section.problem_at(Problem::NoDataFolder, Origin::Default);
                Set { value: "mem://".into(), origin: Origin::Default }
            }
        },
    };
    let namespace = section.text("namespace", "a name", "waybill").value;
    let database = section.text("database", "a name", "waybill").value;
    let user = section.optional_text("user", "a user of the SurrealDB server").map(|set| set.value);
    let password = section.secret("password");
    let level = section.choice("user_level", "server", &[("server", false), ("database", true)]);
    // The store's own defaults grow with the machine's memory (a block cache of half of it); these don't.
    let memtable = section.size("memtable", waybill_store::MEMTABLE_BYTES, 8 << 20..=U32);
    let block_cache = section.size("block_cache", waybill_store::BLOCK_CACHE_BYTES, 1 << 20..=256 << 30);
    let query_timeout = section.duration("query_timeout", waybill_store::QUERY_TIMEOUT, SECOND);
    let kind = store_kind(&mut section, &url, file);
    match (&kind, &user, &password) {
        (Some(StoreKind::Server), Some(_), None) => section.problem_at(
            Problem::Missing {
                section: "[store]".into(),
                key: "password".into(),
                fix: "write password = \"env:NAME\" beside user".into(),
            },
            section.at.clone(),
        ),
        (Some(StoreKind::Memory | StoreKind::Disk(_)), Some(user), _) => {
            let set = Set { value: user.clone(), origin: section.at.clone() };
            section.refuse("user", &set, "only a ws:// or wss:// store has users");
        }
        _ => {}
    }
    section.done();
    let (kind, url) = match kind? {
        StoreKind::Disk(path) => {
            let option = url.value.split_once('?').map(|(_, query)| format!("?{query}")).unwrap_or_default();
            (StoreKind::Disk(path.clone()), format!("surrealkv://{}{option}", path.display()))
        }
        StoreKind::Memory => (StoreKind::Memory, "mem://".to_owned()),
        StoreKind::Server => (StoreKind::Server, url.value),
    };
    Some(StoreSettings {
        url,
        kind,
        namespace,
        database,
        user,
        password: password.map(|set| set.value),
        database_user: level.unwrap_or(false),
        query_timeout,
        memtable,
        block_cache,
    })
}

fn store_kind(section: &mut Section<'_, '_>, url: &Set<String>, file: &Path) -> Option<StoreKind> {
    let (address, query) = url.value.split_once('?').unwrap_or((&url.value, ""));
    let sync = query.strip_prefix("sync=");
    let known = query.is_empty()
        || sync.is_some_and(|sync| matches!(sync, "every" | "never") || humantime::parse_duration(sync).is_ok());
    if !known {
        section.refuse(
            "url",
            url,
            "its only option is ?sync=every (as without it), ?sync=never or a time like ?sync=200ms",
        );
        return None;
    }
    let Some((scheme, rest)) = address.split_once("://") else {
        section.refuse("url", url, "it takes surrealkv://DIR, mem:// or ws://HOST:PORT");
        return None;
    };
    match scheme {
        "mem" if rest.is_empty() => Some(StoreKind::Memory),
        "surrealkv" if !rest.is_empty() => {
            let path = match url.origin {
                Origin::File { .. } => beside(file, rest),
                _ => std::path::absolute(rest).unwrap_or_else(|_| rest.into()),
            };
            Some(StoreKind::Disk(path))
        }
        "ws" | "wss" if rest.contains('@') => {
            // The text isn't repeated: it holds a password.
            section.problem_at(
                Problem::Secret {
                    key: "store.url".into(),
                    cause: "it holds a user name or password".into(),
                    fix: "move them to store.user and store.password = \"env:NAME\"".into(),
                },
                url.origin.clone(),
            );
            None
        }
        "ws" | "wss" if !rest.is_empty() => Some(StoreKind::Server),
        "tikv" => {
            section.refuse("url", url, "this version has no TiKV client: use surrealkv://, mem:// or ws://");
            None
        }
        _ => {
            section.refuse("url", url, "it takes surrealkv://DIR, mem:// or ws://HOST:PORT");
            None
        }
    }
}
