//! `waybill stream append`.

use std::collections::BTreeMap;
use std::io::BufRead;
use std::path::PathBuf;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use clap::{ArgGroup, Args};
use serde_json::{Map, Value, json};
use waybill_core::json_fault::fault;
use waybill_core::seq_json::SeqJson;

use crate::args::{pair, within};
use crate::client::Answer;
use crate::commands::Context;
use crate::exit::CliError;
use crate::output::{Format, number};

/// Events of one request: a commit that answers quickly.
const GROUP_EVENTS: usize = 500;
/// Bytes of one request, about.
const GROUP_BYTES: usize = 2 * 1024 * 1024;

/// What is appended.
#[derive(Debug, Args)]
#[command(group(ArgGroup::new("what").args(["resource", "file"]).required(true)))]
#[command(after_help = "Examples:\n  \
    waybill stream append task.node.7 --resource TASK/t-17 --op CREATE --data '{\"name\":\"build\"}'\n  \
    waybill stream append task.node.7 --resource TASK/t-17 --op DELETE --expected-seq 41\n  \
    waybill stream append task.node.7 --file events.jsonl\n  \
    produce | waybill stream append task.node.7 --file - -o ids\n\n\
    A file has an event a line: resource_type, resource_id, op, schema_version and what else an event has, payload_bytes in base64. With \
    an event_id of its own each of them may be appended again without harm.")]
pub struct Append {
    /// Name of the stream
    pub name: String,
    /// What changed
    #[arg(long, value_name = "TYPE/ID")]
    pub resource: Option<String>,
    /// File with events, one a line; `-` for stdin
    #[arg(long, value_name = "FILE", conflicts_with_all = ["op", "data", "event_id", "node", "cause", "correlation_id", "header"])]
    pub file: Option<PathBuf>,
    /// What happened to it: CREATE, UPDATE, DELETE, UPSERT, HEARTBEAT, STATE_TRANSITION
    #[arg(long, default_value = "UPDATE")]
    pub op: String,
    /// Version of the payload's schema
    #[arg(long, default_value_t = 1, value_name = "N", value_parser = within(1_u32..))]
    pub schema_version: u32,
    /// Payload; its bytes go as they are
    #[arg(long, value_name = "TEXT")]
    pub data: Option<String>,
    /// Media type of the payload [default: application/json]
    #[arg(long, value_name = "TYPE", requires = "data")]
    pub content_type: Option<String>,
    /// Id of your choice: the same again is then appended once
    #[arg(long, value_name = "ID")]
    pub event_id: Option<String>,
    /// Node that it belongs to [default: as the stream's name says]
    #[arg(long, value_name = "UUID")]
    pub node: Option<String>,
    /// Why it happened
    #[arg(long, value_name = "TEXT")]
    pub cause: Option<String>,
    /// Ties it to a request or an operation
    #[arg(long, value_name = "ID")]
    pub correlation_id: Option<String>,
    /// Header; may be repeated
    #[arg(long, value_name = "NAME=VALUE", value_parser = pair)]
    pub header: Vec<(String, String)>,
    /// Only if the stream ends at this number; 0 = it never had an event
    #[arg(long, value_name = "SEQ", value_parser = within(0_u64..))]
    pub expected_seq: Option<u64>,
    /// Its tenant [default: the token's only one, else default]
    #[arg(long)]
    pub tenant: Option<String>,
}

/// Appends one event, or those of a file.
pub(super) async fn run(args: &Append, context: &mut Context<'_>) -> Result<(), CliError> {
    let mut done = Done { expected: args.expected_seq, ..Done::default() };
    let appended = match (&args.resource, &args.file) {
        (Some(resource), _) => done.append(args, context, vec![of_flags(args, resource)?]).await,
        (None, Some(path)) if path.as_os_str() == "-" => {
            // Taken out while it is read, because what is answered goes to the same terminal.
            let mut input = std::mem::replace(&mut context.term.input, Box::new(std::io::empty()));
            let appended = done.lines(args, context, "stdin", &mut input).await;
            context.term.input = input;
            appended
        }
        (None, Some(path)) => {
            let source = path.display().to_string();
            let file = std::fs::File::open(path).map_err(CliError::io(format!("opening {source}")))?;
            done.lines(args, context, &source, &mut std::io::BufReader::new(file)).await
        }
        (None, None) => Ok(()),
    };
    done.finish(context, appended)
}

