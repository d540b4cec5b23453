//! `waybill plugin dev` against a running host.

use std::path::Path;
use std::time::Duration;

use serde_json::{Value, json};
use waybill_core::code::Code;

use super::logs;
use crate::args::Global;
use crate::author::dev::{self, Dev, Fate, Loaded, LogLines, Place};
use crate::author::place;
use crate::client::{Answer, Client, ClientError};
use crate::exit::{CliError, Exit};
use crate::output::{instant, text};
use crate::term::Term;

/// How long a host is asked to wait for a line of the log: so soon a rollback is told at the latest.
const LOG_WAIT: Duration = Duration::from_secs(1);
/// Lines that are read at once.
const LOG_LINES: u64 = 1_000;

/// What a host knows by a name.
struct Running {
    client: Client,
    name: String,
}

impl Running {
    /// Its plugin as it stands; none if the host knows nothing by this name.
    async fn plugin(&self) -> Result<Option<Value>, CliError> {
        let answer = self.client.get(&["v1", "plugins"], &[]).await?;
        let items = answer.need("items", Value::as_array)?;
        Ok(items.iter().find(|item| text(item, "transport") == self.name).cloned())
    }

    /// Makes the component serve: read by the host from the very file, or handed over.
    async fn change(&self, file: &Path, digest: &str) -> Result<Answer, CliError> {
        let plugin = self.plugin().await?.unwrap_or_default();
        // Whoever works on it wants this one, also after a rollback. What serves already would only drive out the one before it.
        let force = plugin.pointer("/live/digest").and_then(Value::as_str) != Some(digest);
        let source = text(&plugin, "source");
        if is_same(Path::new(&source), file) {
            let body = json!({ "sha256": digest, "force": force });
            return Ok(self.client.post(&["v1", "plugins", &self.name, "reload"], &[], &body).await?);
        }
        let component = std::fs::read(file).map_err(CliError::io(format!("reading {}", file.display())))?;
        let path = ["v1", "plugins", &self.name, "component"];
        let force = force.to_string();
        let handed_over = self.client.put_component(&path, &[("force", force.as_str())], &[], component).await;
        handed_over.map_err(|error| match &error {
            ClientError::Refused(refusal) if refusal.code == Code::PLUGIN_NOT_IN_FOLDER.as_str() => {
                self.of_another_source(&source, file)
            }
            _ => error.into(),
        })
    }

    fn of_another_source(&self, source: &str, file: &Path) -> CliError {
        let (name, built) = (&self.name, std::path::absolute(file).unwrap_or_else(|_| file.to_owned()));
        let (section, by_name) = place::in_configuration(name);
        let what = format!(
            "the plugin of {name:?} comes from {source}, and this project builds {built}\n  fix set plugin = {built:?} in \
             {section}, or plugins.folder and {by_name} for NAME.wasm in it, and reload the configuration",
            built = built.display().to_string(),
        );
        CliError::Host { code: Code::PLUGIN_NOT_IN_FOLDER, what, exit: Exit::Conflict }
    }
}

/// Whether both paths lead to one file.
fn is_same(one: &Path, other: &Path) -> bool {
    matches!((one.canonicalize(), other.canonicalize()), (Ok(one), Ok(other)) if one == other)
}

impl Place for Running {
    async fn load(&self, file: &Path, digest: &str) -> Result<Loaded, CliError> {
        let log_from = self.log_end().await;
        let answer = self.change(file, digest).await?;
        let plugin = answer.need("plugin", Some)?;
        let generation = plugin.pointer("/live/generation").and_then(Value::as_u64).unwrap_or_default();
        Ok(Loaded { generation, log_from })
    }

    async fn fate(&self, loaded: &Loaded) -> Result<Fate, CliError> {
        let plugin = self.plugin().await?.unwrap_or_default();
        Ok(fate(&plugin, loaded.generation))
    }

    async fn log(&self, after: u64) -> Result<LogLines, CliError> {
        let answer = logs::read(&self.client, &self.name, after, LOG_LINES, LOG_WAIT).await?;
        let items = answer.need("items", Value::as_array)?;
        let lines = logs::missed(&answer).into_iter().chain(items.iter().map(logs::line)).collect();
        Ok(LogLines { lines, next: answer.need("next", Value::as_u64)? })
    }
}

impl Running {
    /// Where its log ends now; 0 if nothing of it can be read, which is told when it is followed.
    async fn log_end(&self) -> u64 {
        let answer = logs::read(&self.client, &self.name, 0, LOG_LINES, Duration::ZERO).await;
        answer.ok().and_then(|answer| answer.body.get("next").and_then(Value::as_u64)).unwrap_or_default()
    }
}

/// What a host tells of one of its generations.
fn fate(plugin: &Value, number: u64) -> Fate {
    let of = |generation: &Value| generation.get("generation").and_then(Value::as_u64);
    if plugin.get("live").and_then(of) == Some(number) {
        return match plugin.get("probation").filter(|trial| !trial.is_null()) {
            Some(trial) => Fate::OnTrial { until: instant(trial, "until") },
            None => Fate::Serves,
        };
    }
    let history = plugin.get("history").and_then(Value::as_array);
    let record = history.into_iter().flatten().find(|record| of(record) == Some(number));
    match record.filter(|record| record.get("code").is_some_and(|code| !code.is_null())) {
        Some(record) => Fate::RolledBack { code: text(record, "code"), reason: text(record, "reason") },
        None => Fate::Replaced,
    }
}

/// Works until it is ended.
pub(super) async fn run(args: &Dev, global: &Global, term: &mut Term) -> Result<(), CliError> {
    let find = |name: &str, term: &mut Term| -> Result<Running, CliError> {
        Ok(Running { client: Client::new(global, term)?, name: name.to_owned() })
    };
    dev::run(args, super::cache(), find, term).await
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plugin(live: u64, probation: Value, code: Value) -> Value {
        json!({
            "live": { "generation": live },
            "probation": probation,
            "history": [
                { "generation": 3, "code": null, "reason": null },
                { "generation": 4, "code": code, "reason": "3 instances were lost" },
            ],
        })
    }

    #[test]
    fn a_generation_is_on_trial_or_serves_or_was_rolled_back_or_replaced() {
        let trial = json!({ "until": "2026-11-27T12:00:00Z", "losses": 0 });
        let until = "2026-11-27T12:00:00Z".to_owned();
        assert_eq!(fate(&plugin(4, trial, Value::Null), 4), Fate::OnTrial { until });
        assert_eq!(fate(&plugin(4, Value::Null, Value::Null), 4), Fate::Serves);
        let (code, reason) = ("PLUGIN.PROBATION_FAILED".to_owned(), "3 instances were lost".to_owned());
        assert_eq!(fate(&plugin(5, Value::Null, json!(code)), 4), Fate::RolledBack { code, reason });
        assert_eq!(fate(&plugin(5, Value::Null, Value::Null), 4), Fate::Replaced);
        assert_eq!(fate(&Value::Null, 4), Fate::Replaced);
    }
}
