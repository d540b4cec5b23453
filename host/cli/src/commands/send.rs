//! `waybill send`.

use std::collections::BTreeMap;
use std::io::BufRead;

use jiff::Timestamp;
use serde_json::Value;
use serde_json::value::RawValue;
use waybill_server::aliases::{Field, resolve};

use super::Context;
use crate::args::Format;
use crate::args::send::Send;
use crate::exit::CliError;
use crate::output::number;

/// Messages of one request: a commit group that answers quickly.
const GROUP_MESSAGES: usize = 500;
/// Bytes of one request.
const GROUP_BYTES: usize = 4 * 1024 * 1024;

/// A message object whose values keep their bytes.
type Fields = BTreeMap<String, Box<RawValue>>;

/// Sends one message or many.
pub(super) async fn run(args: Send, context: &mut Context<'_>) -> Result<(), CliError> {
    let defaults = defaults(&args)?;
    let mut sender = Sender::default();
    match (&args.payload, &args.file, &args.stdin) {
        (Some(payload), _, _) => {
            let mut fields = defaults;
            fields.insert("payload".into(), raw_json(payload.clone(), "--payload")?);
            need_topic(&fields)?;
            sender.push(context, &fields).await?;
        }
        (None, Some(path), _) if args.raw => {
            let bytes = std::fs::read(path).map_err(CliError::io(format!("reading {}", path.display())))?;
            let mut fields = defaults;
            fields.insert("payload_base64".into(), raw_text(&base64(&bytes))?);
            sender.push(context, &fields).await?;
        }
        (None, Some(path), _) => {
            let file = std::fs::File::open(path).map_err(CliError::io(format!("opening {}", path.display())))?;
            let mut lines = std::io::BufReader::new(file);
            sender.lines(context, &mut lines, &path.display().to_string(), &defaults).await?;
        }
        (None, None, Some(_)) => {
            // Taken out while it is read, because the sender writes to the same terminal.
            let mut input = std::mem::replace(&mut context.term.input, Box::new(std::io::empty()));
            let sent = sender.lines(context, &mut input, "stdin", &defaults).await;
            context.term.input = input;
            sent?;
        }
        (None, None, None) => {
            return Err(CliError::usage(
                "there is nothing to send",
                "give --payload JSON, --file FILE, or - for stdin",
            ));
        }
    }
    sender.finish(context).await
}

/// Fields that the flags give: of the one message, or of every line that hasn't its own.
fn defaults(args: &Send) -> Result<Fields, CliError> {
    let mut fields = Fields::new();
    let texts = [
        ("topic", &args.topic),
        ("key", &args.key),
        ("tenant", &args.tenant),
        ("id", &args.id),
        ("event_type", &args.event_type),
        ("content_type", &args.content_type),
    ];
    for (name, value) in texts {
        if let Some(value) = value {
            fields.insert(name.to_owned(), raw_text(value)?);
        }
    }
    if let Some(when) = &args.not_before {
        let at = match when.parse::<Timestamp>() {
            Ok(at) => at,
            Err(_) => {
                let after = humantime::parse_duration(when).map_err(|_| {
                    CliError::usage(
                        format!("--not-before {when:?} is neither an instant nor a time from now"),
                        "write it like 2026-12-01T08:00:00Z, or like 10m",
                    )
                })?;
                Timestamp::now() + after
            }
        };
        fields.insert("not_before".to_owned(), raw_text(&format!("{at:.3}"))?);
    }
    if !args.headers.is_empty() {
        let mut headers: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        for (name, value) in &args.headers {
            headers.entry(name).or_default().push(value);
        }
        let headers = serde_json::to_value(&headers).unwrap_or_default();
        fields.insert("headers".to_owned(), raw_json(headers.to_string(), "--header")?);
    }
    let many = args.payload.is_none() && !args.raw;
    if many && args.id.is_some() {
        return Err(CliError::usage("--id can't be for many messages", "put \"id\" into each line"));
    }
    Ok(fields)
}

fn need_topic(fields: &Fields) -> Result<(), CliError> {
    if fields.contains_key("topic") {
        return Ok(());
    }
    Err(CliError::usage("there is no topic", "give --topic http:URL, bus:SUBJECT or custom:NAME"))
}