fn of_flags(args: &Append, resource: &str) -> Result<Value, CliError> {
    let (resource_type, resource_id) = resource.split_once('/').ok_or_else(|| {
        CliError::usage(format!("--resource {resource:?} has no id"), "write TYPE/ID, e.g. TASK/t-17")
    })?;
    let mut event = Map::new();
    let mut set = |name: &str, value: Value| drop(event.insert(name.to_owned(), value));
    set("resource_type", resource_type.into());
    set("resource_id", resource_id.into());
    set("op", args.op.as_str().into());
    set("schema_version", args.schema_version.into());
    let texts = [
        ("event_id", &args.event_id),
        ("node_uuid", &args.node),
        ("cause", &args.cause),
        ("correlation_id", &args.correlation_id),
    ];
    for (name, text) in texts {
        if let Some(text) = text {
            set(name, text.as_str().into());
        }
    }
    if let Some(data) = &args.data {
        set("content_type", args.content_type.as_deref().unwrap_or("application/json").into());
        set("payload_bytes", STANDARD.encode(data).into());
    }
    if !args.header.is_empty() {
        let headers: BTreeMap<&str, &str> =
            args.header.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        set("headers", json!(headers));
    }
    Ok(Value::Object(event))
}

/// What came of the requests so far.
#[derive(Default)]
struct Done {
    /// Number at which the stream has to end before the next request.
    expected: Option<u64>,
    ids: Vec<Value>,
    seqs: Vec<Value>,
    duplicates: Vec<Value>,
    /// Events that have no numbers yet.
    unnumbered: u64,
}

impl Done {
    async fn lines(
        &mut self,
        args: &Append,
        context: &mut Context<'_>,
        source: &str,
        input: &mut (dyn BufRead + Send),
    ) -> Result<(), CliError> {
        let (mut group, mut bytes) = (Vec::new(), 0);
        let mut line = String::new();
        for number in 1_u64.. {
            line.clear();
            let at = format!("{source}:{number}");
            if input.read_line(&mut line).map_err(CliError::io(format!("reading {at}")))? == 0 {
                break;
            }
            let text = line.trim();
            if text.is_empty() {
                continue;
            }
            let event: Value = serde_json::from_str(text).map_err(|error| {
                let what = format!("{at}: this isn't JSON: {}, at column {}", fault(&error), error.column());
                CliError::usage(what, "write an event a line")
            })?;
            let is_full = group.len() >= GROUP_EVENTS || bytes + text.len() > GROUP_BYTES;
            if is_full && !group.is_empty() {
                self.append(args, context, std::mem::take(&mut group)).await?;
                bytes = 0;
            }
            bytes += text.len();
            group.push(event);
        }
        if group.is_empty() { Ok(()) } else { self.append(args, context, group).await }
    }

    async fn append(&mut self, args: &Append, context: &mut Context<'_>, events: Vec<Value>) -> Result<(), CliError> {
        let count = events.len() as u64;
        let mut body = json!({ "events": events });
        if let Some(members) = body.as_object_mut() {
            members.extend(self.expected.map(|seq| ("expected_seq".to_owned(), seq.to_string().into())));
            members.extend(args.tenant.as_deref().map(|tenant| ("tenant".to_owned(), tenant.into())));
        }
        let answer = context.client.post(&["v1", "streams", &args.name, "events"], &[], &body).await?;
        self.note(&answer, count)
    }

    fn note(&mut self, answer: &Answer, count: u64) -> Result<(), CliError> {
        self.ids.extend_from_slice(answer.need("ids", Value::as_array)?);
        let list = |name: &str| answer.body.get(name).and_then(Value::as_array).cloned();
        match list("seqs") {
            Some(seqs) => {
                // The next request goes on behind this one.
                let last = seqs.iter().filter_map(SeqJson::in_value).max();
                self.expected = self.expected.and(last);
                self.seqs.extend(seqs);
            }
            None => self.unnumbered += count,
        }
        self.duplicates.extend(list("duplicates").unwrap_or_default());
        Ok(())
    }

    /// Tells what was appended, also where it broke off.
    fn finish(self, context: &mut Context<'_>, appended: Result<(), CliError>) -> Result<(), CliError> {
        let count = self.ids.len() as u64;
        let what = number(count, "event is appended", "events are appended");
        if let Err(cause) = appended {
            return Err(match count {
                0 => cause,
                _ => CliError::BrokeOff { cause: Box::new(cause), committed: what },
            });
        }
        let seqs = self.seqs.iter().filter_map(SeqJson::in_value);
        let numbers = match (seqs.clone().min(), seqs.max()) {
            (Some(first), Some(last)) if first == last => format!(", number {first}"),
            (Some(first), Some(last)) => format!(", numbers {first} to {last}"),
            _ => String::new(),
        };
        let repeated = match self.duplicates.len() {
            0 => String::new(),
            count => format!("; {} there before", number(count as u64, "was", "were")),
        };
        let later = match self.unnumbered {
            0 => String::new(),
            count => format!("; {} later", number(count, "gets its number", "get their numbers")),
        };
        context.term.say(&format!("{what}{numbers}{repeated}{later}"));
        match context.format {
            Format::Table => Ok(()),
            Format::Ids => self.ids.iter().try_for_each(|id| context.term.line(id.as_str().unwrap_or_default())),
            Format::Json | Format::Jsonl => {
                let all = json!({ "ids": self.ids, "seqs": self.seqs, "duplicates": self.duplicates });
                context.term.line(&all.to_string())
            }
        }
    }
}
