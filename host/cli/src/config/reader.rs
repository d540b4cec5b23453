//! Reads settings out of the layers file, environment, flags, and remembers where each one came from.
//!
//! A section is read by asking for each of its keys; what is left in the file's table afterwards is an unknown key. So the
//! code that reads a key is the only list of keys there is: `config show`, the suggestions and the check of
//! `docs/configuration.md` come from it. Problems are collected, and reading goes on with the default.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use waybill_core::document::{Node, Position, Table, Value};
use waybill_core::suggest::nearest;

pub use super::key::{Alias, Key, KeyInfo, same, times};
use super::problem::{Diagnostic, Origin, Problem};
use super::scalar::kind_of;

/// Prefix of our environment variables.
pub const ENV_PREFIX: &str = "WAYBILL_";

/// A setting in effect.
#[derive(Clone, Debug, PartialEq)]
pub struct Shown {
    /// Path, e.g. `transport.orders.plugin` or `route[0].match`.
    pub path: String,
    /// Value; secrets appear as references only.
    pub value: serde_json::Value,
    /// Where it comes from.
    pub origin: Origin,
}

/// A setting given on the command line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Flag {
    /// Path of the setting.
    pub path: &'static str,
    pub flag: &'static str,
    pub value: String,
}

/// A value as found in a layer.
#[derive(Clone, Debug)]
pub(super) enum Raw<'d> {
    Node(&'d Value),
    /// In the environment or on the command line.
    Text(String),
}

/// What was found for a key.
#[derive(Clone, Debug)]
pub(super) struct Found<'d> {
    pub(super) raw: Raw<'d>,
    pub(super) origin: Origin,
    /// As written, with its section, for messages.
    pub(super) name: String,
    pub(super) factor: u64,
    /// Written by a name that takes milliseconds (or another fixed unit) as an integer.
    pub(super) fixed_unit: bool,
}

/// All layers, and what was gathered from them.
#[derive(Debug)]
pub struct Reader<'d> {
    pub(super) file: &'d Path,
    pub(super) env: &'d BTreeMap<String, String>,
    pub(super) flags: &'d [Flag],
    pub problems: Vec<Diagnostic>,
    /// What isn't wrong, and somebody should know.
    pub warnings: Vec<String>,
    pub shown: Vec<Shown>,
    pub keys: Vec<KeyInfo>,
    env_known: BTreeSet<String>,
}

impl<'d> Reader<'d> {
    /// With nothing read yet. `file` names the file in messages.
    pub fn new(file: &'d Path, env: &'d BTreeMap<String, String>, flags: &'d [Flag]) -> Self {
        Self {
            file,
            env,
            flags,
            problems: Vec::new(),
            warnings: Vec::new(),
            shown: Vec::new(),
            keys: Vec::new(),
            env_known: BTreeSet::new(),
        }
    }

    /// A place in the file.
    pub fn in_file(&self, at: Position) -> Origin {
        Origin::File { path: self.file.to_owned(), at: Some(at) }
    }

    pub fn problem(&mut self, problem: Problem, origin: Origin) {
        self.problems.push(Diagnostic { problem, origin });
    }

    /// Environment variables that begin like one of ours in a known section, but are none.
    pub fn unknown_env(&mut self, sections: &[&str]) {
        for name in self.env.keys() {
            if self.env_known.contains(name) {
                continue;
            }
            let Some(rest) = name.strip_prefix(ENV_PREFIX) else { continue };
            let ours = sections
                .iter()
                .any(|section| rest.strip_prefix(&section.to_uppercase()).is_some_and(|rest| rest.starts_with('_')));
            if ours {
                let known = self.env_known.iter().map(String::as_str);
                let suggestion = nearest(name, known);
                self.problems.push(Diagnostic {
                    problem: Problem::UnknownKey {
                        key: name.clone(),
                        section: "the environment".into(),
                        suggestion,
                        known: "WAYBILL_<SECTION>_<KEY> as in docs/configuration.md".into(),
                    },
                    origin: Origin::Env(name.clone()),
                });
            }
        }
    }
}

/// One table of settings being read.
#[derive(Debug)]
pub struct Section<'r, 'd> {
    pub(super) reader: &'r mut Reader<'d>,
    table: Option<&'d Table>,
    /// Where the section stands; default when it isn't in the file.
    pub at: Origin,
    /// Path of this very section, e.g. `transport.orders`.
    pub path: String,
    /// Section as documented, e.g. `transport.NAME`.
    pub documented: String,
    known: Vec<String>,
    env: bool,
}