/// Groups messages into requests and counts what came of them.
#[derive(Default)]
struct Sender {
    group: Vec<u8>,
    messages: usize,
    accepted: u64,
    duplicates: u64,
    ids: Vec<Value>,
}

impl Sender {
    async fn lines(
        &mut self,
        context: &mut Context<'_>,
        input: &mut (dyn BufRead + std::marker::Send),
        name: &str,
        defaults: &Fields,
    ) -> Result<(), CliError> {
        let mut line = String::new();
        let mut number = 0_u64;
        loop {
            line.clear();
            number += 1;
            if input.read_line(&mut line).map_err(CliError::io(format!("reading {name}")))? == 0 {
                return Ok(());
            }
            if line.trim().is_empty() {
                continue;
            }
            let wrong =
                |cause: String| CliError::usage(format!("{name}:{number}: {cause}"), "write one message object a line");
            let mut fields: Fields =
                serde_json::from_str(&line).map_err(|error| wrong(format!("this isn't a JSON object ({error})")))?;
            let given: Vec<Field> = fields.keys().filter_map(|name| resolve(name)).map(|(field, _)| field).collect();
            for (name, value) in defaults {
                if resolve(name).is_none_or(|(field, _)| !given.contains(&field)) {
                    fields.insert(name.clone(), value.clone());
                }
            }
            if let Err(error) = self.push(context, &fields).await {
                context.term.complain(&format!("{name}: stopped before or at line {number}"));
                return Err(error);
            }
        }
    }

    async fn push(&mut self, context: &mut Context<'_>, fields: &Fields) -> Result<(), CliError> {
        let object =
            serde_json::to_vec(fields).map_err(|error| CliError::usage(error.to_string(), "correct the message"))?;
        if self.messages > 0 && (self.messages == GROUP_MESSAGES || self.group.len() + object.len() > GROUP_BYTES) {
            self.flush(context).await?;
        }
        self.group.extend_from_slice(&object);
        self.group.push(b'\n');
        self.messages += 1;
        Ok(())
    }

    async fn flush(&mut self, context: &mut Context<'_>) -> Result<(), CliError> {
        if self.messages == 0 {
            return Ok(());
        }
        let body = std::mem::take(&mut self.group);
        self.messages = 0;
        let result = context.client.post_bytes(&["v1", "messages"], &[], "application/x-ndjson", body).await;
        let answer = match result {
            Ok(answer) => answer,
            Err(error) => {
                if self.accepted > 0 {
                    let before = number(self.accepted, "message was", "messages were");
                    context.term.complain(&format!("{before} committed before this; nothing of the group that failed"));
                }
                return Err(error.into());
            }
        };
        let list = |name: &str| answer.body.get(name).and_then(Value::as_array).cloned().unwrap_or_default();
        let ids = list("ids");
        self.accepted += ids.len() as u64;
        self.duplicates += list("duplicates").len() as u64;
        match context.format {
            Format::Ids | Format::Table => {
                for id in ids.iter().filter_map(Value::as_str) {
                    context.term.line(id)?;
                }
            }
            Format::Jsonl => context.term.line(&answer.body.to_string())?,
            Format::Json => self.ids.extend(ids),
        }
        Ok(())
    }

    async fn finish(mut self, context: &mut Context<'_>) -> Result<(), CliError> {
        self.flush(context).await?;
        if context.format == Format::Json {
            let all = serde_json::json!({ "ids": self.ids, "duplicates": self.duplicates });
            context.term.line(&all.to_string())?;
        }
        let mut told = number(self.accepted, "message", "messages") + " committed";
        if self.duplicates > 0 {
            told += &format!(", {} of them there before", self.duplicates);
        }
        context.term.say(&told);
        Ok(())
    }
}

/// Checks that a text is JSON, and keeps it as it is.
pub(super) fn raw_json(text: String, from: &str) -> Result<Box<RawValue>, CliError> {
    RawValue::from_string(text).map_err(|error| {
        CliError::usage(format!("{from} isn't JSON: {error}"), "quote it for your shell, e.g. --payload '{\"a\":1}'")
    })
}

/// A text as JSON.
pub(super) fn raw_text(text: &str) -> Result<Box<RawValue>, CliError> {
    raw_json(Value::String(text.to_owned()).to_string(), "this text")
}

fn base64(bytes: &[u8]) -> String {
    use base64::Engine as _;
    base64::engine::general_purpose::STANDARD.encode(bytes)
}
