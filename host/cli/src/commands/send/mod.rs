//! `waybill send`.

mod annotations;
mod sender;

use std::collections::BTreeMap;
use std::path::PathBuf;

use clap::Args;
use jiff::Timestamp;
use serde_json::value::RawValue;

use super::Context;
use super::json::{self, raw_json, raw_text};
use crate::args::pair;
use crate::exit::CliError;
use annotations::AnnotationArgs;
use sender::Sender;

/// Enqueue messages.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    waybill send --topic http://127.0.0.1:9000/hook --payload '{\"order\":1}'\n  \
    waybill send --topic bus:orders.created --key order-17 --header source=shop --payload '{\"order\":17}'\n  \
    waybill send --file orders.jsonl                   message objects, one a line\n  \
    produce | waybill send -                           the same from stdin\n  \
    waybill send --topic bus:orders.created --payload @order.json --expires-at 1h\n  \
    waybill send --topic bus:files --raw --content-type image/png --file logo.png\n\n\
    Lines are sent in groups; each group is committed as a whole and answered with its ids. A bad line ends it: groups \
    before it stay committed, and the exit code is then 7. Give messages ids of your own, or --idempotency-key, if you \
    want to send the same file twice without doubling it.")]
pub struct Send {
    /// `-` for message objects from stdin, one a line
    #[arg(value_name = "-", value_parser = only_stdin)]
    pub stdin: Option<String>,
    /// http:URL, bus:SUBJECT or custom:NAME; for lines: the default for lines without a topic
    #[arg(long)]
    pub topic: Option<String>,
    /// Messages of one key are delivered one at a time, in order
    #[arg(long)]
    pub key: Option<String>,
    /// Tenant [default: the token's only one, else default]
    #[arg(long)]
    pub tenant: Option<String>,
    /// Header, may be repeated
    #[arg(long = "header", value_name = "NAME=VALUE", value_parser = pair)]
    pub headers: Vec<(String, String)>,
    /// Id of your own, by which a repeated send is recognised
    #[arg(long)]
    pub id: Option<String>,
    /// Sent once under this key: the same send again is answered as the first was
    #[arg(long, value_name = "KEY")]
    pub idempotency_key: Option<String>,
    /// Not before this instant (RFC 3339), or after this time (e.g. 10m)
    #[arg(long, value_name = "WHEN")]
    pub not_before: Option<String>,
    /// Of no use after this instant (RFC 3339), or after this time (e.g. 10m)
    #[arg(long, value_name = "WHEN")]
    pub expires_at: Option<String>,
    /// When it happened (RFC 3339) [default: now]
    #[arg(long, value_name = "WHEN")]
    pub occurred_at: Option<String>,
    /// Event type
    #[arg(long)]
    pub event_type: Option<String>,
    /// A flag for each optional text
    #[command(flatten)]
    pub annotations: AnnotationArgs,
    /// Payload as JSON; `@FILE` reads it from a file, `-` from stdin
    #[arg(long, value_name = "JSON", allow_hyphen_values = true, conflicts_with_all = ["file", "stdin"])]
    pub payload: Option<String>,
    /// File with message objects, one a line
    #[arg(long, value_name = "FILE", conflicts_with = "stdin")]
    pub file: Option<PathBuf>,
    /// The file is one payload as it is, not lines
    #[arg(long, requires = "topic")]
    pub raw: bool,
}

/// A message object whose values keep their bytes.
type Fields = BTreeMap<String, Box<RawValue>>;

/// Sends one message or many.
pub(super) async fn run(args: &Send, context: &mut Context<'_>) -> Result<(), CliError> {
    let defaults = defaults(args)?;
    let mut sender = Sender::new(args.idempotency_key.clone());
    let sent = match (&args.payload, &args.file, &args.stdin) {
        (Some(payload), _, _) => {
            let mut fields = defaults;
            fields.insert("payload".into(), json::read(context.term, "--payload", payload)?);
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
    ];
    for (name, value) in texts {
        if let Some(value) = value {
            fields.insert(name.to_owned(), raw_text(value)?);
        }
    }
    for (annotation, text) in args.annotations.0.iter() {
        fields.insert(annotation.name().to_owned(), raw_text(text)?);
    }
    let whens = [
        ("not_before", "--not-before", &args.not_before),
        ("expires_at", "--expires-at", &args.expires_at),
        ("occurred_at", "--occurred-at", &args.occurred_at),
    ];
    for (name, flag, when) in whens {
        if let Some(when) = when {
            fields.insert(name.to_owned(), raw_text(&format!("{:.3}", instant(flag, when)?))?);
        }
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

/// An instant, or a time from now.
fn instant(flag: &str, when: &str) -> Result<Timestamp, CliError> {
    if let Ok(at) = when.parse::<Timestamp>() {
        return Ok(at);
    }
    let after = humantime::parse_duration(when).map_err(|_| {
        CliError::usage(
            format!("{flag} {when:?} is neither an instant nor a time from now"),
            "write it like 2026-12-01T08:00:00Z, or like 10m",
        )
    })?;
    Timestamp::now().checked_add(after).map_err(|_| {
        CliError::usage(format!("{flag} {when:?} is too far away"), "write it like 2026-12-01T08:00:00Z, or like 10m")
    })
}

/// The one word that stands alone.
fn only_stdin(word: &str) -> Result<String, String> {
    match word {
        "-" => Ok(word.to_owned()),
        _ => Err("where it goes is named by --topic; a word alone can only be -, for lines from stdin".to_owned()),
    }
}

fn need_topic(fields: &Fields) -> Result<(), CliError> {
    if fields.contains_key("topic") {
        return Ok(());
    }
    Err(CliError::usage("there is no topic", "give --topic http:URL, bus:SUBJECT or custom:NAME"))
}

pub(super) fn base64(bytes: &[u8]) -> String {
    use base64::Engine as _;
    base64::engine::general_purpose::STANDARD.encode(bytes)
}
