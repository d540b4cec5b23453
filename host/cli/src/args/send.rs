//! `waybill send`.

use std::path::PathBuf;

use clap::Args;

/// Enqueue messages.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    waybill send --topic http://127.0.0.1:9000/hook --payload '{\"order\":1}'\n  \
    waybill send --topic bus:orders.created --key order-17 --header source=shop --payload '{\"order\":17}'\n  \
    waybill send --file orders.jsonl                   message objects, one a line\n  \
    produce | waybill send -                           the same from stdin\n  \
    waybill send --topic bus:files --raw --content-type image/png --file logo.png\n\n\
    Lines are sent in groups; each group is committed as a whole and answered with its ids. A bad line ends it: groups \
    before it stay committed, and the exit code is then 7. Give messages ids of your own, or --idempotency-key, if you \
    want to send the same file twice without doubling it.")]
pub struct Send {
    /// `-` for message objects from stdin, one a line
    #[arg(value_name = "-", value_parser = ["-"])]
    pub stdin: Option<String>,
    /// http:URL, bus:SUBJECT or custom:NAME; for lines: the default for lines without a topic
    #[arg(long)]
    pub topic: Option<String>,
    /// Messages of one key are delivered one at a time, in order
    #[arg(long)]
    pub key: Option<String>,
    /// Tenant [default: default]
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
    /// Event type
    #[arg(long)]
    pub event_type: Option<String>,
    /// Media type of the payload
    #[arg(long, value_name = "TYPE")]
    pub content_type: Option<String>,
    /// Payload as JSON
    #[arg(long, value_name = "JSON", conflicts_with_all = ["file", "stdin"])]
    pub payload: Option<String>,
    /// File with message objects, one a line
    #[arg(long, value_name = "FILE", conflicts_with = "stdin")]
    pub file: Option<PathBuf>,
    /// The file is one payload as it is, not lines
    #[arg(long, requires = "topic")]
    pub raw: bool,
}

/// Reads `name=value`.
pub(super) fn pair(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.trim().is_empty() => Ok((name.trim().to_owned(), value.to_owned())),
        _ => Err("write NAME=VALUE".to_owned()),
    }
}
