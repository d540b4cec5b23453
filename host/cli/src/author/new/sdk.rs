//! The author's crate for a project outside Waybill's repository: its `Cargo.toml` without the workspace it lies in.

use std::path::{Path, PathBuf};

use toml::{Table, Value};
use waybill_core::code::Code;

use crate::exit::{CliError, Exit};

/// The folder of an author's crate that a project is to use instead of a copy.
pub(super) fn at(folder: &Path) -> Result<PathBuf, CliError> {
    let wrong = || {
        CliError::usage(
            format!("{} doesn't hold the crate waybill-plugin", folder.display()),
            "give the folder plugins/sdk of Waybill's repository, or leave --sdk out to get a copy",
        )
    };
    let text = std::fs::read_to_string(folder.join("Cargo.toml")).map_err(|_| wrong())?;
    let manifest: Table = text.parse().map_err(|_| wrong())?;
    let name = manifest.get("package").and_then(|package| package.get("name")).and_then(Value::as_str);
    if name != Some("waybill-plugin") {
        return Err(wrong());
    }
    folder.canonicalize().map_err(CliError::io(format!("looking at {}", folder.display())))
}

/// The crate's `Cargo.toml` with everything filled in that it inherits from its workspace.
pub(super) fn standalone(workspace: &str, manifest: &str) -> Result<Vec<u8>, CliError> {
    let (workspace, mut manifest) = (parsed(workspace)?, parsed(manifest)?);
    let inherited =
        |table: &str, key: &str| -> Option<Value> { workspace.get("workspace")?.get(table)?.get(key).cloned() };
    // Lints are this repository's business.
    manifest.remove("lints");
    for (table, source) in
        [("package", "package"), ("dependencies", "dependencies"), ("dev-dependencies", "dependencies")]
    {
        let Some(Value::Table(entries)) = manifest.get_mut(table) else { continue };
        for (key, value) in entries.iter_mut() {
            let Some(written) = value.as_table().filter(|entry| entry.contains_key("workspace")).cloned() else {
                continue;
            };
            let mut found = inherited(source, key).ok_or_else(|| broken(format!("{key} isn't in the workspace")))?;
            add(&mut found, written);
            *value = found;
        }
    }
    let text = toml::to_string(&manifest).map_err(|error| broken(error.to_string()))?;
    Ok(format!("# Written by `waybill plugin new`. Sources: plugins/sdk of Waybill.\n{text}").into_bytes())
}

/// Adds what a dependency says beside `workspace = true`, e.g. further features.
fn add(found: &mut Value, mut written: Table) {
    written.remove("workspace");
    if written.is_empty() {
        return;
    }
    if let Value::String(version) = found {
        *found = Value::Table(Table::from_iter([("version".to_owned(), Value::String(version.clone()))]));
    }
    let Value::Table(entries) = found else { return };
    for (key, value) in written {
        match (entries.get_mut(&key), value) {
            (Some(Value::Array(before)), Value::Array(more)) => before.extend(more),
            (_, value) => {
                entries.insert(key, value);
            }
        }
    }
}

fn parsed(text: &str) -> Result<Table, CliError> {
    text.parse().map_err(|error: toml::de::Error| broken(error.to_string()))
}

/// Only a mistake of the build can lead here; a test reads what is embedded.
fn broken(why: String) -> CliError {
    CliError::Host {
        code: Code::PLUGIN_PROJECT,
        what: format!("the embedded author's crate: {why}"),
        exit: Exit::Failed,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn what_is_inherited_is_filled_in() {
        let workspace = r#"
            [workspace.package]
            edition = "2024"
            [workspace.dependencies]
            serde = { version = "1", features = ["derive"] }
            json = "2"
        "#;
        let manifest = r#"
            [package]
            name = "x"
            edition.workspace = true
            [lints]
            workspace = true
            [dependencies]
            serde = { workspace = true, features = ["rc"] }
            json.workspace = true
        "#;
        let text = String::from_utf8(standalone(workspace, manifest).unwrap()).unwrap();
        let table: Table = text.parse().unwrap();
        let expected: Table = r#"
            package = { name = "x", edition = "2024" }
            dependencies = { serde = { version = "1", features = ["derive", "rc"] }, json = "2" }
        "#
        .parse()
        .unwrap();
        assert_eq!(table, expected);
    }

    #[test]
    fn what_isnt_in_the_workspace_is_named() {
        let error = standalone("", "[dependencies]\nx.workspace = true").unwrap_err();
        assert!(error.to_string().contains("x isn't in the workspace"), "{error}");
    }
}