impl<'r, 'd> Section<'r, 'd> {
    /// The section `path` with its table, if the file has it. `env` tells whether the environment can set its keys.
    pub fn new(
        reader: &'r mut Reader<'d>,
        path: impl Into<String>,
        documented: &str,
        table: Option<(&'d Table, Position)>,
        env: bool,
    ) -> Self {
        let at = table.map_or(Origin::Default, |(_, at)| reader.in_file(at));
        let table = table.map(|(table, _)| table);
        Self { reader, table, at, path: path.into(), documented: documented.to_owned(), known: Vec::new(), env }
    }

    pub fn heading(&self) -> String {
        format!("[{}]", self.path)
    }

    pub fn problem_at(&mut self, problem: Problem, origin: Origin) {
        self.reader.problem(problem, origin);
    }

    /// Whether the file has anything here.
    pub fn in_file(&self) -> bool {
        self.table.is_some()
    }

    /// A name of the environment that isn't one of ours.
    pub fn environment(&self, name: &str) -> Option<&str> {
        self.reader.env.get(name).map(String::as_str)
    }

    /// Whether the file or the environment sets a key that takes a duration.
    pub fn given(&self, key: &str) -> bool {
        let in_ms = format!("{key}_ms");
        let names = [key, in_ms.as_str()];
        let in_file = self.table.is_some_and(|table| names.iter().any(|name| table.entry(name).is_some()));
        in_file || self.env && names.iter().any(|name| self.reader.env.contains_key(&env_name(&self.documented, name)))
    }

    /// Where a key is set that was read already, and to what; none = its default is in force.
    pub fn written(&self, key: &str) -> Option<(String, Origin)> {
        let path = format!("{}.{key}", self.path);
        let shown = self.reader.shown.iter().find(|shown| shown.path == path && shown.origin != Origin::Default)?;
        let value = match &shown.value {
            serde_json::Value::String(text) => text.clone(),
            serde_json::Value::Object(_) => "{...}".to_owned(),
            other => other.to_string(),
        };
        Some((value, shown.origin.clone()))
    }

    /// A number of the environment that another section declares.
    pub fn env_number(&self, name: &str) -> Option<u64> {
        self.reader.env.get(name)?.trim().parse().ok()
    }

    /// A section within this one.
    pub fn sub<'s>(&'s mut self, name: &'static str) -> Section<'s, 'd> {
        self.known.push(name.to_owned());
        let path = format!("{}.{name}", self.path);
        let documented = format!("{}.{name}", self.documented);
        let table = self.table_at(name, &path);
        Section::new(self.reader, path, &documented, table, self.env)
    }

    /// Notes something of its table that is read elsewhere.
    pub fn knows(&mut self, name: &str) {
        self.known.push(name.to_owned());
    }

    fn table_at(&mut self, name: &str, path: &str) -> Option<(&'d Table, Position)> {
        let entry = self.table?.entry(name)?;
        match &entry.node.value {
            Value::Table(table) => Some((table, entry.name_at)),
            other => {
                let problem =
                    Problem::WrongType { key: path.to_owned(), expected: "a table".into(), found: kind_of(other) };
                let at = self.reader.in_file(entry.node.at);
                self.reader.problem(problem, at);
                None
            }
        }
    }

