//! The contract against its frozen copies (`wit/frozen/VERSION/`): what was released is never changed (`docs/plugins.md`).
//!
//! The version in force is frozen itself, so `wit/` equals its copy byte for byte. A later version keeps every declaration of each
//! earlier one with the same minor number, word for word; what it adds says `@since` of a later version, and no exported interface
//! (`*-api`) grows, because a component that was built before has no such function.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context, Result};

/// Folder of the copies.
const FROZEN: &str = "frozen";

pub fn check(root: &Path) -> Result<Vec<String>> {
    let folder = root.join("wit");
    let current = read(&folder)?;
    let Some(version) = version_of(&current) else { return Ok(vec!["wit/ names no package version".to_owned()]) };
    let mut breaches = Vec::new();
    let mut frozen_now = false;
    let copies = folder.join(FROZEN);
    let listing = || format!("listing {}", copies.display());
    for entry in std::fs::read_dir(&copies).with_context(listing)? {
        let entry = entry.with_context(listing)?;
        let name = entry.file_name().to_string_lossy().into_owned();
        let frozen = read(&entry.path())?;
        if version_of(&frozen).as_deref() != Some(name.as_str()) {
            breaches.push(format!("wit/{FROZEN}/{name} holds another version than its name says"));
        }
        if name == version {
            frozen_now = true;
            breaches.extend(differing(&frozen, &current, &name));
        } else if minor(&name) == minor(&version) {
            breaches.extend(broken(&frozen, &current, &name));
        }
    }
    if !frozen_now {
        breaches.push(format!("version {version} of the contract has no copy: cp wit/*.wit wit/{FROZEN}/{version}/"));
    }
    Ok(breaches)
}

type Files = BTreeMap<String, String>;

/// The `.wit` files of a folder.
fn read(folder: &Path) -> Result<Files> {
    let listing = || format!("listing {}", folder.display());
    let mut files = Files::new();
    for entry in std::fs::read_dir(folder).with_context(listing)? {
        let path = entry.with_context(listing)?.path();
        if path.extension().is_some_and(|extension| extension == "wit") {
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            let text = std::fs::read_to_string(&path).with_context(|| format!("reading {}", path.display()))?;
            files.insert(name, text);
        }
    }
    Ok(files)
}

/// The one version that all files name.
fn version_of(files: &Files) -> Option<String> {
    let of = |text: &str| {
        let line = text.lines().find(|line| line.starts_with("package "))?;
        Some(line.split_once('@')?.1.trim_end_matches(';').trim().to_owned())
    };
    let mut versions = files.values().map(|text| of(text));
    let first = versions.next()??;
    versions.all(|version| version.as_deref() == Some(first.as_str())).then_some(first)
}

/// Below 1.0 a minor version breaks.
fn minor(version: &str) -> Option<(u64, u64)> {
    let mut parts = version.split('.').map(|part| part.parse().ok());
    Some((parts.next()??, parts.next()??))
}

fn differing(frozen: &Files, current: &Files, version: &str) -> Vec<String> {
    let names: std::collections::BTreeSet<&String> = frozen.keys().chain(current.keys()).collect();
    let differs = names.into_iter().filter(|name| frozen.get(*name) != current.get(*name));
    differs
        .map(|name| {
            format!(
                "wit/{name} differs from wit/{FROZEN}/{version}/{name}: what was released isn't changed; add to it under a new version, and freeze that"
            )
        })
        .collect()
}

fn broken(frozen: &Files, current: &Files, version: &str) -> Vec<String> {
    let (old, new) = (declarations(frozen), declarations(current));
    let mut breaches = Vec::new();
    for (path, text) in &old {
        match new.get(path) {
            None => breaches.push(format!("{path} of contract {version} is gone: records and functions stay for ever")),
            Some(found) if found != text => {
                breaches.push(format!("{path} differs from contract {version}: add another one beside it instead"));
            }
            Some(_) => {}
        }
    }
    for (path, text) in new.iter().filter(|(path, _)| !old.contains_key(*path)) {
        let grows = |(scope, _): (&str, &str)| scope.ends_with("-api") && old.keys().any(|old| old.starts_with(scope));
        if path.rsplit_once(" / ").is_some_and(grows) {
            breaches.push(format!("{path} is new in an exported interface: add a new optional interface instead"));
        }
        if !text.contains("@since") || text.contains(&format!("@since ( version = {version} )")) {
            breaches.push(format!("{path} is new and doesn't say @since with the new version"));
        }
    }
    breaches
}

/// Every declaration by its path (`interface kv / get`), with its text in one spelling.
fn declarations(files: &Files) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    for text in files.values() {
        let words = words(text);
        collect(&mut words.iter().map(String::as_str), "", &mut found);
    }
    found
}

/// Words and signs, without comments.
fn words(text: &str) -> Vec<String> {
    let mut words: Vec<String> = Vec::new();
    for line in text.lines() {
        let line = line.split("//").next().unwrap_or_default();
        let mut word = String::new();
        for sign in line.chars() {
            let is_alone = "{}();:,=<>".contains(sign);
            if (sign.is_whitespace() || is_alone) && !word.is_empty() {
                words.push(std::mem::take(&mut word));
            }
            if is_alone {
                words.push(sign.to_string());
            } else if !sign.is_whitespace() {
                word.push(sign);
            }
        }
        if !word.is_empty() {
            words.push(word);
        }
    }
    words
}

