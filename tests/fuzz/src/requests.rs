//! What comes in over HTTP or from a plugin's author: bodies, tokens, statements, components, manifests.

use std::path::{Path, PathBuf};

use serde_json::{Map, Value, json};
use waybill_api::{idempotency, workers};
use waybill_core::port::transact::Statement;
use waybill_sandbox::{Manifest, SandboxError};
use waybill_server::approval::ApprovalLinks;
use waybill_server::json::{decode, post, requests, saga_requests};

use crate::Target;

pub(crate) const TARGETS: &[Target] = &[
    Target::of_text("messages", messages),
    Target::of_text("bodies", bodies),
    Target::of_text("approval", approval),
    Target::of_text("statement", statement),
    Target { name: "component", read: component, seeds: components },
    Target { name: "manifest", read: manifest, seeds: manifests },
];

fn messages(bytes: &[u8]) {
    let Ok(text) = decode::utf8(bytes) else { return };
    let _ = post::json(text);
    let _ = post::lines(text);
}

fn bodies(bytes: &[u8]) {
    let Ok(text) = decode::utf8(bytes) else { return };
    let _ = decode::value::<requests::TransactionIn>(text);
    let _ = decode::value::<requests::StartOperation>(text);
    let _ = decode::value::<workers::ClaimBody>(text);
    let _ = decode::value::<workers::SettleBody>(text);
    let _ = decode::value::<workers::CheckDedup>(text);
    let _ = decode::value::<saga_requests::AnyJson>(text);
    let _ = decode::value::<idempotency::BeginKey>(text);
    let _ = decode::value::<idempotency::FinishKey>(text);
}

/// Nobody makes a token without the key.
fn approval(bytes: &[u8]) {
    let Some(token) = std::str::from_utf8(bytes).ok() else { return };
    let approvals = ApprovalLinks::new(&[7; 32], "http://127.0.0.1:7070").expect("a key");
    assert!(approvals.read(token).is_err(), "a forged token was taken");
}

fn statement(bytes: &[u8]) {
    let Ok(query) = std::str::from_utf8(bytes) else { return };
    let statement = Statement { query: query.to_owned(), bindings: Map::new() };
    if let Ok(checked) = waybill_store::check_statement(&statement, 1, &Default::default()) {
        let _ = waybill_store::Held::default().fits(&statement, 1, &checked.plan);
    }
}

fn component(bytes: &[u8]) {
    if let Some(inspection) = read(waybill_sandbox::inspect(bytes)) {
        let _ = inspection.check_contract();
    }
}

/// A manifest that is taken takes or refuses settings: none, and its own defaults.
fn manifest(bytes: &[u8]) {
    let Some(manifest) = read(Manifest::parse(bytes)) else { return };
    let of_schema = |schema: &Value| schema.get("properties").and_then(Value::as_object).cloned();
    let properties = manifest.config_schema.as_ref().and_then(of_schema).unwrap_or_default();
    let default = |property: &Value| property.get("default").cloned().unwrap_or_else(|| json!("5s"));
    let defaults: Map<String, Value> =
        properties.iter().map(|(name, property)| (name.clone(), default(property))).collect();
    for settings in [Value::Null, Value::Object(defaults)] {
        read(waybill_sandbox::check_config(&manifest, "fuzz", &settings));
    }
}

/// What was read, unless it was refused. Schemas are evaluated on a thread of their own, where a panic becomes a refusal.
fn read<T>(result: Result<T, SandboxError>) -> Option<T> {
    match result {
        Ok(value) => Some(value),
        Err(error) => {
            let told = error.to_string();
            assert!(!told.contains("it can't be evaluated: it panicked"), "{told}");
            None
        }
    }
}

/// The smallest component and the smallest module, a component that is nothing but a manifest, and one with it in a module.
fn components() -> Vec<Vec<u8>> {
    let (component, module) = (b"\0asm\x0d\0\x01\0".as_slice(), b"\0asm\x01\0\0\0".as_slice());
    let name = b"\x0ewaybill-plugin".as_slice();
    let manifest = section(0, &[name, include_bytes!("../../guests/manifests/basic.toml")].concat());
    let inner = section(1, &[module, &manifest].concat());
    vec![component.to_vec(), module.to_vec(), [component, &manifest].concat(), [component, &inner].concat()]
}

/// A section, with its length in LEB128.
fn section(kind: u8, content: &[u8]) -> Vec<u8> {
    let (mut section, mut left) = (vec![kind], content.len());
    while left > 0x7f {
        section.push((left & 0x7f) as u8 | 0x80);
        left >>= 7;
    }
    section.push(left as u8);
    section.extend(content);
    section
}

/// Those of the tests' guests and of the bundled plugins.
fn manifests() -> Vec<Vec<u8>> {
    let tests = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("..");
    let of_guests = files(&tests.join("guests/manifests"));
    let of_plugins = files(&tests.join("../plugins")).into_iter().map(|folder| folder.join("waybill-plugin.toml"));
    let all = of_guests.into_iter().chain(of_plugins).filter(|path| path.is_file());
    all.map(|path| std::fs::read(path).expect("a manifest")).collect()
}

/// What lies in a folder, in order.
fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).expect("a folder with manifests");
    let mut paths: Vec<_> = entries.map(|entry| entry.expect("an entry of a folder").path()).collect();
    paths.sort();
    paths
}
