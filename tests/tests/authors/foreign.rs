//! What another toolchain built: C, compiled by Zig from PyPI with bindings of the contract, made a plugin by `waybill plugin build --from`.

use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use serde_json::{Value, json};
use waybill_testkit::toolchains;
use wit_bindgen_c::Opts;
use wit_bindgen_core::{AsyncFilterSet, Files};
use wit_parser::Resolve;

use crate::support::{fails, json, kept, program, waybill, well};

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// A folder of toolchains, below Cargo's target folder.
fn tools(name: &str) -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).parent().unwrap().join("toolchains").join(name)
}

/// A Python that has Zig, as the example pins it.
fn python() -> &'static Path {
    static PYTHON: LazyLock<PathBuf> = LazyLock::new(|| {
        let pins = repository().join("examples/transport-c/requirements.txt");
        let programs = toolchains::environment(&tools("zig"), &pins, None).unwrap_or_else(|error| panic!("{error}"));
        programs.join("python3")
    });
    &PYTHON
}

/// Compiles C with bindings of a world into `folder/module.wasm`. `change` alters the contract before they are made.
fn compiled(folder: &Path, world: &str, sources: &[PathBuf], change: impl Fn(&str) -> String) -> PathBuf {
    let (contract, bindings) = (folder.join("wit"), folder.join("bindings"));
    std::fs::create_dir_all(&contract).unwrap();
    std::fs::create_dir_all(&bindings).unwrap();
    for entry in std::fs::read_dir(repository().join("wit")).unwrap() {
        let path = entry.unwrap().path();
        if path.is_file() {
            let text = std::fs::read_to_string(&path).unwrap();
            std::fs::write(contract.join(path.file_name().unwrap()), change(&text)).unwrap();
        }
    }
    let mut resolve = Resolve::default();
    let (package, _) = resolve.push_dir(&contract).unwrap();
    let world_id = resolve.select_world(&[package], Some(world)).unwrap();
    let mut files = Files::default();
    // As `--async=-all`: C calls and is called by plain functions.
    let options = Opts { async_: AsyncFilterSet::all(false), ..Opts::default() };
    options.build().generate(&mut resolve, world_id, &mut files).unwrap();
    for (name, bytes) in files.iter() {
        std::fs::write(bindings.join(name), bytes).unwrap();
    }
    let (module, name) = (folder.join("module.wasm"), world.replace('-', "_"));
    let mut zig = program(python());
    // WASI's libc, which is compiled once.
    zig.env("ZIG_GLOBAL_CACHE_DIR", tools("zig-cache"));
    zig.args([
        "-m",
        "ziglang",
        "cc",
        "--target=wasm32-wasi",
        "-mexec-model=reactor",
        "-Os",
        "-Wall",
        "-Wextra",
        "-Werror",
    ]);
    zig.arg("-I").arg(&bindings).args(sources);
    zig.arg(bindings.join(format!("{name}.c"))).arg(bindings.join(format!("{name}_component_type.o")));
    well(zig.arg("-o").arg(&module));
    module
}

/// A project's folder with a manifest, and the C sources that lie beside it.
fn project(folder: &str, from: &str) -> (PathBuf, Vec<PathBuf>) {
    let (source, dir) = (repository().join(from), kept(folder));
    std::fs::create_dir_all(&dir).unwrap();
    std::fs::copy(source.join("waybill-plugin.toml"), dir.join("waybill-plugin.toml")).unwrap();
    let inner = source.join("src");
    let sources = std::fs::read_dir(if inner.is_dir() { inner } else { source }).unwrap();
    let sources =
        sources.map(|entry| entry.unwrap().path()).filter(|path| path.extension().is_some_and(|end| end == "c"));
    (dir, sources.collect())
}

fn from(dir: &Path, file: &Path) -> std::process::Command {
    let mut command = waybill(&["plugin", "build", "-o", "json", "--from"]);
    command.arg(file).current_dir(dir);
    command
}

#[test]
fn a_transport_in_c_keeps_the_contract() {
    let (dir, sources) = project("c-transport", "examples/transport-c");
    let module = compiled(&dir, "transport-basic", &sources, str::to_owned);
    let built = json(&well(&mut from(&dir, &module)));
    assert_eq!(
        (&built["name"], &built["world"], &built["language"]),
        (&json!("ledger-c"), &json!("transport-basic"), &Value::Null)
    );
    assert_eq!(built["rights"][0]["asked"], json!(["tcp://*:*"]), "{built:#}");
    let component = dir.join("ledger-c.wasm");
    assert_eq!(Path::new(built["file"].as_str().unwrap()), component.canonicalize().unwrap());
    well(waybill(&["plugin", "check"]).arg(&component));
    let cases = repository().join("examples/transport-c/tests");
    let tested = well(waybill(&["plugin", "test", "--no-build", "-o", "json", "--cases"]).arg(cases).current_dir(&dir));
    let report = json(&tested);
    let checks = report["checks"].as_array().unwrap();
    assert!(checks.iter().filter(|check| check["verdict"] == "passed").count() >= 20, "{report:#}");
    assert!(checks.iter().all(|check| check["verdict"] != "not-run"), "{report:#}");

    // The same of a component, and of one that has its manifest already.
    let again = dir.join("again.wasm");
    let mut taken = from(&dir, &component);
    assert_eq!(json(&well(taken.arg("--out").arg(&again)))["digest"], built["digest"]);
    // It would be lost by it.
    let said = fails(&mut from(&dir, &component), 2);
    assert!(said.contains("PLUGIN.PROJECT") && said.contains("--out"), "{said}");
}

