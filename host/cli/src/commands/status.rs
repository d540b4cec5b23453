//! `waybill status`: one screen.

use std::time::{Duration, Instant};

use clap::Args;
use serde_json::{Value, json};
use waybill_core::code::Code;

use super::plugin::served;
use super::{Context, lists, outbox, stream, transport};
use crate::client::ClientError;
use crate::exit::{CliError, Exit};
use crate::output::{self, Format, ago, counted_since, instant, number, scheduled_until, text, words};

/// One screen.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  waybill status\n  waybill status --url https://10.0.0.7:7070 --token-file ~/.waybill.token -o json"
)]
pub struct Status {}

/// How long rates are measured.
const SAMPLE: Duration = Duration::from_secs(1);
/// Counters that rates are made of, as `/metrics` names them.
const COUNTERS: [&str; 2] = ["tx_outbox_enqueued_total", "tx_outbox_dispatched_total"];

/// Writes the screen. Fails when the host isn't ready.
pub(super) async fn run(context: &mut Context<'_>) -> Result<(), CliError> {
    let ready = context.client.get_any(&["readyz"]).await?;
    let checks = ready.need("checks", Value::as_array)?.clone();
    let before = counters(context).await;
    let began = Instant::now();
    let sections = sections(context).await?;
    let rates = match before {
        Some(before) => {
            tokio::time::sleep(SAMPLE.saturating_sub(began.elapsed())).await;
            counters(context).await.map(|after| rates(before, after, began.elapsed()))
        }
        None => None,
    };
    let failed = checks.iter().filter(|check| text(check, "status") == "fail").count();
    match context.format {
        Format::Table => screen(context, &checks, rates, &sections)?,
        Format::Ids => context.term.line(context.client.url().to_owned().as_str())?,
        format => {
            let all = json!({
                "ready": ready.status == 200,
                "checks": checks,
                "per_second": rates.map(|[enqueued, delivered]| json!({ "enqueued": enqueued, "delivered": delivered })),
                "stats": sections.stats,
                "transports": sections.transports,
                "plugins": sections.plugins,
                "failed_plugins": sections.failed_plugins,
                "blocked": sections.blocked,
                "stuck_sagas": sections.stuck,
                "inbox": sections.inbox,
                "streams": sections.streams,
                "relays": sections.relays,
                "unknown": sections.unknown.iter().map(Unknown::document).collect::<Vec<Value>>(),
            });
            if format == Format::Json {
                output::json(context.term, &all)?
            } else {
                context.term.line(&all.to_string())?
            }
        }
    }
    match (ready.status, sections.unknown.len()) {
        (200, 0) => Ok(()),
        (200, parts) => Err(CliError::Untold { parts }),
        _ => Err(CliError::Checks { failed: failed.max(1), count: checks.len().max(1) }),
    }
}

/// What the screen is made of, beside readiness and rates. None = the host can't tell it now.
struct Sections {
    stats: Option<Vec<Value>>,
    transports: Option<Vec<Value>>,
    /// Of participants, handlers, sources and the retry policy.
    plugins: Option<Vec<Value>>,
    /// Candidates of plugins that failed, in a line each, as long as nothing better has taken over.
    failed_plugins: Option<Vec<String>>,
    blocked: Option<Vec<Value>>,
    stuck: Option<u64>,
    /// What waits in the inbox; null = the host has none.
    inbox: Option<Value>,
    /// How event streams do; null = the host has none, or is one of an earlier version.
    streams: Option<Value>,
    relays: Option<Vec<Value>>,
    unknown: Vec<Unknown>,
}

/// A part of the screen that the host can't tell now.
struct Unknown {
    part: &'static str,
    why: ClientError,
}

impl Unknown {
    /// Its line of the screen.
    fn row(&self) -> (String, String) {
        let why = match &self.why {
            ClientError::Refused(refusal) => {
                let why = if refusal.detail.is_empty() { &refusal.title } else { &refusal.detail };
                format!("{}: {why}", refusal.code)
            }
            ClientError::TimedOut { after, .. } => {
                format!("{}: no answer within {}", Code::CLIENT_TIMEOUT, humantime::format_duration(*after))
            }
            other => other.to_string(),
        };
        ("not known".to_owned(), format!("{}: {why}", self.part))
    }

    fn document(&self) -> Value {
        let (code, detail) = match &self.why {
            ClientError::Refused(refusal) => (refusal.code.as_str(), refusal.detail.as_str()),
            _ => (Code::CLIENT_TIMEOUT.as_str(), ""),
        };
        json!({ "part": self.part, "code": code, "detail": detail })
    }
}

