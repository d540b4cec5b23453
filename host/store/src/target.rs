//! What a store URL means.

use std::path::PathBuf;

use crate::config::{Durability, OpenError};

/// A place to open.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// A directory, with the engine's full URL.
    Directory {
        dir: PathBuf,
        /// URL with an explicit `sync`.
        url: String,
        /// What that `sync` means.
        durability: Durability,
    },
    /// Memory of this process.
    Memory,
    Server(String),
}

pub fn target(url: &str) -> Result<Target, OpenError> {
    let refuse = |cause: &str| Err(OpenError::Url { url: url.to_owned(), cause: cause.to_owned() });
    let Some((scheme, rest)) = url.split_once("://") else {
        return refuse("write surrealkv://DIR, mem://, ws://HOST:PORT or wss://HOST:PORT");
    };
    match scheme {
        "mem" | "memory" => Ok(Target::Memory),
        "ws" | "wss" if rest.is_empty() => refuse("it has no host"),
        "ws" | "wss" => Ok(Target::Server(url.to_owned())),
        "surrealkv" => directory(url, rest),
        "tikv" => refuse("this build has no TiKV: use a SurrealDB server on TiKV through ws://HOST:PORT"),
        "rocksdb" | "file" => refuse("SurrealDB drops RocksDB in its next version: use surrealkv://DIR"),
        _ => refuse("its scheme isn't known: write surrealkv://DIR, mem://, ws://HOST:PORT or wss://HOST:PORT"),
    }
}

fn directory(url: &str, rest: &str) -> Result<Target, OpenError> {
    let (dir, query) = rest.split_once('?').unwrap_or((rest, ""));
    if dir.is_empty() {
        return Err(OpenError::Url { url: url.to_owned(), cause: "it has no directory: write surrealkv://DIR".into() });
    }
    let given =
        query.split('&').filter_map(|pair| pair.split_once('=')).find(|(name, _)| name.eq_ignore_ascii_case("sync"));
    let durability = match given.map(|(_, value)| value) {
        None | Some("every") => Durability::EveryCommit,
        Some("never") => Durability::OperatingSystem,
        Some(time) => {
            // SurrealDB ignores a value it can't read: then a typo would quietly mean its default.
            if humantime_like(time) {
                Durability::Interval(time.to_owned())
            } else {
                let cause = format!("sync={time} isn't every, never or a time like 200ms");
                return Err(OpenError::Url { url: url.to_owned(), cause });
            }
        }
    };
    let joint = match (query.is_empty(), given.is_some()) {
        (_, true) => format!("?{query}"),
        (true, false) => "?sync=every".to_owned(),
        (false, false) => format!("?{query}&sync=every"),
    };
    Ok(Target::Directory { dir: PathBuf::from(dir), url: format!("surrealkv://{dir}{joint}"), durability })
}

/// Digits and a unit.
fn humantime_like(text: &str) -> bool {
    let unit = text.trim_start_matches(|c: char| c.is_ascii_digit());
    unit.len() < text.len() && matches!(unit, "ms" | "s" | "m")
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn every_commit_is_synced_unless_the_operator_says_otherwise() {
        for (url, full, durability) in [
            ("surrealkv://./data", "surrealkv://./data?sync=every", Durability::EveryCommit),
            (
                "surrealkv:///var/lib/w?versioned=true",
                "surrealkv:///var/lib/w?versioned=true&sync=every",
                Durability::EveryCommit,
            ),
            ("surrealkv://data?sync=never", "surrealkv://data?sync=never", Durability::OperatingSystem),
            ("surrealkv://data?sync=200ms", "surrealkv://data?sync=200ms", Durability::Interval("200ms".into())),
        ] {
            let Target::Directory { url: found, durability: how, .. } = target(url).unwrap() else {
                unreachable!("{url}")
            };
            assert_eq!((found.as_str(), how), (full, durability));
        }
    }

    #[test]
    fn what_cannot_be_opened_says_what_can() {
        for (url, part) in [
            ("tikv://pd:2379", "no TiKV"),
            ("rocksdb://x", "surrealkv"),
            ("./data", "surrealkv://DIR"),
            ("surrealkv://", "directory"),
            ("surrealkv://d?sync=evry", "evry"),
            ("ws://", "host"),
            ("http://x", "scheme"),
        ] {
            let error = target(url).unwrap_err();
            assert!(error.to_string().contains(part), "{url}: {error}");
            assert_eq!(error.code().as_str(), "CONFIG.STORE");
        }
    }
}
