//! The heavy dependencies are compiled once: whatever package is selected, they must get the same features.
//!
//! SurrealDB and wasmtime take twenty minutes. Cargo unifies features over what is selected, so one feature that only a test
//! asks for would build them a second time. This compares what the binary alone gets with what all packages get.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, Result, bail};

use crate::cargo::{Repository, shown};

/// Features of each crate, by `name version`. A crate may be there twice: for the host and for build scripts.
type Features = BTreeMap<String, BTreeSet<String>>;

/// Compares; the error names every crate that would be compiled twice.
pub fn check(repository: &Repository) -> Result<()> {
    let alone = tree(repository, &["--package", "waybill", "--edges", "normal,build"])?;
    let all = tree(repository, &["--workspace", "--edges", "normal,build,dev"])?;
    let differing = differing(&alone, &all);
    if differing.is_empty() {
        return Ok(());
    }
    bail!(
        "these crates get other features in the tests than in the binary, so they and all that use them would be compiled twice; \
         name the missing features in [workspace.dependencies]:\n  {}",
        differing.join("\n  ")
    )
}

fn tree(repository: &Repository, selection: &[&str]) -> Result<Features> {
    let mut command = repository.cargo(["tree", "--locked", "--prefix", "none", "--format", "{p}|{f}"]);
    command.args(selection);
    let output = command.output().with_context(|| format!("starting {}", shown(&command)))?;
    if !output.status.success() {
        bail!("{} ended with {}:\n{}", shown(&command), output.status, String::from_utf8_lossy(&output.stderr));
    }
    Ok(read(&String::from_utf8_lossy(&output.stdout)))
}

fn read(text: &str) -> Features {
    let mut features = Features::new();
    for line in text.lines() {
        let Some((package, list)) = line.trim_end_matches(" (*)").split_once('|') else { continue };
        let package = package.split(" (").next().unwrap_or(package);
        features.entry(package.to_owned()).or_default().insert(list.to_owned());
    }
    features
}

fn differing(alone: &Features, all: &Features) -> Vec<String> {
    let mut found = Vec::new();
    for (package, sets) in alone {
        let Some(others) = all.get(package) else { continue };
        for set in sets.difference(others) {
            let others: Vec<_> = others.iter().map(String::as_str).collect();
            found.push(format!("{package}: the binary has [{set}], all together [{}]", others.join("] [")));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn the_heavy_dependencies_are_compiled_once() {
        check(&Repository::find().unwrap()).unwrap();
    }

    #[test]
    fn a_feature_that_only_the_tests_ask_for_is_named() {
        let alone = read("serde v1.0.0|default,std\nwaybill v0.1.0 (/x/host/cli)|\nserde v1.0.0|default,std (*)\n");
        let same = read("serde v1.0.0|default,std\ninsta v1.0.0|default\n");
        let more = read("serde v1.0.0|default,rc,std\n");
        assert!(differing(&alone, &same).is_empty());
        assert_eq!(
            differing(&alone, &more),
            ["serde v1.0.0: the binary has [default,std], all together [default,rc,std]"]
        );
    }

    #[test]
    fn a_crate_with_two_sets_of_features_may_have_both() {
        let alone = read("syn v2.0.0|full\n");
        let both = read("syn v2.0.0|full\nsyn v2.0.0 (proc-macro)|full,visit\n");
        assert!(differing(&alone, &both).is_empty());
    }
}
