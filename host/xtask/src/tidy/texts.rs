//! Rules about single files: length, documentation, and what must not be in them.

use std::path::Path;

use anyhow::{Context, Result};

use super::words;

/// Longest source file of the product, in lines, without its tests. Most are below 250.
const PRODUCT_LINES_MAX: usize = 400;
/// Longest of all: what one can still read in one sitting.
const LINES_MAX: usize = 700;
/// Folders whose files test, measure or show the product.
const BESIDE_PRODUCT: [&str; 5] = ["tests", "testkit", "xtask", "examples", "benches"];
/// Larger files are data, not text to be checked. Bytes.
const TEXT_BYTES_MAX: u64 = 1024 * 1024;

/// Most doc comments of three words or fewer in all: help texts and words of protocols, where three words are enough.
const SHORT_DOCS_MAX: usize = 366;

/// Documents that every clone has.
const DOCUMENTS: [&str; 11] = [
    "README.md",
    "ARCHITECTURE.md",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "LICENSE",
    "docs/configuration.md",
    "docs/development.md",
    "docs/aliases.md",
    "docs/errors/README.md",
    "plugins/README.md",
    "examples/orders/README.md",
];

/// Crates of which there must be one version: the heavy ones, and those whose types cross our own interfaces.
const ONE_VERSION: [&str; 6] = ["wasmtime", "surrealdb-core", "tokio", "hyper", "axum", "rustls"];

/// Where tools for authors of plugins live. They are to become a program of their own, without a host.
const AUTHOR: &str = "host/cli/src/author/";
/// What they therefore don't use.
const NOT_FOR_AUTHORS: [&str; 9] = [
    "crate::client",
    "crate::commands",
    "crate::config",
    "crate::data",
    "crate::plugins",
    "crate::serve",
    "crate::setup",
    "waybill_server",
    "waybill_store",
];

/// Endings of files that people write.
const WRITTEN: [&str; 8] = ["rs", "md", "toml", "wit", "surql", "py", "sh", "json"];

/// Homes that examples may live in.
const PLACEHOLDERS: [&str; 4] = ["me/", "someone/", "user/", "you/"];

/// Every breach, one sentence each.
pub fn check(root: &Path) -> Result<Vec<String>> {
    let mut breaches = Vec::new();
    for document in DOCUMENTS {
        if !root.join(document).is_file() {
            breaches.push(format!("{document} is missing"));
        }
    }
    let mut short_docs = 0;
    super::files(root, &mut |path| {
        let name = path.strip_prefix(root).unwrap_or(path).display().to_string();
        let ending = path.extension().and_then(|ending| ending.to_str()).unwrap_or_default();
        let script = ending.is_empty() && name.starts_with(".ci/");
        let bytes = path.metadata().with_context(|| format!("looking at {name}"))?.len();
        if (WRITTEN.contains(&ending) || script) && bytes <= TEXT_BYTES_MAX {
            let text = std::fs::read_to_string(path).with_context(|| format!("reading {name}"))?;
            breaches.extend(in_text(&name, ending, &text));
            short_docs += if ending == "rs" { words::short_docs(&text) } else { 0 };
        }
        Ok(())
    })?;
    if short_docs > SHORT_DOCS_MAX {
        breaches.push(format!(
            "{short_docs} doc comments have three words or fewer, at most {SHORT_DOCS_MAX} may: say something or leave them out"
        ));
    }
    let lock = std::fs::read_to_string(root.join("Cargo.lock")).context("reading Cargo.lock")?;
    breaches.extend(doubled(&lock));
    Ok(breaches)
}

/// Breaches in one file.
fn in_text(name: &str, ending: &str, text: &str) -> Vec<String> {
    let mut breaches = Vec::new();
    let rust = ending == "rs";
    if rust {
        breaches.extend(too_long(name, text));
        breaches.extend(words::in_path(name));
    }
    // A module of tests is told by its name.
    if rust && !name.ends_with("tests.rs") && !text.trim_start().starts_with("//!") {
        breaches.push(format!("{name} doesn't begin with what it is (`//! ...`)"));
    }
    for (line, number) in text.lines().zip(1..) {
        // Put together, so that this file doesn't find itself.
        for (what, found) in [
            ("names a folder of one machine", machine_path(line)),
            ("ignores a test: mend it or delete it", rust && line.contains(concat!("#[", "ignore"))),
            (
                "leaves work for later",
                rust && [concat!("TO", "DO"), concat!("FIX", "ME")].iter().any(|word| line.contains(word)),
            ),
            (
                "uses what tools for authors do without",
                name.starts_with(AUTHOR) && NOT_FOR_AUTHORS.iter().any(|module| line.contains(module)),
            ),
            (
                "defines a name that explains nothing (host/xtask/src/tidy/words.rs)",
                rust && words::defined_in(line).is_some(),
            ),
            ("ends in a blank", rust && line.ends_with([' ', '\t'])),
        ] {
            if found {
                breaches.push(format!("{name}:{number} {what}"));
            }
        }
    }
    breaches
}