#[test]
fn a_step_in_c_speaks_by_preview1() {
    let (dir, sources) = project("c-step", "tests/foreign");
    let module = compiled(&dir, "participant-basic", &sources, str::to_owned);
    let built = json(&well(&mut from(&dir, &module)));
    let imports = built["imports"].as_array().unwrap();
    assert!(imports.iter().any(|import| import.as_str().unwrap().starts_with("wasi:cli/stdout@0.2.")), "{built:#}");
    let component = built["file"].as_str().unwrap();
    well(&mut waybill(&["plugin", "check", component]));
    let mut call = waybill(&["plugin", "call", component, "greet", "--input", r#"{"name":"you"}"#, "-o", "json"]);
    let output = well(&mut call);
    assert_eq!(json(&output)["output"], json!({ "hello": { "name": "you" } }));
    assert!(String::from_utf8_lossy(&output.stderr).contains("greeting 14 bytes"), "what it prints is logged");

    // A component of another world than the project's.
    let (other, _) = project("c-other-world", "examples/transport-c");
    let said = fails(&mut from(&other, &module), 1);
    assert!(
        said.contains("PLUGIN.MISSING_EXPORT") && said.contains("it exports waybill:plugin/participant-api@0.1.0"),
        "{said}"
    );
    // And with the manifest of another.
    let said = fails(&mut from(&other, Path::new(component)), 1);
    assert!(said.contains("PLUGIN.BUILD_FAILED") && said.contains("greeter-c"), "{said}");
    assert!(!other.join("ledger-c.wasm").exists());
}

#[test]
fn another_contract_is_told_by_what_differs() {
    let (dir, sources) = project("c-other-contract", "tests/foreign");
    let other = |text: &str| text.replace("max-concurrent-calls: u32,", "max-concurrent-calls: u32, colour: string,");
    let module = compiled(&dir, "participant-basic", &sources, other);
    let said = fails(&mut from(&dir, &module), 1);
    assert!(said.contains("PLUGIN.TYPE_MISMATCH") && said.contains("record opened has colour"), "{said}");
    let later = |text: &str| text.replace("@0.1.0", "@0.2.0");
    let module = compiled(&dir, "participant-basic", &sources, later);
    let said = fails(&mut from(&dir, &module), 1);
    assert!(said.contains("PLUGIN.CONTRACT_VERSION") && said.contains("waybill:plugin@0.2.0"), "{said}");
    assert!(!dir.join("greeter-c.wasm").exists());
}

#[test]
fn what_is_no_plugin_is_told_apart() {
    let dir = tempfile::tempdir().unwrap();
    let manifest = repository().join("tests/foreign/waybill-plugin.toml");
    std::fs::copy(manifest, dir.path().join("waybill-plugin.toml")).unwrap();
    for (name, bytes) in
        [("text.wasm", &b"hello"[..]), ("bare.wasm", b"\0asm\x01\0\0\0"), ("cut.wasm", b"\0asm\x01\0\0\0\x01\x7f")]
    {
        std::fs::write(dir.path().join(name), bytes).unwrap();
    }
    for (name, code, exit, says) in [
        ("nothing.wasm", "PLUGIN.PROJECT", 2, "there is no nothing.wasm"),
        (".", "PLUGIN.PROJECT", 2, "isn't a file"),
        ("text.wasm", "PLUGIN.NOT_A_COMPONENT", 1, "doesn't begin like one"),
        ("bare.wasm", "PLUGIN.CORE_MODULE", 1, "_component_type.o"),
        ("cut.wasm", "PLUGIN.NOT_A_COMPONENT", 1, "build it again"),
    ] {
        let said = fails(&mut from(dir.path(), Path::new(name)), exit);
        assert!(said.contains(code) && said.contains(says) && said.contains("fix "), "{name}: {said}");
    }
    // Without --from the folder has no language that could be built.
    let said = fails(waybill(&["plugin", "build"]).current_dir(&dir), 2);
    assert!(said.contains("PLUGIN.PROJECT") && said.contains("--from"), "{said}");
}
