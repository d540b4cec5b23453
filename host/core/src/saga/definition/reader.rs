//! Reads a document into a definition and collects everything that is wrong with it.
//!
//! A table is read by asking for each of its fields; what is left is an unknown field. So the code that reads is the only list
//! of fields there is.

use std::sync::Arc;
use std::time::Duration;

use super::mapping::Reading;
use super::problem::{Position, Problem, Severity};
use super::uri::Action;
use super::{Parsed, Retry, Step, canonical};
use crate::document::{Node, Table, Value};
use crate::saga::id::is_name;
use crate::saga::limits::{
    ATTEMPTS_MAX, CALL_TIMEOUT_DEFAULT, REPLY_TIMEOUT_DEFAULT, STEPS_MAX, TIMEOUT_MAX, TIMEOUT_MIN,
    WAIT_TIMEOUT_DEFAULT,
};
use crate::suggest::nearest;

/// A table being read.
struct Fields<'d> {
    table: &'d Table,
    path: String,
    at: Position,
    known: Vec<&'static str>,
}

/// What was found for a field.
#[derive(Clone)]
struct Found<'d> {
    value: &'d Value,
    at: Position,
    path: String,
}

/// Reads, and keeps what is wrong.
#[derive(Default)]
pub(super) struct Reader {
    pub problems: Vec<Problem>,
}

impl Reader {
    pub(super) fn error(&mut self, at: Position, path: &str, what: String, fix: impl Into<String>) {
        let problem = Problem { severity: Severity::Error, at, path: path.to_owned(), what, fix: fix.into() };
        self.problems.push(problem);
    }

    fn warn(&mut self, at: Position, path: &str, what: String, fix: impl Into<String>) {
        let problem = Problem { severity: Severity::Warning, at, path: path.to_owned(), what, fix: fix.into() };
        self.problems.push(problem);
    }

    /// The value of a field by its name or an alias.
    fn find<'d>(&mut self, fields: &mut Fields<'d>, names: &[&'static str]) -> Option<Found<'d>> {
        fields.known.extend(names);
        let mut hits = fields.table.entries.iter().filter(|entry| names.contains(&entry.name.as_str()));
        let first = hits.next()?;
        let path = join(&fields.path, &first.name);
        if let Some(second) = hits.next() {
            let what = format!("{:?} says again what {:?} said", second.name, first.name);
            self.error(second.name_at, &path, what, "keep one of them");
        }
        Some(Found { value: &first.node.value, at: first.node.at, path }).filter(|found| *found.value != Value::Null)
    }

    fn wrong<T>(&mut self, found: &Found<'_>, expected: &str) -> Option<T> {
        let what = format!("it must be {expected}, not {}", found.value.kind());
        self.error(found.at, &found.path, what, format!("write {expected}"));
        None
    }

    fn text<'d>(&mut self, fields: &mut Fields<'d>, names: &[&'static str]) -> Option<(&'d str, Found<'d>)> {
        let found = self.find(fields, names)?;
        match found.value {
            Value::Text(text) => Some((text, found)),
            _ => self.wrong(&found, "a string"),
        }
    }

    fn name(&mut self, fields: &mut Fields<'_>, names: &[&'static str]) -> Option<Arc<str>> {
        let (text, found) = self.text(fields, names)?;
        if !is_name(text) {
            let what = format!("{text:?} can't be a name");
            let fix = "write 1 to 64 letters, digits, - _ or ., beginning with a letter or digit";
            self.error(found.at, &found.path, what, fix);
        }
        Some(Arc::from(text))
    }

