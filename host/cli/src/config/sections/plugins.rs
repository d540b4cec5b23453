//! `[plugins]`.

use std::path::{Path, PathBuf};
use std::time::Duration;

use waybill_core::document::Value;
use waybill_sandbox::{CompileLimits, PublicKey};

use crate::config::kinds::{Set, beside};
use crate::config::model::PluginSettings;
use crate::config::problem::{Origin, Problem};
use crate::config::reader::{Key, KeyInfo, Section};
use crate::config::scalar::kind_of;

/// Form of a public key.
const KEY_FORM: &str = "an ed25519 public key in base64, as `waybill plugin keygen` prints it";

pub fn plugin_settings(mut section: Section<'_, '_>, file: &Path, default: Option<PathBuf>) -> PluginSettings {
    let takes = "a folder, or \"off\"";
    let cache = match &default {
        Some(default) => Some(section.text("cache", takes, &default.display().to_string())),
        None => section.optional_text("cache", takes),
    };
    let folder = section.optional_text("folder", "a folder of components");
    let trusted_keys = trusted_keys(&mut section);
    let require_signature = section.boolean("require_signature", false);
    if require_signature && trusted_keys.is_empty() {
        let problem = Problem::BadValue {
            key: "plugins.require_signature".into(),
            value: "true".into(),
            cause: "no plugin could be loaded but the bundled ones: name keys in trusted_keys".into(),
        };
        section.problem_at(problem, section.at.clone());
    }
    let normal = CompileLimits::default();
    let compile_cpu = section.duration("compile_cpu", normal.cpu, Duration::from_secs(1));
    let compile_memory = section.size("compile_memory", normal.memory_bytes, 256 << 20..=super::SIZE_MAX);
    section.done();
    let place = |set: Set<String>| match set {
        Set { value, origin: Origin::File { .. } } => beside(file, &value),
        Set { value, .. } => value.into(),
    };
    let cache = cache.filter(|set| set.value != "off").map(place);
    PluginSettings { cache, folder: folder.map(place), trusted_keys, require_signature, compile_cpu, compile_memory }
}

/// A table of public keys by the operator's name for them.
fn trusted_keys(section: &mut Section<'_, '_>) -> Vec<(String, PublicKey)> {
    let key = Key::new("trusted_keys");
    // A table: the environment has no form for it.
    let info = KeyInfo {
        section: section.documented.clone(),
        key,
        milliseconds: false,
        takes: format!("a table: name = {KEY_FORM}"),
        default: Some("{}".into()),
        env: None,
    };
    section.reader.keys.push(info);
    let Some(node) = section.node(&key) else { return Vec::new() };
    let at = section.reader.in_file(node.at);
    let Value::Table(table) = &node.value else {
        let (key, expected) = ("plugins.trusted_keys".into(), "a table of public keys".into());
        section.problem_at(Problem::WrongType { key, expected, found: kind_of(&node.value) }, at);
        return Vec::new();
    };
    let mut keys = Vec::new();
    for entry in &table.entries {
        let origin = section.reader.in_file(entry.node.at);
        let key = format!("plugins.trusted_keys.{}", entry.name);
        match &entry.node.value {
            Value::Text(text) => match PublicKey::parse(text) {
                Ok(public) => {
                    section.show(&format!("trusted_keys.{}", entry.name), public.to_string().into(), origin);
                    keys.push((entry.name.clone(), public));
                }
                Err(_) => {
                    let cause = format!("it takes {KEY_FORM}");
                    section.problem_at(Problem::BadValue { key, value: format!("{text:?}"), cause }, origin);
                }
            },
            other => {
                let problem = Problem::WrongType { key, expected: KEY_FORM.into(), found: kind_of(other) };
                section.problem_at(problem, origin);
            }
        }
    }
    keys
}