/// Asks for all of them. One that a host in trouble can't tell leaves the others: that is when they are looked at.
async fn sections(context: &Context<'_>) -> Result<Sections, CliError> {
    let mut unknown = Vec::new();
    let stats = lists::whole(context, &["v1", "outbox", "stats"], &[]).await;
    let stats = known(&mut unknown, "messages", stats)?;
    let transports = known(&mut unknown, "transports", lists::whole(context, &["v1", "transports"], &[]).await)?;
    let mut plugins = known(&mut unknown, "plugins", lists::whole(context, &["v1", "plugins"], &[]).await)?;
    // Of all of them, before those of transports go, which stand with their transports.
    let failed_plugins = plugins.as_ref().map(|plugins| plugins.iter().filter_map(served::trouble).collect());
    plugins.iter_mut().for_each(|plugins| plugins.retain(|plugin| text(plugin, "transport").contains('.')));
    let blocked = lists::whole(context, &["v1", "outbox", "blocked"], &[]).await;
    let blocked = known(&mut unknown, "what is held back", blocked)?;
    let stuck = known(&mut unknown, "stuck sagas", stuck_sagas(context).await)?;
    let inbox = known(&mut unknown, "inbox", if_kept(context, &["v1", "inbox", "stats"]).await)?;
    let streams = known(&mut unknown, "streams", if_kept(context, &["v1", "events", "stats"]).await)?;
    let relays = match streams {
        Some(Value::Null) => Some(Vec::new()),
        _ => known(&mut unknown, "relays", lists::whole(context, &["v1", "relays"], &[]).await)?,
    };
    Ok(Sections { stats, transports, plugins, failed_plugins, blocked, stuck, inbox, streams, relays, unknown })
}

