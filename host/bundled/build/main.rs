//! Builds the guest workspace `plugins/` and embeds every plugin of it, as `bundled.rs` in the output folder.
//!
//! A plugin is a folder with a `waybill-plugin.toml`; its crate is `waybill-<folder>`.

mod guests;

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::{env, fs};

fn main() -> ExitCode {
    guests::exit(run())
}

fn run() -> Result<(), String> {
    let root = guests::repository()?;
    let plugins = root.join("plugins");
    guests::watch(&[&root.join("wit")]);
    guests::watch_workspace(&plugins)?;

    let names = plugin_names(&plugins)?;
    let packages: Vec<String> = names.iter().map(|name| format!("waybill-{name}")).collect();
    let mut arguments = Vec::new();
    for package in &packages {
        arguments.extend(["--package", package.as_str()]);
    }
    let built = guests::build(&plugins, "plugins", &arguments)?;

    let mut code = String::from("&[\n");
    for name in &names {
        let component = built.join(format!("waybill_{}.wasm", name.replace('-', "_")));
        let component = component.to_str().ok_or_else(|| format!("the path {} is not UTF-8", component.display()))?;
        writeln!(code, "    Bundled {{ name: {name:?}, component: include_bytes!({component:?}) }},")
            .map_err(|error| error.to_string())?;
    }
    code.push_str("]\n");
    let out = PathBuf::from(env::var_os("OUT_DIR").ok_or("OUT_DIR is not set: cargo sets it for build scripts")?);
    fs::write(out.join("bundled.rs"), code).map_err(|error| format!("failed to write bundled.rs: {error}"))
}

/// Folders of plugins, in order.
fn plugin_names(plugins: &Path) -> Result<Vec<String>, String> {
    let mut names: Vec<String> = guests::folders(plugins)?
        .into_iter()
        .filter(|folder| folder.join("waybill-plugin.toml").is_file())
        .filter_map(|folder| folder.file_name().and_then(|name| name.to_str()).map(str::to_owned))
        .collect();
    names.sort();
    if names.is_empty() {
        return Err(format!("no plugin in {}: expected folders with a waybill-plugin.toml", plugins.display()));
    }
    Ok(names)
}
