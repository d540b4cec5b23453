//! Messages on their way to the host: in groups, each committed as a whole.

use std::io::BufRead;

use serde_json::Value;
use waybill_core::json_fault::fault;
use waybill_server::aliases::{Field, resolve};

use super::Fields;
use crate::client::ClientError;
use crate::commands::Context;
use crate::exit::CliError;
use crate::output::{Format, number};

/// Messages of one request: a commit group that answers quickly.
const GROUP_MESSAGES: usize = 500;
/// What a request holds.
const LINES: &str = "application/x-ndjson";
/// Bytes of one request.
const GROUP_BYTES: usize = 4 * 1024 * 1024;

/// Groups messages into requests and counts what came of them.
#[derive(Default)]
pub(super) struct Sender {
    /// Where the lines come from; empty for a message of the flags.
    pub(super) source: String,
    key: Option<String>,
    requests: u64,
    /// Objects of the next request, one a line.
    group: Vec<u8>,
    /// Line of the source that each of them stands in.
    lines: Vec<u64>,
    accepted: u64,
    repeated: u64,
    /// Last line that is committed.
    reached: u64,
    /// Ids and those of them that were there before, kept for one JSON document.
    ids: Vec<Value>,
    duplicates: Vec<Value>,
}

impl Sender {
    pub(super) fn new(key: Option<String>) -> Self {
        Self { key, ..Self::default() }
    }

    pub(super) async fn one(&mut self, context: &mut Context<'_>, fields: &Fields) -> Result<(), CliError> {
        self.push(context, fields, 1).await?;
        self.flush(context).await
    }

    /// Sends a message a line.
    pub(super) async fn lines(
        &mut self,
        context: &mut Context<'_>,
        input: &mut (dyn BufRead + std::marker::Send),
        defaults: &Fields,
    ) -> Result<(), CliError> {
        let mut line = String::new();
        let mut number = 0_u64;
        loop {
            line.clear();
            number += 1;
            let at = format!("{}:{number}", self.source);
            if input.read_line(&mut line).map_err(CliError::io(format!("reading {at}")))? == 0 {
                return self.flush(context).await;
            }
            let object = line.trim();
            if object.is_empty() {
                continue;
            }
            let mut fields: Fields = serde_json::from_str(object).map_err(|error| {
                // The parser calls every line the first.
                let what = match error.is_data() {
                    true => format!("{at}: this is JSON and not an object"),
                    false => format!("{at}: this isn't a JSON object: {}, at column {}", fault(&error), error.column()),
                };
                CliError::usage(what, "write one message object a line")
            })?;
            let given: Vec<Field> = fields.keys().filter_map(|name| resolve(name)).map(|(field, _)| field).collect();
            for (name, value) in defaults {
                if resolve(name).is_none_or(|(field, _)| !given.contains(&field)) {
                    fields.insert(name.clone(), value.clone());
                }
            }
            self.push(context, &fields, number).await?;
        }
    }

    async fn push(&mut self, context: &mut Context<'_>, fields: &Fields, line: u64) -> Result<(), CliError> {
        let object =
            serde_json::to_vec(fields).map_err(|error| CliError::usage(error.to_string(), "correct the message"))?;
        let full = self.lines.len() == GROUP_MESSAGES || self.group.len() + object.len() > GROUP_BYTES;
        if full && !self.lines.is_empty() {
            self.flush(context).await?;
        }
        self.group.extend_from_slice(&object);
        self.group.push(b'\n');
        self.lines.push(line);
        Ok(())
    }

    async fn flush(&mut self, context: &mut Context<'_>) -> Result<(), CliError> {
        let lines = std::mem::take(&mut self.lines);
        let Some(last) = lines.last() else { return Ok(()) };
        let body = std::mem::take(&mut self.group);
        self.requests += 1;
        // The same lines make the same requests, so each of them has a key of its own.
        let key = self.key.as_ref().map(|key| match self.requests {
            1 => key.clone(),
            number => format!("{key}/{number}"),
        });
        let answer = context.client.post_once(&["v1", "messages"], LINES, key.as_deref(), body).await;
        let Some(answer) = answer.map_err(|error| self.placed(error, &lines))? else {
            context.term.say("committed before under this key; the host keeps only a digest of the answer, so the ids aren't known here");
            self.accepted += lines.len() as u64;
            self.repeated += lines.len() as u64;
            self.reached = *last;
            return Ok(());
        };
        let ids = answer.need("ids", Value::as_array)?;
        let duplicates = answer.need("duplicates", Value::as_array)?;
        self.accepted += ids.len() as u64;
        self.repeated += duplicates.len() as u64;
        self.reached = *last;
        match context.format {
            Format::Ids | Format::Table => {
                for id in ids.iter().filter_map(Value::as_str) {
                    context.term.line(id)?;
                }
            }
            Format::Jsonl => context.term.line(&answer.body.to_string())?,
            Format::Json => {
                self.ids.extend_from_slice(ids);
                self.duplicates.extend_from_slice(duplicates);
            }
        }
        Ok(())
    }

    /// The host's lines and columns are those of a body that was made here: what counts is the line of the source.
    fn placed(&self, error: ClientError, lines: &[u64]) -> CliError {
        let ClientError::Refused(mut refusal) = error else { return error.into() };
        (refusal.line, refusal.column) = (None, None);
        let line = refusal.index.and_then(|index| lines.get(index));
        refusal.source = line.filter(|_| !self.source.is_empty()).map(|line| format!("{}:{line}", self.source));
        ClientError::Refused(refusal).into()
    }

    /// Tells what is committed, also when the list broke off.
    pub(super) fn finish(self, context: &mut Context<'_>, sent: Result<(), CliError>) -> Result<(), CliError> {
        if let (Err(_), 0) = (&sent, self.accepted) {
            return sent;
        }
        if context.format == Format::Json {
            let all = serde_json::json!({ "ids": self.ids, "duplicates": self.duplicates });
            context.term.line(&all.to_string())?;
        }
        match sent {
            Ok(()) => context.term.say(&committed(self.accepted.saturating_sub(self.repeated), self.repeated)),
            // There is only the one message, and its id couldn't be told.
            Err(cause) if self.source.is_empty() => return Err(cause),
            Err(cause) => {
                let messages = number(self.accepted, "message was", "messages were");
                let committed = format!("{messages} committed, up to {}:{},", self.source, self.reached);
                return Err(CliError::BrokeOff { cause: Box::new(cause), committed });
            }
        }
        Ok(())
    }
}

fn committed(new: u64, repeated: u64) -> String {
    let text = number(new, "message", "messages") + " committed";
    match (new, repeated) {
        (_, 0) => text,
        (0, repeated) => {
            format!("nothing new: {}", number(repeated, "message was there before", "messages were there before"))
        }
        (_, repeated) => format!("{text}, {}", number(repeated, "was there before", "were there before")),
    }
}
