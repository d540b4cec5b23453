//! The suite of handlers: one verdict a message, in order; repeats; payloads that make no sense.

use std::sync::Arc;

use bytes::Bytes;
use parking_lot::Mutex;
use serde_json::json;
use waybill_core::port::handler::{Handler, Inbound, Verdict as Fate, VerdictSink};
use waybill_core::port::transport::Fault;
use waybill_core::time::UnixMillis;
use waybill_sandbox::{LoadedPlugin, PluginSource, Sandbox, SandboxError, WasmHandler, World};

use crate::Options;
use crate::case::{Case, CaseInbound, Head};
use crate::endpoint::{call_failed, case_for, config_empty, outside, refused, spec};
use crate::limits::{BATCH_MAX, CALL_TIMEOUT, CALLS_MAX, CLOSE_TIMEOUT};
use crate::outside::Outside;
use crate::report::{Report, Verdict};
use crate::sample;
use crate::suite::{CaseResult, Suite, failed, not_run};

pub(crate) async fn run(sandbox: &Sandbox, source: &PluginSource, options: &Options) -> Result<Report, SandboxError> {
    let plugin = sandbox.load(source.clone(), World::Handler).await?;
    let mut suite = Suite::new(plugin.inspection(), &options.cases);
    let case = case_for(options, |case| !case.inbound.is_empty());
    config_empty(&mut suite, &plugin, opens_empty(&plugin, &case)).await;
    suite.check("opens", "it opens, and handles a message", opens(&plugin, &case)).await;
    if !options.smoke {
        let promise = "a batch of any size has exactly one verdict a message";
        suite.check("one-verdict-a-message", promise, one_each(&plugin, &case)).await;
        let promise = "a verdict that is told early is the one that is answered";
        suite.check("early-verdicts", promise, early(&plugin, &case)).await;
        let promise = "a message that comes again has the same verdict, or is known as a duplicate";
        suite.check("repeats", promise, repeats(&plugin, &case)).await;
        let promise = "payloads that make no sense have a verdict, and nothing breaks";
        suite.check("odd-payloads", promise, odd_payloads(&plugin, &case)).await;
        let promise = "as many calls at once as it says it can run all end well";
        suite.check("concurrent-calls", promise, concurrency(&plugin, &case)).await;
        suite
            .check("verdicts-in-order", "verdicts stand in the order of their messages", order(&plugin, options))
            .await;
    }
    for case in options.cases.iter().filter(|case| !case.inbound.is_empty()) {
        let name = format!("case: {}", case.head.name);
        suite.check(&name, "what the author expects", author(&plugin, case)).await;
    }
    Ok(suite.done())
}

async fn opens_empty(plugin: &LoadedPlugin, case: &Case) -> Result<(), SandboxError> {
    let empty = Case { head: Head { config: json!({}), ..case.head.clone() }, ..Case::default() };
    let spec = spec(plugin, &empty, "127.0.0.1:9");
    let (handler, opened) = WasmHandler::start_supervised(plugin.clone(), spec).await?;
    handler.close(CLOSE_TIMEOUT).await;
    opened
}

async fn start(plugin: &LoadedPlugin, case: &Case) -> Result<(Arc<WasmHandler>, Outside), Verdict> {
    let outside = outside(case).await?;
    let spec = spec(plugin, case, &outside.address());
    let (handler, opened) = WasmHandler::start_supervised(plugin.clone(), spec).await.map_err(refused)?;
    opened.map_err(refused)?;
    Ok((handler, outside))
}

/// A message of a case, with `number` telling it from the others.
fn inbound(template: &CaseInbound, number: usize) -> Inbound {
    Inbound {
        id: template.id.clone().unwrap_or_else(|| format!("suite-message-{number}")),
        consumer: "suite".to_owned(),
        source: "suite".to_owned(),
        tenant: "suite".to_owned(),
        topic: template.topic.clone().unwrap_or_else(|| "suite.messages".to_owned()),
        key: Some(template.key.clone().unwrap_or_else(|| format!("key-{number}"))),
        headers: template.headers.clone().into_iter().collect(),
        content_type: Some(template.content_type.clone().unwrap_or_else(|| "application/json".to_owned())),
        payload: Bytes::from(template.payload.clone().unwrap_or_else(|| format!("{{\"number\":{number}}}"))),
        event_type: template.event_type.clone(),
        event_version: template.event_version,
        envelope_id: None,
        correlation_id: None,
        causation_id: None,
        reply_to: None,
        occurred_at: None,
        received_at: UnixMillis(1_700_000_000_000),
        attempt: template.attempt.unwrap_or(1),
        maybe_handled: template.maybe_handled,
        attributes: Vec::new(),
    }
}