    fn whole(&mut self, fields: &mut Fields<'_>, names: &[&'static str], min: u64, max: u64) -> Option<u64> {
        let found = self.find(fields, names)?;
        let Value::Number(number) = found.value else { return self.wrong(&found, "a whole number") };
        match number.as_u64().filter(|number| (min..=max).contains(number)) {
            Some(number) => Some(number),
            None => {
                let fix = format!("write a whole number from {min} to {max}");
                self.error(found.at, &found.path, format!("it can't be {number}"), fix);
                None
            }
        }
    }

    fn real(&mut self, fields: &mut Fields<'_>, names: &[&'static str], min: f64, max: f64) -> Option<f64> {
        let found = self.find(fields, names)?;
        let Value::Number(number) = found.value else { return self.wrong(&found, "a number") };
        match number.as_f64().filter(|number| (min..=max).contains(number)) {
            Some(number) => Some(number),
            None => {
                let fix = format!("write a number from {min} to {max}");
                self.error(found.at, &found.path, format!("it can't be {number}"), fix);
                None
            }
        }
    }

    fn flag(&mut self, fields: &mut Fields<'_>, names: &[&'static str]) -> Option<bool> {
        let found = self.find(fields, names)?;
        match found.value {
            Value::Bool(flag) => Some(*flag),
            _ => self.wrong(&found, "true or false"),
        }
    }

    fn time(&mut self, fields: &mut Fields<'_>, names: &[&'static str]) -> Option<Duration> {
        let ms = |duration: Duration| u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
        self.whole(fields, names, ms(TIMEOUT_MIN), ms(TIMEOUT_MAX)).map(Duration::from_millis)
    }

    fn missing(&mut self, fields: &Fields<'_>, name: &str, fix: &str) {
        self.error(fields.at, &join(&fields.path, name), "it is missing".to_owned(), fix);
    }

    /// Names that nobody asked for.
    fn unknown(&mut self, fields: &Fields<'_>) {
        for entry in fields.table.entries.iter().filter(|entry| !fields.known.contains(&entry.name.as_str())) {
            let near = nearest(&entry.name, fields.known.iter().copied());
            let fix = match near {
                Some(near) => format!("did you mean {near:?}?"),
                None => format!("known: {}", fields.known.join(", ")),
            };
            let what = format!("there is no field {:?} here", entry.name);
            self.error(entry.name_at, &join(&fields.path, &entry.name), what, fix);
        }
    }

    pub(super) fn definition(&mut self, table: &Table) -> Option<Parsed> {
        let at = Position { line: 1, column: 1 };
        let mut fields = Fields { table, path: String::new(), at, known: Vec::new() };
        let name = self.name(&mut fields, &["name", "def_name"]);
        if name.is_none() && !self.problems.iter().any(|problem| problem.path == "name") {
            self.missing(&fields, "name", "name = \"order\"");
        }
        let version = self.whole(&mut fields, &["version"], 1, u64::from(u32::MAX)).unwrap_or(1);
        let summary = self.text(&mut fields, &["summary"]).map(|(text, _)| Arc::from(text));
        let deadline = self.time(&mut fields, &["deadline_ms", "ttl_ms"]);
        let found = self.find(&mut fields, &["steps"]);
        let steps = self.steps(&fields, found);
        self.unknown(&fields);
        let (steps, places): (Vec<Step>, Vec<Position>) = steps.into_iter().unzip();
        let groups = self.groups(&steps, &places);
        self.mappings(&steps, &places, &groups);
        if self.problems.iter().any(|problem| problem.severity == Severity::Error) {
            return None;
        }
        let version = u32::try_from(version).ok()?;
        let definition = canonical::seal(name?, version, summary, deadline, steps, groups);
        Some(Parsed { definition, warnings: Vec::new(), places })
    }

    fn steps(&mut self, fields: &Fields<'_>, found: Option<Found<'_>>) -> Vec<(Step, Position)> {
        let Some(found) = found else {
            self.missing(fields, "steps", "add a step: [[steps]] with name and action");
            return Vec::new();
        };
        let Value::List(items) = found.value else {
            self.wrong::<()>(&found, "an array of steps");
            return Vec::new();
        };
        if items.is_empty() || items.len() > STEPS_MAX {
            let what = format!("it has {} steps, 1 to {STEPS_MAX} are taken", items.len());
            self.error(found.at, &found.path, what, "split it with sub-sagas (saga:<definition>)");
        }
        let mut steps: Vec<(Step, Position)> = Vec::new();
        for (index, item) in items.iter().enumerate().take(STEPS_MAX) {
            let path = format!("steps[{index}]");
            let Value::Table(table) = &item.value else {
                self.wrong::<()>(&Found { value: &item.value, at: item.at, path }, "a table");
                continue;
            };
            let first = table.entries.first();
            let at = first.map_or(item.at, |entry| entry.name_at.min(item.at).max(item.at.min(entry.name_at)));
            let mut fields = Fields { table, path, at, known: Vec::new() };
            if let Some(step) = self.step(&mut fields) {
                if steps.iter().any(|(other, _)| other.name == step.name) {
                    let what = format!("another step is named {:?}, too", step.name);
                    self.error(at, &join(&fields.path, "name"), what, "give each step a name of its own");
                }
                steps.push((step, at));
            }
        }
        steps
    }

    fn step(&mut self, fields: &mut Fields<'_>) -> Option<Step> {
        let before = self.problems.len();
        let name = self.name(fields, &["name"]);
        if name.is_none() && self.problems.len() == before {
            self.missing(fields, "name", "name = \"reserve\"");
        }
        let action = self.action(fields, &["action", "action_uri"]);
        let compensation = self.action(fields, &["compensation", "compensate_uri", "compensation_uri", "compensate"]);
        let idempotent = self.flag(fields, &["idempotent"]).unwrap_or(true);
        let timeout = self.time(fields, &["timeout_ms"]);
        let (retry, retry_plugin) = self.retry(fields);
        let concurrency_tag = self.name(fields, &["concurrency_tag"]);
        let input = self.find(fields, &["input"]);
        let input = input.map(|found| {
            let node = Node { value: found.value.clone(), at: found.at };
            Reading::new(&mut self.problems).mapping(&node, &found.path)
        });
        self.unknown(fields);
        let Some(action) = action else {
            if !fields.table.entries.iter().any(|entry| matches!(entry.name.as_str(), "action" | "action_uri")) {
                self.missing(fields, "action", "action = \"fn:stock/reserve\"");
            }
            return None;
        };
        self.judge(fields, &action, compensation.as_ref(), idempotent);
        let timeout = timeout.or_else(|| default_timeout(&action));
        let name = name?;
        Some(Step { name, action, compensation, idempotent, timeout, retry, retry_plugin, concurrency_tag, input })
    }

    /// What can be said of a step by itself.
    fn judge(&mut self, fields: &Fields<'_>, action: &Action, compensation: Option<&Action>, idempotent: bool) {
        let path = join(&fields.path, "compensation");
        let waits = matches!(action, Action::Signal(_) | Action::Approval);
        match compensation {
            Some(Action::Saga { .. }) => {
                let fix = "leave it out: a sub-saga compensates itself; or name a step that undoes it";
                self.error(fields.at, &path, "a sub-saga can't be a compensation".to_owned(), fix);
            }
            Some(_) if waits => {
                let what = "waiting has no effect, so this compensation never runs".to_owned();
                self.warn(fields.at, &path, what, "move it to the step that has the effect");
            }
            None if !waits && !idempotent && !matches!(action, Action::Saga { .. }) => {
                let what = "the step isn't idempotent and has no compensation".to_owned();
                let fix = "add one: if its result is unknown, nothing can undo it";
                self.warn(fields.at, &path, what, fix);
            }
            _ => {}
        }
    }

    fn action(&mut self, fields: &mut Fields<'_>, names: &[&'static str]) -> Option<Action> {
        let (text, found) = self.text(fields, names)?;
        match Action::parse(text) {
            Ok(action) => Some(action),
            Err(cause) => {
                let fix = format!("write {}", super::uri::FORMS);
                self.error(found.at, &found.path, format!("{text:?} isn't usable: {cause}"), fix);
                None
            }
        }
    }

    fn retry(&mut self, fields: &mut Fields<'_>) -> (Retry, Option<Arc<str>>) {
        let Some(found) = self.find(fields, &["retry"]) else { return (Retry::default(), None) };
        let Value::Table(table) = found.value else {
            self.wrong::<()>(&found, "a table");
            return (Retry::default(), None);
        };
        let mut own = Fields { table, path: found.path, at: found.at, known: Vec::new() };
        let longest = u64::try_from(TIMEOUT_MAX.as_millis()).unwrap_or(u64::MAX);
        let attempts = self.whole(&mut own, &["max_attempts"], 1, u64::from(ATTEMPTS_MAX));
        let retry = Retry {
            max_attempts: attempts.map(|attempts| u32::try_from(attempts).unwrap_or(ATTEMPTS_MAX)),
            base_ms: self.whole(&mut own, &["base_ms"], 0, longest),
            factor: self.real(&mut own, &["factor"], 1.0, 100.0),
            jitter: self.real(&mut own, &["jitter"], 0.0, 1.0),
            cap_ms: self.whole(&mut own, &["cap_ms"], 0, longest),
            floor_ms: self.whole(&mut own, &["floor_ms"], 0, longest),
        };
        let plugin = self.name(&mut own, &["policy"]);
        if let (Some(base), Some(cap)) = (retry.base_ms, retry.cap_ms)
            && cap < base
        {
            let what = format!("cap_ms ({cap}) is below base_ms ({base})");
            self.error(own.at, &own.path, what, "raise cap_ms or lower base_ms");
        }
        self.unknown(&own);
        (retry, plugin)
    }

    /// Steps that run together: neighbours with one tag.
    fn groups(&mut self, steps: &[Step], places: &[Position]) -> Vec<std::ops::Range<usize>> {
        let mut groups: Vec<std::ops::Range<usize>> = Vec::new();
        let mut seen: Vec<&Arc<str>> = Vec::new();
        let mut last: Option<&Arc<str>> = None;
        for (index, step) in steps.iter().enumerate() {
            let tag = step.concurrency_tag.as_ref();
            match (tag, groups.last_mut()) {
                (Some(tag), Some(group)) if last == Some(tag) => group.end = index + 1,
                _ => {
                    if let Some(tag) = tag.filter(|tag| seen.contains(tag)) {
                        let at = places.get(index).copied().unwrap_or_default();
                        let what = format!("steps with concurrency_tag {tag:?} don't stand together");
                        let path = format!("steps[{index}].concurrency_tag");
                        self.error(at, &path, what, "put them next to each other, or use another tag");
                    }
                    groups.push(index..index + 1);
                }
            }
            seen.extend(tag);
            last = tag;
        }
        groups
    }

    /// Steps that mappings name: they must be done before.
    fn mappings(&mut self, steps: &[Step], places: &[Position], groups: &[std::ops::Range<usize>]) {
        for (index, step) in steps.iter().enumerate() {
            let Some(mapping) = &step.input else { continue };
            let start = groups.iter().find(|group| group.contains(&index)).map_or(0, |group| group.start);
            for name in mapping.steps() {
                let named = steps.iter().position(|step| *step.name == *name);
                let what = match named {
                    Some(named) if named < start => continue,
                    Some(named) if named == index => format!("it reads its own output ({name:?})"),
                    Some(named) if named >= start && named < index => {
                        format!("it reads {name:?}, which runs at the same time")
                    }
                    Some(_)
                        if groups
                            .iter()
                            .any(|group| group.contains(&index) && named.is_some_and(|n| group.contains(&n))) =>
                    {
                        format!("it reads {name:?}, which runs at the same time")
                    }
                    Some(_) => format!("it reads {name:?}, which comes later"),
                    None => format!("it reads step {name:?}, which there isn't"),
                };
                let earlier = steps.iter().take(start).map(|step| &*step.name);
                let fix = match nearest(name, earlier.clone()) {
                    Some(near) if named.is_none() => format!("did you mean {near:?}?"),
                    _ if start == 0 => "no step is done before it: use input".to_owned(),
                    _ => format!("done before it: {}", earlier.collect::<Vec<_>>().join(", ")),
                };
                let at = places.get(index).copied().unwrap_or_default();
                self.error(at, &format!("steps[{index}].input"), what, fix);
            }
        }
    }
}

fn join(path: &str, name: &str) -> String {
    if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") }
}

fn default_timeout(action: &Action) -> Option<Duration> {
    match action {
        Action::Http(_) | Action::Fn(_) => Some(CALL_TIMEOUT_DEFAULT),
        Action::Bus(_) => Some(REPLY_TIMEOUT_DEFAULT),
        Action::Signal(_) | Action::Approval => Some(WAIT_TIMEOUT_DEFAULT),
        Action::Saga { .. } => None,
    }
}