/// Reads declarations up to the end of a scope. Interfaces, worlds and resources are scopes; everything else is one text.
fn collect<'a>(words: &mut impl Iterator<Item = &'a str>, scope: &str, found: &mut BTreeMap<String, String>) {
    let mut text: Vec<&str> = Vec::new();
    while let Some(word) = words.next() {
        match word {
            "}" => return,
            ";" => {
                add(scope, &text, found);
                text.clear();
            }
            "{" => {
                let (head, name) = heading(&text);
                if matches!(head, "interface" | "world" | "resource") {
                    let path = joined(scope, &format!("{head} {name}"));
                    found.insert(path.clone(), text.join(" "));
                    collect(words, &path, found);
                } else {
                    text.push(word);
                    let mut depth = 1_usize;
                    while depth > 0 {
                        let Some(word) = words.next() else { break };
                        match word {
                            "{" => depth += 1,
                            "}" => depth -= 1,
                            _ => {}
                        }
                        text.push(word);
                    }
                    // `use x.{a, b};` goes on to its semicolon.
                    if head != "use" {
                        add(scope, &text, found);
                        text.clear();
                        continue;
                    }
                    continue;
                }
                text.clear();
            }
            _ => text.push(word),
        }
    }
}

fn joined(scope: &str, name: &str) -> String {
    if scope.is_empty() { name.to_owned() } else { format!("{scope} / {name}") }
}

/// Kind and name of a declaration, behind its annotations.
fn heading<'a>(text: &[&'a str]) -> (&'a str, &'a str) {
    let mut rest = text.iter().copied().peekable();
    while rest.peek().is_some_and(|word| word.starts_with('@')) {
        rest.by_ref().find(|word| *word == ")");
    }
    (rest.next().unwrap_or_default(), rest.next().unwrap_or_default())
}

fn add(scope: &str, text: &[&str], found: &mut BTreeMap<String, String>) {
    let (head, name) = heading(text);
    if head.is_empty() || head == "package" {
        return;
    }
    // A function is named before its colon; the rest by kind and name. Imports of types may come one by one.
    let path = match name {
        ":" => head.to_owned(),
        name => format!("{head} {name}"),
    };
    found.insert(joined(scope, &path), text.join(" "));
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    const OLD: &str = "package waybill:plugin@0.1.0;\n/// Doc.\n@since(version = 0.1.0)\ninterface kv {\n  use types.{a, b};\n  record entry { value: list<u8> }\n  resource r { get: func() -> u32; }\n  keys: func(prefix: string) -> list<string>; // here\n}\n@since(version = 0.1.0)\ninterface send-api { send: async func(); }\n@since(version = 0.1.0)\nworld w { import kv; export send-api; }\n";

    fn files(text: &str) -> Files {
        Files::from([("x.wit".to_owned(), text.to_owned())])
    }

    fn breaches(change: impl Fn(&str) -> String) -> Vec<String> {
        let new = change(&OLD.replace("@0.1.0;", "@0.1.1;"));
        broken(&files(OLD), &files(&new), "0.1.0")
    }

    #[test]
    fn every_declaration_is_found() {
        let found = declarations(&files(OLD));
        let paths: Vec<&str> = found.keys().map(String::as_str).collect();
        assert_eq!(
            paths,
            [
                "interface kv",
                "interface kv / keys",
                "interface kv / record entry",
                "interface kv / resource r",
                "interface kv / resource r / get",
                "interface kv / use types.",
                "interface send-api",
                "interface send-api / send",
                "world w",
                "world w / export send-api",
                "world w / import kv",
            ]
        );
    }

    #[test]
    fn comments_and_layout_may_change_and_functions_be_added() {
        assert_eq!(breaches(str::to_owned), Vec::<String>::new());
        assert_eq!(
            breaches(|text| text.replace("/// Doc.", "/// Better.").replace("  ", "    ")),
            Vec::<String>::new()
        );
        let added = "@since(version = 0.1.1)\n  drop: func();\n  keys:";
        assert_eq!(breaches(|text| text.replace("keys:", added)), Vec::<String>::new());
    }

    #[test]
    fn what_was_released_stays_as_it_was() {
        for (from, to, says) in [
            ("value: list<u8>", "value: list<u8>, more: u32", "record entry differs"),
            ("keys: func(prefix: string)", "keys: func()", "keys differs"),
            ("  keys: func(prefix: string) -> list<string>; // here\n", "", "keys of contract 0.1.0 is gone"),
            ("get: func() -> u32;", "", "get of contract 0.1.0 is gone"),
            ("import kv; ", "", "import kv of contract 0.1.0 is gone"),
            ("keys:", "other: func();\n  keys:", "doesn't say @since"),
            ("keys:", "@since(version = 0.1.0) other: func();\n  keys:", "doesn't say @since with the new version"),
            ("send: async func();", "send: async func(); @since(version = 0.1.1) more: func();", "exported interface"),
        ] {
            let found = breaches(|text| text.replace(from, to));
            assert!(found.iter().any(|breach| breach.contains(says)), "{from} -> {to}: {found:?}");
        }
    }

    #[test]
    fn the_version_in_force_equals_its_copy() {
        assert!(differing(&files(OLD), &files(OLD), "0.1.0").is_empty());
        assert_eq!(differing(&files(OLD), &files(&OLD.replace("Doc", "Dok")), "0.1.0").len(), 1);
    }
}