/// Messages of the case's kind, each with an id and key of its own.
fn batch(case: &Case, count: usize) -> Vec<Inbound> {
    let plain = [CaseInbound::default()];
    let templates = if case.inbound.is_empty() { plain.as_slice() } else { case.inbound.as_slice() };
    let fresh = |template: &CaseInbound| CaseInbound { id: None, key: None, ..template.clone() };
    templates
        .iter()
        .cycle()
        .take(count)
        .enumerate()
        .map(|(number, template)| inbound(&fresh(template), number))
        .collect()
}

/// Verdicts that were told before the answer, with their places.
#[derive(Default)]
struct Early(Mutex<Vec<(usize, Fate)>>);

impl VerdictSink for Early {
    fn settled(&self, index: usize, verdict: Fate) {
        self.0.lock().push((index, verdict));
    }
}

async fn verdicts(handler: &WasmHandler, batch: Vec<Inbound>) -> Result<Vec<Fate>, Verdict> {
    verdicts_and_early(handler, batch).await.map(|(fates, _)| fates)
}

async fn verdicts_and_early(
    handler: &WasmHandler,
    batch: Vec<Inbound>,
) -> Result<(Vec<Fate>, Vec<(usize, Fate)>), Verdict> {
    let early = Arc::new(Early::default());
    let sink = Arc::clone(&early) as Arc<dyn VerdictSink>;
    let fates = handler.handle(0, batch, CALL_TIMEOUT, sink).await.map_err(|error| call_failed(&error))?;
    let early = std::mem::take(&mut *early.0.lock());
    Ok((fates, early))
}

async fn opens(plugin: &LoadedPlugin, case: &Case) -> CaseResult {
    let (handler, _outside) = start(plugin, case).await?;
    let fates = verdicts(&handler, batch(case, 1)).await?;
    handler.close(CLOSE_TIMEOUT).await;
    Ok(fates.first().map(shown).unwrap_or_default())
}

async fn one_each(plugin: &LoadedPlugin, case: &Case) -> CaseResult {
    let (handler, _outside) = start(plugin, case).await?;
    let most = handler.limits().max_batch.clamp(1, BATCH_MAX) as usize;
    let mut sizes = vec![1, 2, 17, most];
    sizes.retain(|size| *size <= most);
    for size in &sizes {
        // A wrong number ends the call as a breach of the contract.
        verdicts(&handler, batch(case, *size)).await?;
    }
    handler.close(CLOSE_TIMEOUT).await;
    Ok(format!("batches of {sizes:?}"))
}

async fn early(plugin: &LoadedPlugin, case: &Case) -> CaseResult {
    let (handler, _outside) = start(plugin, case).await?;
    let most = handler.limits().max_batch.clamp(1, BATCH_MAX) as usize;
    let (fates, early) = verdicts_and_early(&handler, batch(case, most.min(17))).await?;
    handler.close(CLOSE_TIMEOUT).await;
    for (place, told) in &early {
        let Some(answered) = fates.get(*place) else { continue };
        if told != answered {
            return Err(failed(
                format!("message {}: told {}, answered {}", place + 1, shown(told), shown(answered)),
                "answer for each message the verdict that was told through `handling.settled`",
            ));
        }
    }
    Ok(format!("{} of {} told early", early.len(), fates.len()))
}

async fn repeats(plugin: &LoadedPlugin, case: &Case) -> CaseResult {
    let (handler, _outside) = start(plugin, case).await?;
    let first = batch(case, case.inbound.len().max(1));
    let again = first.iter().map(|message| Inbound { attempt: 2, maybe_handled: true, ..message.clone() }).collect();
    let (first, again) = (verdicts(&handler, first).await?, verdicts(&handler, again).await?);
    handler.close(CLOSE_TIMEOUT).await;
    for (first, again) in first.iter().zip(&again) {
        if word(first) != word(again) && word(again) != "duplicate" {
            return Err(failed(
                format!("{} at first, {} when it came again", shown(first), shown(again)),
                "a repeat is processed as before, or `duplicate` by the handler's own records",
            ));
        }
    }
    Ok(format!("{} messages, twice each", first.len()))
}

