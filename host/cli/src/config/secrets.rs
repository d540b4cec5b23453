//! Secrets: references such as `env:NAME`, checked for being there and never read into the configuration.

use waybill_core::document::Value;

use super::kinds::{Set, beside};
use super::problem::{Origin, Problem};
use super::reader::{Key, Raw, Section};
use super::scalar::kind_of;

/// What a secret's reference looks like.
const SECRET_FORM: &str = "\"env:NAME\" or \"file:/path\"";

impl Section<'_, '_> {
    /// A reference to a secret: `env:NAME` or `file:/path`. Checked for being there, never read into the configuration.
    pub fn secret(&mut self, key: impl Into<Key>) -> Option<Set<String>> {
        let key = key.into();
        self.catalogue(key, false, SECRET_FORM.to_owned(), None);
        let found = self.find(&key, false)?;
        let text = match &found.raw {
            Raw::Node(Value::Text(text)) => text.clone(),
            Raw::Text(text) => text.clone(),
            Raw::Node(_) => {
                self.wrong_type(&found, SECRET_FORM);
                return None;
            }
        };
        let name = found.name.clone();
        let reference = self.check_secret(&name, &text, found.origin.clone())?;
        self.show(key.name, reference.clone().into(), found.origin.clone());
        Some(Set { value: reference, origin: found.origin })
    }

    /// Named secrets: a table of references, by name.
    pub fn secrets(&mut self, key: &'static str) -> Vec<(String, String)> {
        let key = Key::new(key);
        self.catalogue(key, false, format!("a table: name = {SECRET_FORM}"), Some("{}".into()));
        let Some(node) = self.node(&key) else { return Vec::new() };
        let path = format!("{}.{}", self.path, key.name);
        let at = self.reader.in_file(node.at);
        let Value::Table(table) = &node.value else {
            let problem =
                Problem::WrongType { key: path, expected: "a table of references".into(), found: kind_of(&node.value) };
            self.reader.problem(problem, at);
            return Vec::new();
        };
        let mut secrets = Vec::new();
        for entry in &table.entries {
            let origin = self.reader.in_file(entry.node.at);
            let name = format!("{path}.{}", entry.name);
            match &entry.node.value {
                Value::Text(text) => {
                    if let Some(reference) = self.check_secret(&name, text, origin.clone()) {
                        let shown = format!("{}.{}", key.name, entry.name);
                        self.show(&shown, reference.clone().into(), origin);
                        secrets.push((entry.name.clone(), reference));
                    }
                }
                other => {
                    let problem =
                        Problem::WrongType { key: name, expected: SECRET_FORM.to_owned(), found: kind_of(other) };
                    self.reader.problem(problem, origin);
                }
            }
        }
        secrets
    }

    fn check_secret(&mut self, key: &str, text: &str, origin: Origin) -> Option<String> {
        let checked = if let Some(name) = text.strip_prefix("env:") {
            match self.reader.env.get(name) {
                Some(value) if !value.is_empty() => Ok(text.to_owned()),
                _ => Err((
                    format!("the environment variable {name:?} isn't set"),
                    format!("set {name} for the host's process, or name another source"),
                )),
            }
        } else if let Some(path) = text.strip_prefix("file:") {
            let path = beside(self.reader.file, path);
            match std::fs::metadata(&path) {
                Ok(meta) if meta.is_file() => {
                    self.reader.warn_if_open(key, &path);
                    Ok(format!("file:{}", path.display()))
                }
                Ok(_) => {
                    Err((format!("{} isn't a file", path.display()), "name a file that holds only the secret".into()))
                }
                Err(error) => Err((
                    format!("{}: {error}", path.display()),
                    "name a readable file that holds only the secret".into(),
                )),
            }
        } else {
            Err((
                "a secret isn't written into the configuration (what stands there isn't shown)".into(),
                "write \"env:NAME\" or \"file:/path\"".into(),
            ))
        };
        match checked {
            Ok(reference) => Some(reference),
            Err((cause, fix)) => {
                self.reader.problem(Problem::Secret { key: key.to_owned(), cause, fix }, origin);
                None
            }
        }
    }
}
