//! Builds the misbehaving guests of `tests/guests` and the example `transport-from-scratch`, and writes `examples.rs` and `guests.rs`: a constant with the path of each, the list `ALL`, and a
//! macro that visits each, so that a test file can demand a test for every one of them.

#[path = "../host/bundled/build/guests.rs"]
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
    let workspace = root.join("tests").join("guests");
    guests::watch(&[&root.join("wit"), &root.join("plugins").join("sdk")]);
    guests::watch_workspace(&workspace)?;
    println!("cargo::rerun-if-changed={}", root.join("host/bundled/build/guests.rs").display());

    let names = fixture_names(&workspace.join("examples"))?;
    let built = guests::build(&workspace, "guests", &["--examples"])?.join("examples");
    let out = PathBuf::from(env::var_os("OUT_DIR").ok_or("OUT_DIR is not set: cargo sets it for build scripts")?);
    let code = code(&names, &built)?;
    fs::write(out.join("guests.rs"), code).map_err(|error| format!("failed to write guests.rs: {error}"))?;

    let example = root.join("examples").join("transport-from-scratch");
    guests::watch(&[&example.join("Cargo.toml"), &example.join("Cargo.lock"), &example.join("src")]);
    guests::watch(&[&example.join("waybill-plugin.toml")]);
    let ledger = guests::build(&example, "guests", &["--lib"])?.join("ledger.wasm");
    let code = format!(
        "/// Path of the component of `examples/transport-from-scratch`.\npub const LEDGER: &str = {ledger:?};\n"
    );
    fs::write(out.join("examples.rs"), code).map_err(|error| format!("failed to write examples.rs: {error}"))
}

/// Names of the fixtures, in order.
fn fixture_names(examples: &Path) -> Result<Vec<String>, String> {
    let failed = |error| format!("failed to list {}: {error}", examples.display());
    let mut names = Vec::new();
    for entry in fs::read_dir(examples).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        if path.extension().is_some_and(|extension| extension == "rs") {
            names.extend(path.file_stem().and_then(|name| name.to_str()).map(str::to_owned));
        }
    }
    names.sort();
    Ok(names)
}

fn code(names: &[String], built: &Path) -> Result<String, String> {
    let mut constants = String::new();
    let mut list = String::new();
    let mut visits = String::new();
    for name in names {
        let component = built.join(format!("{name}.wasm"));
        if !component.is_file() {
            return Err(format!(
                "tests/guests/examples/{name}.rs gave no component: add an [[example]] named `{name}` with \
                 crate-type = [\"cdylib\"] to tests/guests/Cargo.toml"
            ));
        }
        let constant = name.to_uppercase();
        let lines = [
            writeln!(constants, "/// Path of the component `{name}`.\npub const {constant}: &str = {component:?};"),
            writeln!(list, "    (\"{name}\", {constant}),"),
            writeln!(visits, "        $visit!({name});"),
        ];
        if lines.iter().any(Result::is_err) {
            return Err("failed to write to a string".to_owned());
        }
    }
    Ok(format!(
        "{constants}\n/// Name and path of every fixture.\npub const ALL: &[(&str, &str)] = &[\n{list}];\n\n\
         /// Calls `$visit!(name)` for every fixture.\n#[macro_export]\nmacro_rules! for_each_guest {{\n    \
         ($visit:ident) => {{\n{visits}    }};\n}}\n"
    ))
}