    /// The value in force before any default, and notes the key as known.
    pub(super) fn find(&mut self, key: &Key, milliseconds: bool) -> Option<Found<'d>> {
        let env = self.env.then(|| env_name(&self.documented, key.name));
        self.known.push(key.name.to_owned());
        self.known.extend(key.aliases.iter().map(|alias| alias.name.to_owned()));
        let in_ms = milliseconds.then(|| format!("{}_ms", key.name));
        self.known.extend(in_ms.clone());
        let from_file = self.find_in_file(key, in_ms.as_deref());
        let from_env = env.and_then(|env| self.find_in_env(key, env, milliseconds));
        let path = format!("{}.{}", self.path, key.name);
        let from_flags = self.reader.flags.iter().find(|flag| flag.path == path).map(|flag| Found {
            raw: Raw::Text(flag.value.clone()),
            origin: Origin::Flag(flag.flag.to_owned()),
            name: flag.flag.to_owned(),
            factor: 1,
            fixed_unit: false,
        });
        from_flags.or(from_env).or(from_file)
    }

    fn find_in_file(&mut self, key: &Key, in_ms: Option<&str>) -> Option<Found<'d>> {
        let table = self.table?;
        let names = std::iter::once((key.name, 1, false)).chain(in_ms.map(|name| (name, 1, true))).chain(
            key.aliases
                .iter()
                .map(|alias| (alias.name, alias.factor, alias.factor != 1 || alias.name.ends_with("_ms"))),
        );
        let mut hits = names.filter_map(|(name, factor, fixed)| table.entry(name).map(|entry| (entry, factor, fixed)));
        let (entry, factor, fixed_unit) = hits.next()?;
        if let Some((second, ..)) = hits.next() {
            let problem = Problem::Duplicate {
                what: format!("{} and {} in {} are the same setting", entry.name, second.name, self.heading()),
                fix: format!("keep one of them, best {}", key.name),
            };
            let at = self.reader.in_file(second.name_at);
            self.reader.problem(problem, at);
        }
        Some(Found {
            raw: Raw::Node(&entry.node.value),
            origin: self.reader.in_file(entry.node.at),
            name: format!("{}.{}", self.path, entry.name),
            factor,
            fixed_unit,
        })
    }

    fn find_in_env(&mut self, key: &Key, env: String, milliseconds: bool) -> Option<Found<'d>> {
        let mut names = vec![(env.clone(), 1, false)];
        if milliseconds {
            names.push((format!("{env}_MS"), 1, true));
        }
        for alias in key.aliases {
            names.push((
                env_name(&self.documented, alias.name),
                alias.factor,
                alias.factor != 1 || alias.name.ends_with("_ms"),
            ));
        }
        for alias in key.env_aliases {
            names.push((alias.name.to_owned(), alias.factor, true));
        }
        self.reader.env_known.extend(names.iter().map(|(name, ..)| name.clone()));
        let hits: Vec<(String, u64, bool, String)> = names
            .into_iter()
            .filter_map(|(name, factor, fixed)| {
                self.reader.env.get(&name).map(|value| (name, factor, fixed, value.clone()))
            })
            .collect();
        if let [(first, ..), (second, ..), ..] = hits.as_slice() {
            let problem = Problem::Duplicate {
                what: format!("{first} and {second} are the same setting"),
                fix: format!("set one of them, best {env}"),
            };
            let origin = Origin::Env(second.clone());
            self.reader.problem(problem, origin);
        }
        let (name, factor, fixed_unit, value) = hits.into_iter().next()?;
        Some(Found { raw: Raw::Text(value), origin: Origin::Env(name.clone()), name, factor, fixed_unit })
    }

    /// The node of a key that only the file can hold, e.g. a document.
    pub(super) fn node(&mut self, key: &Key) -> Option<&'d Node> {
        self.known.push(key.name.to_owned());
        self.table?.get(key.name)
    }

    /// Notes a key for the catalogue.
    pub(super) fn catalogue(&mut self, key: Key, milliseconds: bool, takes: String, default: Option<String>) {
        let env = self.env.then(|| env_name(&self.documented, key.name));
        let section = self.documented.clone();
        let info = KeyInfo { section, key, milliseconds, takes, default, env };
        if !self.reader.keys.contains(&info) {
            self.reader.keys.push(info);
        }
    }

    /// Notes a setting in effect.
    pub(super) fn show(&mut self, name: &str, value: serde_json::Value, origin: Origin) {
        let path = format!("{}.{name}", self.path);
        self.reader.shown.push(Shown { path, value, origin });
    }

    /// Notes what is in force of a key that was read and isn't written, where its default goes by other keys.
    pub(super) fn settle(&mut self, name: &str, value: serde_json::Value) {
        let path = format!("{}.{name}", self.path);
        if let Some(shown) = self.reader.shown.iter_mut().find(|shown| shown.path == path) {
            shown.value = value;
        }
    }

    /// Ends the section: what nobody asked for is unknown.
    pub fn done(self) {
        let Some(table) = self.table else { return };
        for entry in &table.entries {
            if self.known.contains(&entry.name) {
                continue;
            }
            let suggestion = nearest(&entry.name, self.known.iter().map(String::as_str));
            let problem = Problem::UnknownKey {
                key: entry.name.clone(),
                section: self.heading(),
                suggestion,
                known: self.known.join(", "),
            };
            let at = self.reader.in_file(entry.name_at);
            self.reader.problem(problem, at);
        }
    }
}

/// `WAYBILL_OUTBOX_BACKOFF_BASE_MS` for section `outbox.backoff` and key `base_ms`.
fn env_name(section: &str, key: &str) -> String {
    format!("{ENV_PREFIX}{}_{}", section.replace('.', "_"), key).to_uppercase()
}
