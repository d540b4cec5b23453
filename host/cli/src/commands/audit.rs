//! `waybill audit list`.

use std::collections::BTreeSet;
use std::time::Duration;

use clap::{Args, Subcommand};
use serde_json::Value;

use super::lists::More;
use super::{Context, lists};
use crate::args::within;
use crate::exit::CliError;
use crate::output::{self, Format, View, column, instant, less, moment, text, whole};

/// How often the host is asked for more.
const POLL: Duration = Duration::from_secs(1);
/// Events asked for each time while following: more than come in one second.
const FOLLOW_LIMIT: &str = "1000";

/// The audit trail.
#[derive(Debug, Subcommand)]
pub enum Audit {
    /// Latest events, oldest first
    #[command(visible_alias = "tail")]
    List(List),
}

/// Latest events.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  waybill audit list\n  waybill audit list --limit 500 -o jsonl\n  waybill audit list --id order-17\n  \
        waybill audit list --filter 'actor=ann kind=Message* since=2026-12-01'\n  \
        waybill audit list --kind 'Tx*' --tenant acme --since 2026-11-21T09:00:00Z\n  \
        waybill audit list --consumer ship --kind TxDead\n  waybill audit tail -f\n\n\
        Without a kind, an object or a consumer what people and hosts did is listed; events of messages and sagas (TxBegin, TxRetry, \
        TxDead, TxReplay), and of received messages (the same without TxBegin), are so many that they have to be asked for.\n\n\
        Conditions: actor, kind, object, consumer with = and * as a wildcard; since and until with an instant or a day; age with > or \
        <. --kind, --id, --consumer, --since and --until are conditions, too, and all hold."
)]
pub struct List {
    /// Most events, up to 1,000
    #[arg(long, default_value_t = 50, value_name = "N", value_parser = within(1_u16..=1_000))]
    pub limit: u16,
    /// Only this tenant
    #[arg(long)]
    pub tenant: Option<String>,
    /// Conditions: who (actor), what (kind), to what (object, consumer), when (since, until, age)
    #[arg(long, default_value = "", hide_default_value = true)]
    pub filter: String,
    /// What happened; * stands for anything
    #[arg(long, value_name = "KIND")]
    pub kind: Option<String>,
    /// What it happened to: a message, a received message, a saga, an operation, a name
    #[arg(long, value_name = "ID")]
    pub id: Option<String>,
    /// Whose received message or dead letter it happened to; * stands for anything
    #[arg(long, value_name = "NAME")]
    pub consumer: Option<String>,
    /// Not before this instant (RFC 3339) or day (UTC)
    #[arg(long, value_name = "INSTANT")]
    pub since: Option<String>,
    /// Before this instant or day
    #[arg(long, value_name = "INSTANT", conflicts_with = "follow")]
    pub until: Option<String>,
    /// Go on where an earlier list of the same lines ended; it told this
    #[arg(long, value_name = "CURSOR", allow_hyphen_values = true, conflicts_with = "follow")]
    pub cursor: Option<String>,
    /// Go on with what comes
    #[arg(short, long)]
    pub follow: bool,
    /// Exit with 3 when nothing is listed, for scripts
    #[arg(long, conflicts_with = "follow")]
    pub exit_code: bool,
}

impl List {
    /// What the host is asked for, but for how much.
    fn query(&self) -> Vec<(&'static str, &str)> {
        let given = [
            ("kind", &self.kind),
            ("id", &self.id),
            ("consumer", &self.consumer),
            ("since", &self.since),
            ("until", &self.until),
        ];
        let mut query = lists::tenant_query(self.tenant.as_deref());
        query.extend(given.into_iter().filter_map(|(name, value)| Some((name, value.as_deref()?))));
        query.extend(Some(("filter", self.filter.as_str())).filter(|(_, filter)| !filter.trim().is_empty()));
        query
    }
}

const VIEW: View<'_> = View {
    columns: &[
        moment("AT", |item| instant(item, "at")),
        whole("KIND", |item| text(item, "kind")),
        column("ACTOR", |item| text(item, "actor")),
        less(1, column("TENANT", |item| text(item, "tenant"))),
        whole("OBJECT", |item| text(item, "object")),
        column("DETAIL", |item| text(item, "detail")),
    ],
    id: |item| text(item, "object"),
    none: "nothing in the audit trail matches",
};

/// Writes the latest events, oldest first.
pub(super) async fn run(command: &Audit, context: &mut Context<'_>) -> Result<(), CliError> {
    let Audit::List(args) = command;
    let (limit, cursor) = (usize::from(args.limit), args.cursor.as_deref());
    let (mut items, more) = lists::fetch(context, &["v1", "audit"], &args.query(), limit, cursor).await?;
    items.reverse();
    output::list(context.term, context.format, &items, &VIEW)?;
    if args.follow {
        return follow(args, context, items).await;
    }
    if let More::Rest(Some(cursor)) | More::Unread(Some(cursor)) = more {
        context.term.say(&format!("there may be older ones: go on with --cursor {cursor}"));
    }
    CliError::for_nothing(items.is_empty(), args.exit_code)
}

/// The trail has no numbers, so what was shown is remembered by content, as far back as one question reaches.
async fn follow(args: &List, context: &mut Context<'_>, shown: Vec<Value>) -> Result<(), CliError> {
    let mut seen: BTreeSet<String> = shown.iter().map(Value::to_string).collect();
    let mut query = args.query();
    query.push(("limit", FOLLOW_LIMIT));
    let format = context.format.followed();
    let mut latest = shown.last().and_then(|item| item.get("at")).cloned();
    loop {
        tokio::time::sleep(POLL).await;
        let mut items = lists::whole(context, &["v1", "audit"], &query).await?;
        items.reverse();
        let now: BTreeSet<String> = items.iter().map(Value::to_string).collect();
        let after = latest.as_ref().map(Value::to_string);
        items.retain(|item| {
            let at = item.get("at").map(Value::to_string);
            !seen.contains(&item.to_string()) && at >= after
        });
        if let Some(last) = items.last() {
            latest = last.get("at").cloned();
            for item in &items {
                write_line(context, format, item)?;
            }
        }
        seen = now;
    }
}

fn write_line(context: &mut Context<'_>, format: Format, item: &Value) -> Result<(), CliError> {
    match format {
        Format::Table => {
            let cells: Vec<String> =
                ["kind", "actor", "tenant", "object", "detail"].map(|name| text(item, name)).into();
            context.term.line(&format!("{}  {}", instant(item, "at"), cells.join("  ")))?;
            context.term.out.flush().map_err(CliError::io("writing the result"))
        }
        format => output::list(context.term, format, std::slice::from_ref(item), &VIEW),
    }
}