/// A file that nobody reads in one sitting.
fn too_long(name: &str, text: &str) -> Option<String> {
    let lines = text.lines().count();
    if lines > LINES_MAX {
        return Some(format!("{name} has {lines} lines, at most {LINES_MAX} are read in one sitting: split it"));
    }
    let tests = name.ends_with("tests.rs") || name.split('/').any(|folder| BESIDE_PRODUCT.contains(&folder));
    let product = text.lines().take_while(|line| line.trim() != "#[cfg(test)]").count();
    (!tests && product > PRODUCT_LINES_MAX).then(|| {
        format!("{name} has {product} lines without its tests, at most {PRODUCT_LINES_MAX} are allowed in the product: split it")
    })
}

/// A path into somebody's home or workplace, as a machine would write it.
fn machine_path(line: &str) -> bool {
    let homes = [concat!("/ro", "ot/"), concat!("/ho", "me/"), concat!("/Us", "ers/"), concat!("/wo", "rk/")];
    homes.iter().any(|folder| {
        line.match_indices(folder).any(|(at, _)| {
            let before = line.get(..at).and_then(|before| before.chars().next_back());
            let after = line.get(at + folder.len()..).unwrap_or_default();
            // The same words inside a longer path or an address are no such paths, and an example has to be named somehow.
            before.is_none_or(|c| !c.is_alphanumeric() && !matches!(c, '-' | '_' | '.' | '}' | '>'))
                && !PLACEHOLDERS.iter().any(|name| after.starts_with(name))
        })
    })
}

/// Crates in a lock file of which there are two versions and may be one.
fn doubled(lock: &str) -> Vec<String> {
    let count = |name: &str| lock.lines().filter(|line| *line == format!("name = \"{name}\"")).count();
    let doubled = ONE_VERSION.into_iter().filter(|name| count(name) > 1);
    doubled.map(|name| format!("Cargo.lock has {} versions of {name}", count(name))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(ending: &str, text: &str) -> Vec<String> {
        in_text("f", ending, text)
    }

    #[test]
    fn a_clean_file_breaks_no_rule() {
        assert_eq!(found("rs", concat!("//! What it is.\n\n/// Reads `src/wo", "rk/x`.\npub fn f() {}\n")), [""; 0]);
        assert_eq!(found("md", concat!("See https://example.org/ho", "me/ and ~/data.\n")), [""; 0]);
    }

    #[test]
    fn every_rule_about_a_file_is_seen_to_break() {
        assert_eq!(found("rs", "fn f() {}\n"), ["f doesn't begin with what it is (`//! ...`)"]);
        let long = format!("//! x\n{}", "\n".repeat(LINES_MAX));
        assert_eq!(found("rs", &long), ["f has 701 lines, at most 700 are read in one sitting: split it"]);
        let product = format!("//! x\n{}#[cfg(test)]\n{}", "x\n".repeat(400), "x\n".repeat(200));
        assert_eq!(
            found("rs", &product),
            ["f has 401 lines without its tests, at most 400 are allowed in the product: split it"]
        );
        assert!(in_text("host/core/src/x/tests.rs", "rs", &product).is_empty());
        assert!(in_text("tests/tests/x.rs", "rs", &product).is_empty());
        let home = format!("x\nin {0}me/max/data\nin {0}me/someone/data\n", "/ho");
        assert_eq!(found("toml", &home), ["f:2 names a folder of one machine"]);
        let ignored = format!("//! x\n#[{}]\n", "ignore");
        assert_eq!(found("rs", &ignored), ["f:2 ignores a test: mend it or delete it"]);
        let later = format!("//! x\n// {}: y\n", concat!("TO", "DO"));
        assert_eq!(found("rs", &later), ["f:2 leaves work for later"]);
        assert_eq!(found("rs", "//! x \n"), ["f:1 ends in a blank"]);
        let tool = in_text("host/cli/src/author/x.rs", "rs", "//! x\nuse crate::config::Config;\n");
        assert_eq!(tool, ["host/cli/src/author/x.rs:2 uses what tools for authors do without"]);
    }

    #[test]
    fn a_second_version_of_a_heavy_crate_is_seen() {
        let lock = "name = \"wasmtime\"\nname = \"tokio\"\nname = \"wasmtime\"\nname = \"syn\"\nname = \"syn\"\n";
        assert_eq!(doubled(lock), ["Cargo.lock has 2 versions of wasmtime"]);
    }
}
