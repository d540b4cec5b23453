//! `waybill stream read`.

use clap::{ArgGroup, Args};
use serde_json::Value;

use super::rows;
use crate::args::ListArgs;
use crate::commands::{Context, lists, requests};
use crate::exit::CliError;
use crate::output::{self, number};

/// Most events of one page (`surface.md`).
const PAGE_MAX: usize = 1_000;

/// Which events, and how many.
#[derive(Debug, Args)]
#[command(group(ArgGroup::new("which").args(["name", "prefix", "resource"]).required(true)))]
#[command(after_help = "Examples:\n  \
    waybill stream read task.node.7\n  \
    waybill stream read task.node.7 --after 1200 --limit 10 -o jsonl\n  \
    waybill stream read --prefix task.node. --all -o jsonl\n  \
    waybill stream read --resource TASK/t-17\n\n\
    `waybill stream tail` goes on with what comes.")]
#[command(mut_arg("limit", |arg| arg.help("Most events listed")))]
pub struct Read {
    /// Name of the stream
    pub name: Option<String>,
    /// Of all streams whose names begin so; '' for all there are
    #[arg(long)]
    pub prefix: Option<String>,
    /// Of this resource, in whatever stream; of all of a type without /ID
    #[arg(long, value_name = "TYPE/ID")]
    pub resource: Option<String>,
    /// Those behind this number [default: from the earliest that is kept]
    #[arg(long, value_name = "SEQ", conflicts_with_all = ["prefix", "resource", "cursor"])]
    pub after: Option<String>,
    /// Their tenant [default: the token's only one, else default]
    #[arg(long)]
    pub tenant: Option<String>,
    #[command(flatten)]
    pub list: ListArgs,
}

/// Writes the events that are stored now.
pub(super) async fn run(args: &Read, context: &mut Context<'_>) -> Result<(), CliError> {
    let mut query = lists::tenant_query(args.tenant.as_deref());
    if let Some(name) = &args.name {
        return one(name, args, context).await;
    }
    if let Some(prefix) = &args.prefix {
        query.push(("prefix", prefix));
    }
    if let Some(resource) = &args.resource {
        let (resource_type, id) = match resource.split_once('/') {
            Some((resource_type, id)) => (resource_type, Some(id)),
            None => (resource.as_str(), None),
        };
        query.push(("resource_type", resource_type));
        query.extend(id.map(|id| ("resource_id", id)));
    }
    lists::show(context, &["v1", "events"], &query, &args.list, &rows::VIEW).await
}

/// A stream has numbers in place of cursors.
async fn one(name: &str, args: &Read, context: &mut Context<'_>) -> Result<(), CliError> {
    let tenant = args.tenant.as_deref();
    if args.list.cursor.is_some() {
        return Err(CliError::usage("a stream has no cursors but numbers", "give --after SEQ"));
    }
    let (bound, mut after, mut items) = (args.list.bound(), args.after.clone(), Vec::<Value>::new());
    let is_whole = loop {
        let limit = bound.saturating_sub(items.len()).clamp(1, PAGE_MAX).to_string();
        let mut query = lists::tenant_query(tenant);
        query.push(("limit", &limit));
        query.extend(after.as_deref().map(|after| ("after", after)));
        let answer = context.client.get(&["v1", "streams", name, "events"], &query).await;
        let answer = answer.map_err(|error| requests::with_tenant(error, tenant))?;
        items.extend_from_slice(answer.need("items", Value::as_array)?);
        after = Some(answer.need("next_after", Value::as_str)?.to_owned());
        let is_end = answer.need("end", Value::as_bool)?;
        if is_end || items.len() >= bound {
            break is_end && items.len() <= bound;
        }
    };
    items.truncate(bound);
    output::list(context.term, context.format, &items, &rows::VIEW)?;
    if let (false, Some(after)) = (is_whole, after) {
        let shown = number(items.len() as u64, "event is shown", "events are shown");
        context
            .term
            .say(&format!("only {shown}, there are more: raise --limit, or --all, or go on with --after {after}"));
    }
    Ok(())
}
