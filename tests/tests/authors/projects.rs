//! Every world in every language: made, tested by its own tests, built, run through its suite, loaded.

use std::path::Path;

use serde_json::{Value, json};

use crate::support::{copied, fails, json, program, project, project_at, waybill, well, words};

/// The repository's author's crate: most Rust projects use it in place, so that it is compiled once.
fn sdk() -> String {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../plugins/sdk").canonicalize().unwrap().display().to_string()
}

/// The project's own tests, as its README says.
fn own_tests(dir: &Path, language: &str) {
    let mut command = match language {
        "rust" => {
            let mut cargo = program("cargo");
            cargo.arg("test");
            cargo
        }
        "js" => {
            let mut node = program("node");
            node.arg("--test");
            node
        }
        _ => {
            let mut python = program("python3");
            python.args(["-m", "unittest", "discover", "tests"]);
            python
        }
    };
    let output = well(command.current_dir(dir));
    let said = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    let ran = ["test result: ok. ", "# pass ", "Ran "]
        .iter()
        .any(|mark| said.split(mark).skip(1).any(|rest| rest.starts_with(|digit: char| ('1'..='9').contains(&digit))));
    assert!(ran, "its tests ran: {said}");
}

/// What an editor says of a project in JavaScript, by the TypeScript that comes with jco.
const TYPE_CHECK: [&str; 3] = ["node_modules/typescript/bin/tsc", "-p", "jsconfig.json"];

fn whole_way(world: &str, language: &str, further: &[&str]) {
    let dir = project(world, language, further);
    own_tests(&dir, language);
    if language == "js" {
        well(program("node").args(TYPE_CHECK).current_dir(&dir));
    }
    let build = |more: &[&str]| json(&well(waybill(&["plugin", "build", "-o", "json"]).args(more).current_dir(&dir)));
    // Of each language the tool makes one project at every run, whatever an earlier one has left; the others when something of theirs changed.
    let force: &[&str] = if world == "transport" { &["--force"] } else { &[] };
    let built = build(force);
    let component = built["file"].as_str().unwrap().to_owned();
    assert_eq!(built["language"], language);
    assert!(Path::new(&component).is_file());
    if language != "rust" {
        let again = build(&[]);
        assert_eq!((&again["unchanged"], &again["digest"]), (&json!(true), &built["digest"]));
    }
    if world == "transport" {
        assert_eq!(built["unchanged"], false);
    }

    let report = json(&well(waybill(&["plugin", "test", "--no-build", "-o", "json"]).current_dir(&dir)));
    let checks = report["checks"].as_array().unwrap();
    assert!(checks.iter().filter(|check| check["verdict"] == "passed").count() >= 4, "{report:#}");
    assert!(checks.iter().any(|check| check["name"].as_str().unwrap().starts_with("case: ")), "{report:#}");
    assert_eq!(report["digest"], built["digest"]);

    let inspected = json(&well(&mut waybill(&["plugin", "inspect", &component, "-o", "json"])));
    assert_eq!((&inspected["name"], &inspected["world"]), (&Value::from(format!("my-{world}")), &Value::from(world)));
    well(&mut waybill(&["plugin", "check", &component]));
    if world == "participant" {
        leaves_its_message(&component);
    }
}

/// The templates of all languages leave the same message, under a key by which a receiver tells a repeat.
fn leaves_its_message(component: &str) {
    let order = r#"{"sku":"tea","count":2}"#;
    let answer = json(&well(&mut waybill(&["plugin", "call", component, "reserve", "--input", order, "-o", "json"])));
    let message = &answer["messages"][0];
    assert_eq!(
        (&message["topic"], &message["content_type"]),
        (&json!("bus:stock.reserved"), &json!("application/json"))
    );
    assert_eq!(message["payload"], json!({ "sku": "tea", "reserved": 2 }), "{answer:#}");
    assert_eq!(message["headers"], json!([["idempotency-key", answer["idempotency_key"]]]), "{answer:#}");
}