async fn odd_payloads(plugin: &LoadedPlugin, case: &Case) -> CaseResult {
    let (handler, _outside) = start(plugin, case).await?;
    let mut seen = Vec::new();
    let every_byte: Vec<u8> = (0..=255).collect();
    for payload in [Vec::new(), b"null".to_vec(), b"[]".to_vec(), every_byte, vec![b'['; 500], vec![b'x'; 500_000]] {
        let message = batch(case, 1).into_iter().map(|message| Inbound { payload: payload.clone().into(), ..message });
        seen.extend(verdicts(&handler, message.collect()).await?.iter().map(word));
    }
    handler.close(CLOSE_TIMEOUT).await;
    Ok(seen.join(", "))
}

async fn concurrency(plugin: &LoadedPlugin, case: &Case) -> CaseResult {
    let (handler, _outside) = start(plugin, case).await?;
    let calls = handler.limits().calls_per_lane.clamp(1, CALLS_MAX);
    let sends = (0..calls).map(|_| verdicts(&handler, batch(case, 3)));
    for fates in futures::future::join_all(sends).await {
        fates?;
    }
    handler.close(CLOSE_TIMEOUT).await;
    Ok(format!("{calls} at once"))
}

async fn order(plugin: &LoadedPlugin, options: &Options) -> CaseResult {
    let different = options.cases.iter().find(|case| {
        let mut words = case.inbound.iter().map(|message| &message.expect);
        let first = words.next();
        words.any(|word| Some(word) != first)
    });
    let Some(case) = different else {
        return Err(not_run("no case expects different verdicts in one batch: add one to tests/"));
    };
    let mut backwards = case.clone();
    backwards.inbound.reverse();
    author(plugin, &backwards).await.map(|seen| format!("backwards: {seen}"))
}

async fn author(plugin: &LoadedPlugin, case: &Case) -> CaseResult {
    let (handler, _outside) = start(plugin, case).await?;
    let batch = case.inbound.iter().enumerate().map(|(number, message)| inbound(message, number)).collect();
    let fates = verdicts(&handler, batch).await?;
    handler.close(CLOSE_TIMEOUT).await;
    for ((number, expected), fate) in (1..).zip(&case.inbound).zip(&fates) {
        let (messages, signals) = match fate {
            Fate::Processed(handled) => (handled.messages.len(), handled.signals.len()),
            _ => (0, 0),
        };
        let code = fault_of(fate).map(|fault| &fault.code);
        let fits = expected.expect == word(fate)
            && expected.messages.is_none_or(|wanted| wanted == messages)
            && expected.signals.is_none_or(|wanted| wanted == signals)
            && expected.code.as_ref().is_none_or(|wanted| code == Some(wanted));
        if !fits {
            let code = expected.code.as_deref().map(|code| format!(" with code {code}")).unwrap_or_default();
            let wanted = |count: Option<usize>, what: &str| count.map(|count| format!(" leaving {count} {what}"));
            let messages_wanted = wanted(expected.messages, "messages").unwrap_or_default();
            let signals_wanted = wanted(expected.signals, "signals").unwrap_or_default();
            return Err(failed(
                format!(
                    "message {number}: expected {}{code}{messages_wanted}{signals_wanted}, was {} leaving {messages} messages and {signals} signals",
                    expected.expect,
                    shown(fate)
                ),
                "correct the plugin, or the case if it expects the wrong thing",
            ));
        }
    }
    Ok(fates.iter().map(word).collect::<Vec<_>>().join(", "))
}

fn word(fate: &Fate) -> &'static str {
    match fate {
        Fate::Processed(_) => "processed",
        Fate::Duplicate => "duplicate",
        Fate::Poison(_) => "poison",
        Fate::Retry(_) => "retry",
        Fate::Busy(_) => "busy",
        Fate::Blocked { .. } => "blocked",
    }
}

fn fault_of(fate: &Fate) -> Option<&Fault> {
    match fate {
        Fate::Processed(_) | Fate::Duplicate => None,
        Fate::Poison(fault) | Fate::Retry(fault) | Fate::Busy(fault) | Fate::Blocked { fault, .. } => Some(fault),
    }
}

fn shown(fate: &Fate) -> String {
    match fault_of(fate) {
        None => word(fate).to_owned(),
        Some(fault) => format!("{} ({})", word(fate), sample::describe(fault)),
    }
}
