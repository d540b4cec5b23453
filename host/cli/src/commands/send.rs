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
use crate::client::ClientError;
use crate::exit::CliError;
use crate::output::number;

/// Messages of one request: a commit group that answers quickly.
const GROUP_MESSAGES: usize = 500;
/// What a request holds.
const LINES: &str = "application/x-ndjson";
/// Bytes of one request.
const GROUP_BYTES: usize = 4 * 1024 * 1024;

/// A message object whose values keep their bytes.
type Fields = BTreeMap<String, Box<RawValue>>;

/// Sends one message or many.
pub(super) async fn run(args: Send, context: &mut Context<'_>) -> Result<(), CliError> {
    let defaults = defaults(&args)?;
    let mut sender = Sender { key: args.idempotency_key.clone(), ..Sender::default() };
    let sent = match (&args.payload, &args.file, &args.stdin) {
        (Some(payload), _, _) => {
            let mut fields = defaults;
            fields.insert("payload".into(), raw_json(payload.clone(), "--payload")?);
            need_topic(&fields)?;
            sender.one(context, &fields).await
        }
        (None, Some(path), _) if args.raw => {
            let bytes = std::fs::read(path).map_err(CliError::io(format!("reading {}", path.display())))?;
            let mut fields = defaults;
            fields.insert("payload_base64".into(), raw_text(&base64(&bytes))?);
            sender.one(context, &fields).await
        }
        (None, Some(path), _) => {
            let file = std::fs::File::open(path).map_err(CliError::io(format!("opening {}", path.display())))?;
            sender.source = path.display().to_string();
            sender.lines(context, &mut std::io::BufReader::new(file), &defaults).await
        }
        (None, None, Some(_)) => {
            sender.source = "stdin".to_owned();
            // Taken out while it is read, because the sender writes to the same terminal.
            let mut input = std::mem::replace(&mut context.term.input, Box::new(std::io::empty()));
            let sent = sender.lines(context, &mut input, &defaults).await;
            context.term.input = input;
            sent
        }
        (None, None, None) => {
            return Err(CliError::usage(
                "there is nothing to send",
                "give --payload JSON, --file FILE, or - for stdin",
            ));
        }
    };
    sender.finish(context, sent)
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
    /// Where the lines come from; empty for a message of the flags.
    source: String,
    /// `--idempotency-key`.
    key: Option<String>,
    /// Requests so far.
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
    async fn one(&mut self, context: &mut Context<'_>, fields: &Fields) -> Result<(), CliError> {
        self.push(context, fields, 1).await?;
        self.flush(context).await
    }

    async fn lines(
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
                let text = error.to_string();
                let cause = text.split(" at line ").next().unwrap_or_default();
                let what = format!("{at}: this isn't a JSON object: {cause}, at column {}", error.column());
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
    fn finish(self, context: &mut Context<'_>, sent: Result<(), CliError>) -> Result<(), CliError> {
        if let (Err(_), 0) = (&sent, self.accepted) {
            return sent;
        }
        if context.format == Format::Json {
            let all = serde_json::json!({ "ids": self.ids, "duplicates": self.duplicates });
            context.term.line(&all.to_string())?;
        }
        match sent {
            Ok(()) => context.term.say(&told(self.accepted.saturating_sub(self.repeated), self.repeated)),
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

fn told(new: u64, repeated: u64) -> String {
    let committed = number(new, "message", "messages") + " committed";
    match (new, repeated) {
        (_, 0) => committed,
        (0, repeated) => {
            format!("nothing new: {}", number(repeated, "message was there before", "messages were there before"))
        }
        (_, repeated) => format!("{committed}, {}", number(repeated, "was there before", "were there before")),
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
