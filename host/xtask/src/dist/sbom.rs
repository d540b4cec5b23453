//! What is in the binary, in the words of CycloneDX 1.5: every crate that is linked into it, and into the plugins that it bundles. Not
//! what only builds it (macros, build scripts), and not what it takes from the system that it runs on.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use serde_json::{Value, json};

use super::{VERSION, output, sha256};
use crate::cargo::Repository;
use crate::setup::GUEST_TARGET;

/// Where a crate is: in the host itself, or in the components within it.
const HOST: &str = "host";
const PLUGINS: &str = "bundled plugins";

/// A crate by name and version.
type Id = (String, String);

/// What cargo says of a crate.
#[derive(Debug, Default, PartialEq)]
struct Component {
    /// By an SPDX expression, where its author names them so.
    licences: Option<String>,
    /// On crates.io, and not in this repository.
    is_published: bool,
    within: BTreeSet<&'static str>,
}

type Components = BTreeMap<Id, Component>;

/// Writes the list of a binary's parts into a folder, and answers its file.
pub fn make(repository: &Repository, place: &Path, binary: &Path) -> Result<PathBuf> {
    let file = place.join(format!("waybill-{VERSION}.cdx.json"));
    let mut text = serde_json::to_vec_pretty(&document(&components(repository)?, &sha256(binary)?))?;
    text.push(b'\n');
    std::fs::write(&file, text).with_context(|| format!("writing {}", file.display()))?;
    Ok(file)
}

fn components(repository: &Repository) -> Result<Components> {
    let mut found = Components::new();
    for (folder, selection, within) in [
        (repository.root.clone(), ["--package", "waybill"].as_slice(), HOST),
        (repository.root.join("plugins"), &["--workspace", "--target", GUEST_TARGET], PLUGINS),
    ] {
        let mut tree = repository.cargo(["tree", "--locked", "--edges", "normal,no-proc-macro"]);
        tree.args(["--prefix", "none", "--format", "{p}|{l}"]).args(selection).current_dir(folder);
        read(&String::from_utf8_lossy(&output(&mut tree)?), within, &mut found);
    }
    Ok(found)
}

/// Reads lines like `name v1.2.3 (/its/folder)|MIT OR Apache-2.0`.
fn read(text: &str, within: &'static str, found: &mut Components) {
    for line in text.lines() {
        let Some((package, licences)) = line.trim_end_matches(" (*)").split_once('|') else { continue };
        let mut words = package.split(' ');
        let (Some(name), Some(version)) = (words.next(), words.next().and_then(|word| word.strip_prefix('v'))) else {
            continue;
        };
        let component = found.entry((name.to_owned(), version.to_owned())).or_default();
        component.is_published = words.next().is_none();
        component.licences = spdx(licences);
        component.within.insert(within);
    }
}

/// Older manifests set a slash between licences of which one may choose.
fn spdx(licences: &str) -> Option<String> {
    let choice: Vec<&str> = licences.split('/').map(str::trim).filter(|licence| !licence.is_empty()).collect();
    (!choice.is_empty()).then(|| choice.join(" OR "))
}

fn document(components: &Components, digest: &str) -> Value {
    let listed: Vec<Value> = components.iter().filter(|((name, _), _)| name != "waybill").map(listed).collect();
    json!({
        "$schema": "http://cyclonedx.org/schema/bom-1.5.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {
            "component": {
                "type": "application",
                "bom-ref": "waybill",
                "name": "waybill",
                "version": VERSION,
                "licenses": [{ "expression": env!("CARGO_PKG_LICENSE") }],
                "hashes": [{ "alg": "SHA-256", "content": digest }],
            },
            "tools": { "components": [{ "type": "application", "name": "cargo xtask dist", "version": VERSION }] },
        },
        "components": listed,
    })
}

fn listed(((name, version), component): (&Id, &Component)) -> Value {
    let places = component.within.iter().map(|place| json!({ "name": "waybill:within", "value": place }));
    let mut all = json!({
        "type": "library",
        "bom-ref": format!("{name}@{version}"),
        "name": name,
        "version": version,
        "properties": places.collect::<Vec<Value>>(),
    });
    if let Some(members) = all.as_object_mut() {
        if component.is_published {
            let purl = format!("pkg:cargo/{name}@{}", version.replace('+', "%2B"));
            members.insert("purl".into(), purl.into());
        }
        if let Some(licences) = &component.licences {
            members.insert("licenses".into(), json!([{ "expression": licences }]));
        }
    }
    all
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_crate_is_listed_once_with_its_licences_and_all_its_places() {
        let mut found = Components::new();
        let host = "waybill v0.1.0 (/src/host/cli)|Apache-2.0\nfnv v1.0.7|Apache-2.0 / MIT\n\n\
                    surrealdb v3.3.5|\nfnv v1.0.7|Apache-2.0 / MIT (*)\n";
        read(host, HOST, &mut found);
        read("fnv v1.0.7|Apache-2.0 / MIT\nsdk v0.1.0+5.3 (/src/plugins/sdk)|Apache-2.0\n", PLUGINS, &mut found);
        let document = document(&found, "abc");
        assert_eq!(document["metadata"]["component"]["hashes"][0]["content"], "abc");
        let place = |place: &str| json!({ "name": "waybill:within", "value": place });
        assert_eq!(
            document["components"],
            json!([
                {
                    "type": "library", "bom-ref": "fnv@1.0.7", "name": "fnv", "version": "1.0.7",
                    "purl": "pkg:cargo/fnv@1.0.7", "licenses": [{ "expression": "Apache-2.0 OR MIT" }],
                    "properties": [place(PLUGINS), place(HOST)],
                },
                {
                    "type": "library", "bom-ref": "sdk@0.1.0+5.3", "name": "sdk", "version": "0.1.0+5.3",
                    "licenses": [{ "expression": "Apache-2.0" }], "properties": [place(PLUGINS)],
                },
                {
                    "type": "library", "bom-ref": "surrealdb@3.3.5", "name": "surrealdb", "version": "3.3.5",
                    "purl": "pkg:cargo/surrealdb@3.3.5", "properties": [place(HOST)],
                },
            ])
        );
    }

    #[test]
    fn the_binary_is_made_of_what_the_lock_files_name() {
        let repository = Repository::find().unwrap();
        let found = components(&repository).unwrap();
        let lock = |folder: &str| std::fs::read_to_string(repository.root.join(folder).join("Cargo.lock")).unwrap();
        let locks = lock("") + &lock("plugins");
        for ((name, version), component) in &found {
            assert!(locks.contains(&format!("name = \"{name}\"\nversion = \"{version}\"\n")), "{name} {version}");
            assert!(!component.is_published || !name.starts_with("waybill"), "{name}");
        }
        let within = |name: &str| {
            let same = found.iter().filter(|((other, _), _)| other == name);
            same.flat_map(|(_, component)| &component.within).copied().collect::<BTreeSet<&str>>()
        };
        assert_eq!(within("surrealdb-core"), [HOST].into());
        assert_eq!(within("kafka-protocol"), [PLUGINS].into());
        for absent in ["insta", "proptest", "xtask", "serde_derive"] {
            assert!(within(absent).is_empty(), "{absent} isn't linked in");
        }
    }
}
