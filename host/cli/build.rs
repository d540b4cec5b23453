//! Embeds what `waybill plugin new` writes: the templates, the contract (`wit/`) and the author's crate (`plugins/sdk`), as
//! `scaffold.rs` in the output folder: a list of path and bytes.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::{env, fs};

/// Folders and files, from the repository's root, and the prefix under which each is embedded.
const SOURCES: [(&str, &str); 8] = [
    ("host/cli/templates", "templates"),
    ("wit", "wit"),
    ("plugins/sdk", "sdk"),
    ("plugins/Cargo.toml", "plugins/Cargo.toml"),
    ("plugins/Cargo.lock", "plugins/Cargo.lock"),
    ("examples/transport-from-scratch/src", "ledger/src"),
    ("examples/transport-from-scratch/tests", "ledger/tests"),
    ("examples/transport-from-scratch/waybill-plugin.toml", "ledger/waybill-plugin.toml"),
];

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(reason) => {
            println!("cargo::error={reason}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<(), String> {
    let variable = |name: &str| env::var(name).map_err(|error| format!("{name}: {error}"));
    let package = PathBuf::from(variable("CARGO_MANIFEST_DIR")?);
    let root = package.ancestors().nth(2).ok_or("host/cli lies two folders below the root")?;
    let mut files = Vec::new();
    for (source, prefix) in SOURCES {
        let path = root.join(source);
        println!("cargo::rerun-if-changed={}", path.display());
        collect(&path, prefix, &mut files)?;
    }
    files.sort();
    let mut code = String::from("&[\n");
    for (name, path) in files {
        let path = path.to_str().ok_or_else(|| format!("{} is not UTF-8", path.display()))?;
        writeln!(code, "    ({name:?}, include_bytes!({path:?})),").map_err(|error| error.to_string())?;
    }
    code.push_str("]\n");
    let out = PathBuf::from(variable("OUT_DIR")?).join("scaffold.rs");
    fs::write(&out, code).map_err(|error| format!("failed to write {}: {error}", out.display()))
}

/// All files at or below a path, but for what is built.
fn collect(path: &Path, name: &str, files: &mut Vec<(String, PathBuf)>) -> Result<(), String> {
    if path.is_file() {
        files.push((name.to_owned(), path.to_path_buf()));
        return Ok(());
    }
    let failed = |error| format!("failed to list {}: {error}", path.display());
    for entry in fs::read_dir(path).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        let below = entry.file_name().to_string_lossy().into_owned();
        if !matches!(below.as_str(), "target" | "node_modules" | "__pycache__") {
            collect(&entry.path(), &format!("{name}/{below}"), files)?;
        }
    }
    Ok(())
}
