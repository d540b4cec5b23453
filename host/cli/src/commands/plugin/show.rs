//! `waybill plugin show`.

use clap::Args;
use serde_json::Value;
use waybill_api::plugin_outcomes::{GenerationOutcomes, PluginShown};
use waybill_api::plugins::{Generation, TransportPlugin};

use super::served;
use crate::commands::Context;
use crate::exit::CliError;
use crate::output::{self, Head, number, safe, short_digest, size};

/// Which plugin of a host.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  waybill plugin show orders\n  waybill plugin show participant.shop\n  waybill plugin show orders -o json      the latest 8 generations\n\n\
        What each generation did is counted since this host was started: a new version stands beside the one before."
)]
pub struct Show {
    /// Transport, handler.CONSUMER, participant.NAME, source.NAME or outbox.backoff
    pub name: String,
}

/// Writes what serves, and how it does beside the one before.
pub(super) async fn run(args: &Show, context: &mut Context<'_>) -> Result<(), CliError> {
    let answer = context.client.get(&["v1", "plugins", &args.name], &[]).await?;
    let read = |_: &Value| serde_json::from_str::<PluginShown>(&answer.text).ok();
    let shown = answer.need("plugin", read)?;
    let item = answer.body.get("plugin").cloned().unwrap_or_default();
    output::answer(context.term, context.format, &answer.text, &safe(&shown.plugin.transport), |term| {
        output::list(term, output::Format::Table, std::slice::from_ref(&item), &served::VIEW)?;
        if let Some(trouble) = served::trouble(&item) {
            term.say(&trouble);
        }
        if shown.outcomes.is_empty() {
            return Ok(());
        }
        term.line("")?;
        output::table(term, &[Head::whole("SINCE IT SERVES"), Head::cut("NOW"), Head::cut("BEFORE")], &rows(&shown))
    })
}

/// A line a measure, with the latest generation and the one before.
fn rows(shown: &PluginShown) -> Vec<Vec<String>> {
    let (now, before) = (shown.outcomes.first(), shown.outcomes.get(1));
    let of = |outcomes: Option<&GenerationOutcomes>, cell: &dyn Fn(&GenerationOutcomes) -> String| {
        outcomes.map_or_else(|| "-".to_owned(), cell)
    };
    let row = |name: &str, cell: &dyn Fn(&GenerationOutcomes) -> String| {
        vec![name.to_owned(), of(now, cell), of(before, cell)]
    };
    let generation = |outcomes: &GenerationOutcomes| find(&shown.plugin, outcomes.generation);
    let told = |outcomes: &GenerationOutcomes, tell: fn(&Generation) -> String| {
        generation(outcomes).map_or_else(|| "-".to_owned(), tell)
    };
    let took = |outcomes: &GenerationOutcomes, which: fn(&waybill_api::plugin_outcomes::CallTimes) -> u64| {
        outcomes.took.as_ref().map_or_else(|| "-".to_owned(), |took| time(which(took)))
    };
    vec![
        row("generation", &|outcomes| outcomes.generation.to_string()),
        row("version", &|outcomes| told(outcomes, |known| known.version.as_deref().map_or("-".into(), safe))),
        row("digest", &|outcomes| told(outcomes, |known| short_digest(&safe(&known.digest)))),
        row("since", &|outcomes| told(outcomes, |known| known.since.0.to_string())),
        row("until", &|outcomes| told(outcomes, |known| known.until.map_or("-".into(), |until| until.0.to_string()))),
        row("delivered", &|outcomes| count(outcomes.delivered)),
        row("refused", &|outcomes| count(outcomes.refused)),
        row("tried again", &|outcomes| count(outcomes.retried)),
        row("held back", &|outcomes| count(outcomes.held)),
        row("calls", &|outcomes| count(outcomes.calls)),
        row("failed calls", &|outcomes| count(outcomes.failed_calls)),
        row("lost instances", &|outcomes| count(outcomes.traps)),
        row("a call took", &|outcomes| took(outcomes, |took| took.mean_us)),
        row("half of them", &|outcomes| took(outcomes, |took| took.p50_us)),
        row("95 of 100", &|outcomes| took(outcomes, |took| took.p95_us)),
        row("99 of 100", &|outcomes| took(outcomes, |took| took.p99_us)),
        row("memory at most", &|outcomes| size(outcomes.memory_peak_bytes)),
    ]
}

fn find(plugin: &TransportPlugin, number: u32) -> Option<&Generation> {
    let known = plugin.history.iter().chain(&plugin.previous).chain(std::iter::once(&plugin.live));
    known.into_iter().find(|known| known.generation == number)
}

/// A count with separators, without its noun.
fn count(count: u64) -> String {
    number(count, "", "").trim_end().to_owned()
}

/// Three digits or so, and a unit.
fn time(us: u64) -> String {
    match us {
        0..1_000 => format!("{us} us"),
        1_000..10_000 => format!("{}.{} ms", us / 1_000, us % 1_000 / 100),
        10_000..10_000_000 => format!("{} ms", us / 1_000),
        _ => format!("{} s", us / 1_000_000),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_short() {
        let told: Vec<String> = [7, 1_250, 45_678, 12_000_000].into_iter().map(time).collect();
        assert_eq!(told, ["7 us", "1.2 ms", "45 ms", "12 s"]);
    }
}