#[test]
fn what_javascript_says_and_throws_is_shown() {
    let dir = project_at("js-console", "participant", "js", &[]);
    let source = dir.join("src/reserve.js");
    let good = std::fs::read_to_string(&source).unwrap();
    let broken = "\nexport function reserve(config, order) {\n  console.log(\"reserving\", order);\n  throw new TypeError(\"no stock of \" + order.sku);\n}\n";
    std::fs::write(&source, good.replace("export function reserve(", "export function reserved(") + broken).unwrap();
    let built = well(waybill(&["plugin", "build", "-o", "json"]).current_dir(&dir));
    std::fs::write(&source, good).unwrap();
    let component = json(&built)["file"].as_str().unwrap().to_owned();
    let mut call = waybill(&["plugin", "call", &component, "reserve", "-o", "json"]);
    let output = call.args(["--input", r#"{"sku":"tea","count":2}"#]).output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{}", words(&output));
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(said.contains("reserving {\"sku\":\"tea\",\"count\":2}"), "{said}");
    let reason = json(&output)["fault"]["reason"].as_str().unwrap().to_owned();
    assert!(reason.contains("no stock of tea") && reason.contains("at reserve (/reserve.js:"), "{reason}");
    assert!(!reason.contains("wasm backtrace") && !said.contains("RUST_BACKTRACE"), "{reason}\n{said}");
}

#[test]
fn an_editor_marks_what_the_host_would_not_take() {
    let dir = project_at("js-types", "transport", "js", &[]);
    let source = dir.join("src/plugin.js");
    let good = std::fs::read_to_string(&source).unwrap();
    std::fs::write(&source, good.replace("message.payload", "message.paylod")).unwrap();
    let output = program("node").args(TYPE_CHECK).current_dir(&dir).output().unwrap();
    std::fs::write(&source, good).unwrap();
    assert!(!output.status.success() && words(&output).contains("Did you mean 'payload'?"), "{}", words(&output));
}

#[test]
fn a_trap_of_a_debug_build_says_the_functions_and_lines_on_its_way() {
    let dir = project_at("rust-debug", "participant", "rust", &["--sdk", &sdk()]);
    let source = dir.join("src/lib.rs");
    let good = std::fs::read_to_string(&source).unwrap();
    let check = "    if order.count > config.most {";
    std::fs::write(&source, good.replace(check, &format!("    assert!(order.count < 3, \"no stock\");\n{check}")))
        .unwrap();
    let built = well(waybill(&["plugin", "build", "--debug", "-o", "json"]).current_dir(&dir));
    std::fs::write(&source, good).unwrap();
    let component = json(&built)["file"].as_str().unwrap().to_owned();
    let mut call = waybill(&["plugin", "call", &component, "reserve", "-o", "json"]);
    let output = call.args(["--input", r#"{"sku":"tea","count":5}"#]).output().unwrap();
    let reason = json(&output)["fault"]["reason"].as_str().unwrap().to_owned();
    assert!(reason.starts_with("panicked at src/lib.rs:") && reason.contains("no stock"), "{reason}");
    assert!(reason.contains("reserve") && reason.contains(" (src/lib.rs:"), "{reason}");
}

#[test]
fn a_transport_in_rust() {
    // With its own copy of the author's crate: nothing but the binary is needed.
    whole_way("transport", "rust", &[]);
}

#[test]
fn a_transport_with_a_protocol_of_its_own() {
    let dir = project_at("rust-net", "transport", "rust", &["--template", "net", "--sdk", &sdk()]);
    own_tests(&dir, "rust");
    well(waybill(&["plugin", "build"]).current_dir(&dir));
    let report = json(&well(waybill(&["plugin", "test", "--no-build", "-o", "json"]).current_dir(&dir)));
    let checks = report["checks"].as_array().unwrap();
    assert!(checks.iter().filter(|check| check["verdict"] == "passed").count() >= 20, "{report:#}");
    assert!(checks.iter().all(|check| check["verdict"] != "not-run"), "{report:#}");
}

#[test]
fn a_transport_in_javascript() {
    whole_way("transport", "js", &[]);
}

#[test]
fn a_transport_in_python() {
    whole_way("transport", "python", &[]);
}

#[test]
fn a_backoff_in_rust() {
    whole_way("backoff", "rust", &["--sdk", &sdk()]);
}

#[test]
fn a_backoff_in_javascript() {
    whole_way("backoff", "js", &[]);
}

#[test]
fn a_participant_in_rust() {
    whole_way("participant", "rust", &["--sdk", &sdk()]);
}

#[test]
fn a_participant_in_javascript() {
    whole_way("participant", "js", &[]);
    // In the place that a configuration gives it.
    let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join("authors/js-participant");
    std::fs::write(
        dir.join("waybill.toml"),
        "[store]\nurl = \"mem://\"\n[participant.steps]\nplugin = \"my-participant.wasm\"\n",
    )
    .unwrap();
    let check = |arguments: &[&str]| {
        let mut command = waybill(&["plugin", "check", "-o", "json"]);
        command.args(arguments).current_dir(&dir);
        command
    };
    for arguments in [&["steps"][..], &["my-participant.wasm", "--participant", "steps"]] {
        let checks = json(&well(&mut check(arguments)));
        let checked = |name: &str| checks.as_array().unwrap().iter().any(|item| item["name"] == name);
        assert!(checked("config") && checked("grants"), "{checks:#}");
    }
    let counted = well(waybill(&["config", "check", "--config", "waybill.toml"]).current_dir(&dir));
    assert!(String::from_utf8_lossy(&counted.stdout).contains("1 participant, "), "{}", words(&counted));
    let said = fails(&mut check(&["stepz"]), 2);
    assert!(said.contains("participants: steps"), "{said}");
}

#[test]
fn a_participant_in_python() {
    whole_way("participant", "python", &[]);
}

#[test]
fn a_handler_in_rust() {
    whole_way("handler", "rust", &["--sdk", &sdk()]);
}

#[test]
fn a_handler_in_javascript() {
    whole_way("handler", "js", &[]);
}

#[test]
fn a_handler_in_python() {
    whole_way("handler", "python", &[]);
}

#[test]
fn a_source_in_rust() {
    whole_way("source", "rust", &["--sdk", &sdk()]);
}

#[test]
fn a_source_in_javascript() {
    whole_way("source", "js", &[]);
}

#[test]
fn a_source_in_python() {
    whole_way("source", "python", &[]);
}

/// An example of the repository, in a folder of its own: built by its language's tools as an author would.
fn example(name: &str, language: &str) {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples").join(name);
    let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join("authors").join(name);
    copied(&source, &dir, language);
    own_tests(&dir, language);
    let built = json(&well(waybill(&["plugin", "build", "-o", "json"]).current_dir(&dir)));
    well(&mut waybill(&["plugin", "check", built["file"].as_str().unwrap()]));
    well(waybill(&["plugin", "test", "--no-build"]).current_dir(&dir));
}

/// A Rust example where it lies: it uses the author's crate beside it.
fn in_place(name: &str) {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples").join(name);
    let out = Path::new(env!("CARGO_TARGET_TMPDIR")).join("authors").join(format!("{name}.wasm"));
    let (dir, out) = (dir.to_str().unwrap(), out.to_str().unwrap());
    well(&mut waybill(&["plugin", "build", dir, "--out", out]));
    well(&mut waybill(&["plugin", "test", out, "--cases", &format!("{dir}/tests")]));
}

#[test]
fn the_example_from_scratch() {
    in_place("transport-from-scratch");
}

#[test]
fn the_example_of_sagas() {
    in_place("order-saga");
}

#[test]
fn the_example_in_javascript() {
    example("transport-js", "js");
}

#[test]
fn the_example_in_python() {
    example("step-python", "python");
}
