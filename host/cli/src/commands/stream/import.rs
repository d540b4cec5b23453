//! `waybill stream import`.

use std::collections::BTreeMap;
use std::io::BufRead;
use std::path::PathBuf;

use clap::Args;
use serde::Serialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use waybill_core::json_fault::fault;
use waybill_core::seq_json::SeqJson;
use waybill_core::streams::wire::EnvelopeJson;

use crate::commands::{Context, lists};
use crate::exit::CliError;
use crate::output::{self, Format, View, column, less, number, text, whole, words};

/// Events of one request.
const PART_EVENTS: usize = 500;
/// Bytes of one request, about.
const PART_BYTES: usize = 2 * 1024 * 1024;
/// Bytes of all parts that wait because a file takes its streams in turn: all are sent then.
const WAITING_BYTES: usize = 32 * 1024 * 1024;

/// From where.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    waybill stream import events.jsonl --dry-run\n  \
    waybill stream import events.jsonl --reason 'from the old store'\n  \
    waybill stream read --prefix '' --all -o jsonl --url http://old:7070 | waybill stream import -\n\n\
    Each line is an event with stream, seq, event_id and ts_ms, as `waybill stream read -o jsonl` writes it; all four stay as they are. \
    Their numbers rise; those that retention or compaction took stay free. Streams may come mixed. A stream that has events is refused, unless the file goes on behind its \
    last one, as after an import that broke off.")]
pub struct Import {
    /// File with events, one a line; `-` for stdin
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// Tenant of events that name none [default: the token's only one, else default]
    #[arg(long)]
    pub tenant: Option<String>,
    /// Only read the file, and tell what is in it
    #[arg(long)]
    pub dry_run: bool,
    /// Why, for the audit
    #[arg(long, value_name = "TEXT")]
    pub reason: Option<String>,
}

const VIEW: View<'_> = View {
    columns: &[
        whole("STREAM", |item| text(item, "stream")),
        less(1, column("TENANT", |item| text(item, "tenant"))),
        column("EVENTS", |item| words(item, "events")),
        column("LAST", |item| words(item, "last_seq")),
    ],
    id: |item| text(item, "stream"),
    none: "there is no event in it",
};

/// A stream of the file.
#[derive(Default)]
struct Part {
    /// Events that weren't sent yet, as they stand in the file.
    events: Vec<Box<RawValue>>,
    bytes: usize,
    /// Events in all, and the number of the last one.
    count: u64,
    last: u64,
    /// What the host couldn't know of it.
    note: Option<String>,
}

/// What the host is asked to import.
#[derive(Serialize)]
struct Request<'a> {
    events: Vec<Box<RawValue>>,
    reason: &'a str,
}

/// Tenant, if the event names one, and name.
type Which = (Option<String>, String);

/// Reads the file, and sends each stream's events in parts.
pub(super) async fn run(args: &Import, context: &mut Context<'_>) -> Result<(), CliError> {
    let mut parts = Parts::default();
    let read = if args.file.as_os_str() == "-" {
        // Taken out while it is read, because the terminal is written to meanwhile.
        let mut input = std::mem::replace(&mut context.term.input, Box::new(std::io::empty()));
        let read = parts.read(args, context, "stdin", &mut input).await;
        context.term.input = input;
        read
    } else {
        let source = args.file.display().to_string();
        let file = std::fs::File::open(&args.file).map_err(CliError::io(format!("opening {source}")))?;
        parts.read(args, context, &source, &mut std::io::BufReader::new(file)).await
    };
    if let Err(cause) = read {
        return Err(match parts.imported {
            0 => cause,
            count => {
                let committed = number(count, "event was imported", "events were imported");
                CliError::BrokeOff { cause: Box::new(cause), committed }
            }
        });
    }
    let rows: Vec<Value> = parts
        .of_streams
        .iter()
        .map(|((tenant, stream), part)| {
            let tenant = tenant.as_deref().or(args.tenant.as_deref());
            json!({ "stream": stream, "tenant": tenant, "events": part.count, "last_seq": SeqJson(part.last) })
        })
        .collect();
    let count = parts.of_streams.values().map(|part| part.count).sum();
    let verb = if args.dry_run {
        ("event is in it", "events are in it")
    } else {
        ("event is imported", "events are imported")
    };
    context.term.say(&number(count, verb.0, verb.1));
    for ((_, stream), part) in &parts.of_streams {
        if let Some(note) = &part.note {
            context.term.say(&format!("{stream}: {note}"));
        }
    }
    match (context.format, args.dry_run) {
        (Format::Ids, true) => Ok(()),
        (format, _) => output::list(context.term, format, &rows, &VIEW),
    }
}

