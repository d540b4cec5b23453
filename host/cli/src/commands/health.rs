//! `waybill health`: does the host answer. For containers and supervisors, which ask by a command and go by its exit code.

use std::path::PathBuf;

use clap::Args;
use serde_json::{Value, json};

use crate::args::Global;
use crate::client::{Answer, Client, ClientError};
use crate::config::problem::ConfigError;
use crate::exit::CliError;
use crate::output::{Format, safe, text};
use crate::setup::{ConfigArgs, Source};
use crate::term::Term;

/// One question, without a token.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    waybill health                      the host that this machine's configuration is of\n  \
    waybill health --ready              whether it can do its work\n  \
    waybill health --url https://waybill.example --timeout 3s\n\n\
    Without --url and WAYBILL_URL the address is server.listen of the configuration; TLS is spoken if server.tls is there, and any \
    certificate will do. No token is sent. Exit codes: 0 or 1, and 2 for flags that there aren't.")]
pub struct Health {
    /// Ask whether it can do its work (/readyz), and not only whether it answers (/livez)
    #[arg(long)]
    pub ready: bool,
    /// Configuration file [env: WAYBILL_CONFIG] [default: ./waybill.toml if it exists, then the platform's]
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
}

/// What is asked, and whom.
struct Question {
    client: Client,
    path: &'static str,
    /// Why the address may be another one.
    unread: Option<ConfigError>,
}

/// What came of it.
struct Verdict {
    is_well: bool,
    line: String,
    json: Value,
}

/// Asks and writes one line. Whatever keeps it from an answer is the same to who asks.
pub(super) async fn run(args: &Health, global: &Global, term: &mut Term) -> Result<(), CliError> {
    let question = question(args, global, term).map_err(|error| unwell(&error.to_string()))?;
    let verdict = match question.client.get_any(&[question.path]).await {
        Ok(answer) => question.verdict(&answer),
        Err(error) => question.without_answer(error),
    };
    let verdict = verdict.map_err(|error| unwell(&question.doubted(&error)))?;
    match global.format() {
        Format::Json | Format::Jsonl => term.line(&verdict.json.to_string())?,
        Format::Ids if verdict.is_well => term.line(question.client.url())?,
        Format::Table if verdict.is_well => term.line(&verdict.line)?,
        Format::Ids | Format::Table => {}
    }
    if verdict.is_well { Ok(()) } else { Err(unwell(&verdict.line)) }
}

fn question(args: &Health, global: &Global, term: &Term) -> Result<Question, ClientError> {
    let path = if args.ready { "readyz" } else { "livez" };
    if let Some(client) = Client::without_token(global, term)? {
        return Ok(Question { client, path, unread: None });
    }
    let config = ConfigArgs { config: args.config.clone(), data: None };
    let (server, unread) = Source::new(&config, Vec::new(), term).listener();
    let client = Client::of_listener(server.listen, server.tls.is_some(), global.timeout)?;
    Ok(Question { client, path, unread })
}

impl Question {
    fn verdict(&self, answer: &Answer) -> Result<Verdict, ClientError> {
        let status = answer.need("status", Value::as_str)?;
        let is_well = answer.status == 200 && matches!(status, "ok" | "warn");
        let checks = answer.body.get("checks").and_then(Value::as_array);
        // What made it so, and nothing else.
        let reasons: Vec<String> = checks
            .into_iter()
            .flatten()
            .filter(|check| status != "ok" && text(check, "status") == status)
            .map(|check| match text(check, "detail") {
                detail if detail == "-" => text(check, "name"),
                detail => format!("{}: {detail}", text(check, "name")),
            })
            .collect();
        Ok(Verdict { is_well, line: self.line(&safe(status), &reasons.join("; ")), json: answer.body.clone() })
    }

    /// A host that refuses is one that answers, and that is all that was asked if it wasn't about its work: one that is short of
    /// connections isn't to be started again for it.
    fn without_answer(&self, error: ClientError) -> Result<Verdict, ClientError> {
        match error {
            ClientError::Refused(refusal) if self.path == "livez" => {
                let json = json!({ "status": "ok", "code": refusal.code });
                Ok(Verdict { is_well: true, line: self.line("ok", &safe(&refusal.code)), json })
            }
            error => Err(error),
        }
    }

    /// Who was asked, how it is, and why.
    fn line(&self, status: &str, why: &str) -> String {
        let asked = format!("{status}: {}/{}", self.client.url(), self.path);
        if why.is_empty() { asked } else { format!("{asked}: {why}") }
    }

    /// Why nobody answered, with what may have led to the wrong address.
    fn doubted(&self, error: &ClientError) -> String {
        match &self.unread {
            Some(unread) => format!("{error}\nthe address may be another one\n{unread}"),
            None => error.to_string(),
        }
    }
}

/// In one line, as logs of supervisors have it.
fn unwell(text: &str) -> CliError {
    let lines: Vec<&str> = text.lines().map(str::trim).collect();
    CliError::Unwell { why: lines.join("; ") }
}