/// What was asked, if the host could tell it. That the asker may not see it, or that no host answers, ends the whole.
fn known<T>(unknown: &mut Vec<Unknown>, part: &'static str, asked: Result<T, CliError>) -> Result<Option<T>, CliError> {
    match asked {
        Ok(told) => Ok(Some(told)),
        Err(CliError::Client(why @ (ClientError::Refused(_) | ClientError::TimedOut { .. })))
            if why.exit() != Exit::NotAllowed =>
        {
            unknown.push(Unknown { part, why });
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

/// What a host says of something that not every host has; null = it hasn't.
async fn if_kept(context: &Context<'_>, path: &[&str]) -> Result<Value, CliError> {
    match context.client.get(path, &[]).await {
        Ok(answer) => Ok(answer.body),
        Err(ClientError::Refused(refusal))
            if matches!(Code::of(&refusal.code), Some(Code::PROVIDER_UNAVAILABLE | Code::HTTP_NOT_FOUND)) =>
        {
            Ok(Value::Null)
        }
        Err(error) => Err(error.into()),
    }
}

/// What waits in the inbox, in a line.
fn unprocessed(inbox: &Value) -> Option<String> {
    let contexts = inbox.get("contexts")?.as_array()?;
    let sum = |pointer: &str| contexts.iter().filter_map(|row| row.pointer(pointer)?.as_u64()).sum::<u64>();
    let mut parts = vec![format!("{} unprocessed", words(&json!({ "n": sum("/unprocessed/count") }), "n"))];
    // Texts of instants sort as the instants do.
    let oldest = contexts.iter().filter_map(|row| row.pointer("/unprocessed/oldest_at")?.as_str()).min();
    parts.extend(oldest.map(|oldest| format!("the oldest since {}", instant(&json!({ "at": oldest }), "at"))));
    for (pointer, one, many) in
        [("/unpublished/count", "row unpublished", "rows unpublished"), ("/failed", "row failed", "rows failed")]
    {
        parts.extend(Some(sum(pointer)).filter(|count| *count > 0).map(|count| number(count, one, many)));
    }
    Some(parts.join(", "))
}

/// How many sagas are stuck in a compensation.
async fn stuck_sagas(context: &Context<'_>) -> Result<u64, CliError> {
    let query = [("filter", "kind=saga"), ("count", "true"), ("limit", "1")];
    let answer = context.client.get(&["v1", "dead-letters"], &query).await?;
    answer.need("count", Value::as_u64).map_err(CliError::from)
}

fn screen(
    context: &mut Context<'_>,
    checks: &[Value],
    rates: Option<[f64; 2]>,
    sections: &Sections,
) -> Result<(), CliError> {
    let bad: Vec<&Value> = checks.iter().filter(|check| text(check, "status") != "ok").collect();
    let ready = !checks.iter().any(|check| text(check, "status") == "fail");
    let mut rows = vec![
        ("host".to_owned(), context.client.url().to_owned()),
        ("ready".to_owned(), if ready { "yes".into() } else { "no".into() }),
    ];
    for check in bad {
        rows.push((
            format!("  {}", text(check, "status")),
            format!("{}: {}", text(check, "name"), text(check, "detail")),
        ));
    }
    rows.extend(sections.unknown.iter().map(Unknown::row));
    if let Some([enqueued, delivered]) = rates {
        rows.push(("rates".to_owned(), format!("{enqueued:.0} enqueued/s, {delivered:.0} delivered/s")));
    }
    rows.extend(sections.stats.iter().flat_map(|stats| depths(stats)));
    rows.extend(sections.inbox.as_ref().and_then(unprocessed).map(|waits| ("inbox".to_owned(), waits)));
    let streams = sections.streams.as_ref().unwrap_or(&Value::Null);
    rows.extend(stream::health::rows(streams, sections.relays.as_deref().unwrap_or_default()));
    if let Some(stuck @ 1..) = sections.stuck {
        let found = format!("{} (waybill dead list --filter kind=saga)", words(&json!({ "n": stuck }), "n"));
        rows.push(("stuck sagas".to_owned(), found));
    }
    let failed_plugins = sections.failed_plugins.as_deref().unwrap_or_default();
    rows.extend(failed_plugins.iter().map(|failed| ("plugin".to_owned(), failed.clone())));
    output::pairs(context.term, rows)?;
    if let Some(transports @ [_, ..]) = sections.transports.as_deref() {
        context.term.line("")?;
        output::list(context.term, Format::Table, transports, &transport::VIEW)?;
    }
    if let Some(plugins @ [_, ..]) = sections.plugins.as_deref() {
        context.term.line("")?;
        output::list(context.term, Format::Table, plugins, &served::VIEW)?;
    }
    if let Some(blocked @ [_, ..]) = sections.blocked.as_deref() {
        context.term.line("")?;
        context.term.line(&format!("{} back messages:", number(blocked.len() as u64, "thing holds", "things hold")))?;
        output::list(context.term, Format::Table, &outbox::blocked::grouped(blocked), &outbox::blocked::VIEW)?;
    }
    Ok(())
}

/// How many messages wait, for how long, and how many died.
fn depths(stats: &[Value]) -> Vec<(String, String)> {
    let sum = |name: &str| stats.iter().filter_map(|row| row.get(name).and_then(Value::as_u64)).sum::<u64>();
    let waiting = json!({ "n": sum("ready") + sum("parked") });
    let at_least = if stats.iter().any(|row| scheduled_until(row).is_some()) { "at least " } else { "" };
    let waiting = format!(
        "{} ({} for a retry), {} being sent, {at_least}{} scheduled",
        words(&waiting, "n"),
        sum("parked"),
        sum("leased"),
        sum("scheduled")
    );
    let oldest = stats.iter().filter_map(|row| row.get("oldest_ready_ms").and_then(Value::as_u64)).max();
    let dead = words(&json!({ "n": sum("dead") }), "n");
    let dead = match stats.iter().find_map(counted_since) {
        Some(since) => format!("at least {dead}, counted back to {since}"),
        None => dead,
    };
    vec![
        ("waiting".to_owned(), waiting),
        ("oldest ready".to_owned(), ago(&json!({ "oldest": oldest }), "oldest")),
        ("dead letters".to_owned(), dead),
    ]
}

/// Sums of the counters; none when the credential may not see metrics.
async fn counters(context: &Context<'_>) -> Option<[f64; 2]> {
    let text = context.client.get_text(&["metrics"]).await.ok()?;
    Some(COUNTERS.map(|name| {
        text.lines()
            .filter(|line| line.strip_prefix(name).is_some_and(|rest| rest.starts_with(['{', ' '])))
            .filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok())
            .sum()
    }))
}

fn rates(before: [f64; 2], after: [f64; 2], took: Duration) -> [f64; 2] {
    let [enqueued, delivered] = before;
    let [enqueued_after, delivered_after] = after;
    [enqueued_after - enqueued, delivered_after - delivered].map(|count| (count / took.as_secs_f64()).max(0.0))
}