#[derive(Default)]
struct Parts {
    of_streams: BTreeMap<Which, Part>,
    /// Bytes that weren't sent yet.
    waiting: usize,
    imported: u64,
}

impl Parts {
    async fn read(
        &mut self,
        args: &Import,
        context: &mut Context<'_>,
        source: &str,
        input: &mut (dyn BufRead + Send),
    ) -> Result<(), CliError> {
        let mut line = String::new();
        for number in 1_u64.. {
            line.clear();
            let at = format!("{source}:{number}");
            if input.read_line(&mut line).map_err(CliError::io(format!("reading {at}")))? == 0 {
                break;
            }
            if line.trim().is_empty() {
                continue;
            }
            if let Some(full) = self.take(args, &at, line.trim())? {
                self.send(args, context, &full).await?;
            }
            if self.waiting > WAITING_BYTES {
                self.send_all(args, context).await?;
            }
        }
        self.send_all(args, context).await
    }

    /// Takes a line in, checked as far as it goes without the host. Answers the stream whose part is full with it.
    fn take(&mut self, args: &Import, at: &str, line: &str) -> Result<Option<Which>, CliError> {
        let wrong = |cause: String| {
            CliError::usage(format!("{at}: {cause}"), "write an event a line, as `waybill stream read -o jsonl` does")
        };
        let envelope: EnvelopeJson<'static> = serde_json::from_str(line)
            .map_err(|error| wrong(format!("{}, at column {}", fault(&error), error.column())))?;
        let which = (envelope.tenant.as_deref().map(str::to_owned), envelope.stream.to_string());
        let part = self.of_streams.entry(which.clone()).or_default();
        // Where the first one belongs only the host knows: an import that broke off goes on behind what is there.
        let seq = u64::from(envelope.seq);
        let next = if part.count == 0 { seq.max(1) } else { part.last.saturating_add(1) };
        if seq < next {
            return Err(wrong(format!("{} has seq {seq} here, where {next} comes next, or a later one", which.1)));
        }
        (part.count, part.last) = (part.count + 1, seq);
        if args.dry_run {
            return Ok(None);
        }
        let event = RawValue::from_string(line.to_owned()).map_err(|error| wrong(error.to_string()))?;
        part.events.push(event);
        part.bytes += line.len();
        self.waiting += line.len();
        let is_full = part.events.len() >= PART_EVENTS || part.bytes >= PART_BYTES;
        Ok(is_full.then_some(which))
    }

    async fn send_all(&mut self, args: &Import, context: &mut Context<'_>) -> Result<(), CliError> {
        let waiting = self.of_streams.iter().filter(|(_, part)| !part.events.is_empty());
        let waiting: Vec<Which> = waiting.map(|(which, _)| which.clone()).collect();
        for which in waiting {
            self.send(args, context, &which).await?;
        }
        Ok(())
    }

    async fn send(&mut self, args: &Import, context: &mut Context<'_>, which: &Which) -> Result<(), CliError> {
        let Some(part) = self.of_streams.get_mut(which) else { return Ok(()) };
        let events = std::mem::take(&mut part.events);
        self.waiting = self.waiting.saturating_sub(std::mem::take(&mut part.bytes));
        let count = events.len() as u64;
        let body = Request { events, reason: args.reason.as_deref().unwrap_or_default() };
        let body = serde_json::to_vec(&body)
            .map_err(|error| CliError::usage(error.to_string(), "correct the events of the file"))?;
        let (tenant, name) = which;
        let query = lists::tenant_query(tenant.as_deref().or(args.tenant.as_deref()));
        let path = ["v1", "streams", name.as_str(), "import"];
        let answer = context.client.post_bytes(&path, &query, "application/json", body).await?;
        answer.need("last_seq", SeqJson::in_value)?;
        if let Some(note) = answer.body.get("note").and_then(Value::as_str) {
            part.note = Some(note.to_owned());
        }
        self.imported += count;
        Ok(())
    }
}
