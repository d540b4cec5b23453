//! `waybill stream tail`.

use std::time::Duration;

use clap::{ArgGroup, Args};
use serde_json::Value;
use waybill_api::streams::SubscriptionEnded;
use waybill_core::code::Code;

use super::rows;
use crate::args::within;
use crate::client::{ClientError, Heard, exit_of_code};
use crate::commands::{Context, lists};
use crate::exit::CliError;

/// Pause before it subscribes again.
const RESUME_PAUSE: Duration = Duration::from_secs(1);

/// Which events, and from where.
#[derive(Debug, Args)]
#[command(group(ArgGroup::new("which").args(["names", "prefix", "node", "resource"]).required(true)))]
#[command(after_help = "Examples:\n  \
    waybill stream tail task.node.7\n  \
    waybill stream tail task.node.7 execution.node.7 --latest\n  \
    waybill stream tail --prefix task. -o jsonl\n  \
    waybill stream tail --node 0190a2f0-7b1e-7c3d-9e4f-1a2b3c4d5e6f\n  \
    waybill stream tail --resource TASK/t-17 --limit 1\n\n\
    It goes on by itself, without gap or repeat, when the host restarts or when it was too slow itself; each time it tells its cursor.")]
pub struct Tail {
    /// Names of streams, up to 64
    #[arg(value_name = "NAME")]
    pub names: Vec<String>,
    /// All streams whose names begin so; '' for all there are
    #[arg(long)]
    pub prefix: Option<String>,
    /// All events of a node, in whatever stream
    #[arg(long, value_name = "UUID")]
    pub node: Option<String>,
    /// All events of a type, or of resources whose ids begin so
    #[arg(long, value_name = "TYPE[/ID]")]
    pub resource: Option<String>,
    /// Only what comes from now on
    #[arg(long, conflicts_with = "cursor")]
    pub latest: bool,
    /// Go on behind what an earlier one of the same kind told
    #[arg(long, value_name = "CURSOR", allow_hyphen_values = true)]
    pub cursor: Option<String>,
    /// End after so many events
    #[arg(long, value_name = "N", value_parser = within(1_u64..))]
    pub limit: Option<u64>,
    /// Their tenant [default: the token's only one, else default]
    #[arg(long)]
    pub tenant: Option<String>,
}

impl Tail {
    fn selector(&self) -> String {
        match (&self.prefix, &self.node, &self.resource) {
            (Some(prefix), _, _) => format!("prefix:{prefix}"),
            (_, Some(node), _) => format!("node:{node}"),
            (_, _, Some(resource)) => format!("type:{resource}"),
            _ => format!("stream:{}", self.names.join(",")),
        }
    }
}

/// How a subscription ended.
enum Broken {
    /// Enough was written.
    Enough,
    /// It may be resumed, for this reason.
    Off(String),
}

/// Writes events until there are enough, or the host refuses to go on.
pub(super) async fn run(args: &Tail, context: &mut Context<'_>) -> Result<(), CliError> {
    let mut cursor = args.cursor.clone().or_else(|| args.latest.then(|| "latest".to_owned()));
    let mut left = args.limit;
    let mut began = false;
    loop {
        let why = match follow(args, context, &mut cursor, &mut left, &mut began).await {
            Ok(Broken::Enough) => return Ok(()),
            Ok(Broken::Off(why)) => why,
            // A host that was never reached isn't one that went away.
            Err(CliError::Client(error)) if began && may_come_back(&error) => error.to_string(),
            Err(error) => return Err(error),
        };
        let from = match &cursor {
            Some(cursor) => format!("--cursor {cursor}"),
            None => "the beginning".to_owned(),
        };
        context.term.say(&format!("{why}; goes on from {from}"));
        tokio::time::sleep(RESUME_PAUSE).await;
    }
}

async fn follow(
    args: &Tail,
    context: &mut Context<'_>,
    cursor: &mut Option<String>,
    left: &mut Option<u64>,
    began: &mut bool,
) -> Result<Broken, CliError> {
    let selector = args.selector();
    let mut query = lists::tenant_query(args.tenant.as_deref());
    query.push(("selector", &selector));
    let client = &context.client;
    let mut events = client.subscribe(&query, cursor.as_deref()).await?;
    *began = true;
    loop {
        let heard = events.next().await?;
        match heard {
            Some(Heard::Event { cursor: behind, envelope }) => {
                let item: Value = serde_json::from_str(&envelope).unwrap_or_default();
                rows::write(context.term, context.format, &envelope, &item)?;
                *cursor = Some(behind);
                if let Some(left) = left {
                    *left = left.saturating_sub(1);
                    if *left == 0 {
                        return Ok(Broken::Enough);
                    }
                }
            }
            Some(Heard::Cursor(behind)) => *cursor = Some(behind),
            Some(Heard::Quiet) => {}
            Some(Heard::Ended(ended)) => return over(ended),
            None => return Ok(Broken::Off("the host closed the subscription".to_owned())),
        }
    }
}

/// Whether an end is one behind which the same cursor goes on.
fn over(ended: SubscriptionEnded) -> Result<Broken, CliError> {
    let SubscriptionEnded { code, detail, .. } = ended;
    match Code::of(&code) {
        Some(Code::EVENT_LAGGED | Code::EVENT_STALLED | Code::PROVIDER_UNAVAILABLE) => {
            Ok(Broken::Off(format!("{code}: {detail}")))
        }
        known => Err(CliError::Host {
            code: known.unwrap_or(Code::UNKNOWN_INTERNAL),
            what: detail,
            exit: exit_of_code(&code),
        }),
    }
}

fn may_come_back(error: &ClientError) -> bool {
    match error {
        ClientError::Unreachable { .. } | ClientError::TimedOut { .. } => true,
        ClientError::Refused(refusal) => refusal.status == 503,
        _ => false,
    }
}
