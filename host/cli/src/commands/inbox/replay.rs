//! `waybill inbox replay`.

use clap::{ArgGroup, Args};

use super::rows;
use crate::commands::Context;
use crate::commands::bulk::{self, Bulk};
use crate::commands::dead::acts::{self, DeadLetterAct, Kind, Letters, Set};
use crate::commands::selection::Selection;
use crate::exit::CliError;

/// Put back.
#[derive(Debug, Args)]
#[group(skip)]
#[command(group(ArgGroup::new("which").args(["ids", "filter", "all"]).required(true)))]
#[command(after_help = "Examples:\n  \
    waybill inbox replay inbox-3-1047\n  \
    waybill inbox replay --filter 'consumer=ship code=HTTP.422' --dry-run\n  \
    waybill inbox replay --filter 'consumer=ship' --rate 20 --reason 'ship is mended' --yes\n  \
    waybill dead list --filter 'kind=inbox age<1h' -o ids | waybill inbox replay -\n  \
    waybill inbox replay --table shop 17 18\n  \
    waybill inbox replay --table shop --all --dry-run\n\n\
    A replayed message is handled again by the consumer that gave it up, with no attempts, behind what waits of its key. By filter \
    the host does it as an operation. Rows wait again in their table, which is safe to repeat.")]
pub struct Replay {
    /// Dead letters, or rows with --table; `-` reads them from stdin, one a line
    #[arg(value_name = "ID")]
    pub ids: Vec<String>,
    /// All dead letters of the inbox that match; '' for all there are
    #[arg(long, conflicts_with = "table")]
    pub filter: Option<String>,
    /// Tenant of the ids [default: the token's only one, else default]
    #[arg(long, conflicts_with = "table")]
    pub tenant: Option<String>,
    /// Rows of this source's table instead
    #[arg(long, value_name = "SOURCE")]
    pub table: Option<String>,
    /// All rows that stand failed
    #[arg(long, requires = "table")]
    pub all: bool,
    /// With `-`: those that are quarantined too
    #[arg(long, conflicts_with_all = ["filter", "table"])]
    pub quarantined: bool,
    #[command(flatten)]
    pub bulk: Bulk,
}

/// Puts them back.
pub(super) async fn run(args: &Replay, context: &mut Context<'_>) -> Result<(), CliError> {
    if let Some(source) = &args.table {
        return rows::replay(source, args, context).await;
    }
    let act = DeadLetterAct {
        kind: "replay",
        verb: "replay",
        done: "replayed",
        text: args.bulk.reason.clone().unwrap_or_default(),
        mode: None,
        spares_quarantined: !args.quarantined,
        set: Set::default(),
        trial: None,
    };
    let filter = args.filter.as_ref().map(|filter| format!("{} kind=inbox", bulk::whole(filter)));
    let selection = Selection { ids: args.ids.clone(), filter, tenant: args.tenant.clone() };
    acts::run(&act, &Letters { selection, kind: Some(Kind::Inbox) }, &args.bulk, context).await
}
