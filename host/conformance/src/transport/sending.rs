//! Outcomes, ids, payloads, headers, concurrency, memory.

use waybill_core::annotation::Annotation;
use waybill_core::endpoint::{MEMORY_BYTES_DEFAULT, MEMORY_BYTES_UNGRANTED_MAX};
use waybill_core::message::{Delivery, Message};
use waybill_core::port::transport::{Outcome, Transport};

use super::bench::{Bench, Running, delivered, outcomes, shown};
use crate::limits::{
    BATCH_MAX, CALLS_MAX, LARGE_PAYLOAD_BYTES, MEMORY_BATCH, MEMORY_PAYLOAD_BYTES, RUN_FIRST, RUN_MAX,
};
use crate::report::Verdict;
use crate::sample::{with_key, with_payload};
use crate::suite::{Suite, failed, not_applicable};

pub(super) async fn all(suite: &mut Suite, bench: &Bench) {
    one_outcome_each(suite, bench).await;
    ids(suite, bench).await;
    odd_payloads(suite, bench).await;
    large_payload(suite, bench).await;
    headers(suite, bench).await;
    concurrency(suite, bench).await;
    memory(suite, bench).await;
}

async fn one_outcome_each(suite: &mut Suite, bench: &Bench) {
    suite
        .check("one-outcome-a-message", "a batch of any size has exactly one outcome a message", async {
            let running = bench.start().await?;
            let most = running.transport.limits().max_batch.clamp(1, BATCH_MAX) as usize;
            let mut first = 1;
            let mut sizes = vec![1, 2, 17, most];
            sizes.retain(|size| *size <= most);
            for size in &sizes {
                delivered(&running.transport, bench.batch(&running.outside, first, *size)?).await?;
                first += *size as u64;
            }
            Ok(format!("batches of {sizes:?}"))
        })
        .await;
}

async fn ids(suite: &mut Suite, bench: &Bench) {
    let promise = "a message's id goes to the peer, the same at every attempt";
    suite
        .check("ids-kept", promise, async {
            let running = bench.start().await?;
            let batch = bench.batch(&running.outside, 1, bench.case.messages.len() + 1)?;
            let ids: Vec<String> = batch.iter().map(|delivery| delivery.message.id.to_string()).collect();
            delivered(&running.transport, batch.clone()).await?;
            if running.outside.switch.connections() == 0 {
                return Err(not_applicable("it never talked to the peer"));
            }
            all_written(&running, &ids)?;
            running.outside.switch.forget();
            let again = batch.into_iter().map(|delivery| Delivery { attempt: 2, ..delivery }).collect();
            delivered(&running.transport, again).await?;
            all_written(&running, &ids)?;
            Ok(format!("{} ids seen on the wire, twice", ids.len()))
        })
        .await;
}

fn all_written(running: &Running, ids: &[String]) -> Result<(), Verdict> {
    for id in ids {
        match running.outside.switch.times_written(id) {
            None => return Err(not_applicable("what it writes can't be read here (TLS, or too much)")),
            Some(0) => {
                return Err(failed(
                    format!("the id {id} wasn't written to the peer"),
                    "pass `message.id` on, so that a receiver can tell a repeat; if the protocol has no place for it, say so in a case: [case.not_applicable] ids-kept = \"why\"",
                ));
            }
            Some(_) => {}
        }
    }
    Ok(())
}

async fn odd_payloads(suite: &mut Suite, bench: &Bench) {
    let promise = "empty and binary payloads are delivered, or refused for good";
    suite
        .check("odd-payloads", promise, async {
            let running = bench.start().await?;
            let every_byte: Vec<u8> = (0..=255).collect();
            let mut seen = Vec::new();
            for (number, payload) in
                (1..).zip([Vec::new(), every_byte, b"\r\n.\r\n\0\xff\xfe".to_vec(), "\u{1f4e6} \u{fc}".into()])
            {
                seen.push(settled_for_good(bench, &running, number, payload).await?);
            }
            Ok(seen.join(", "))
        })
        .await;
}

async fn large_payload(suite: &mut Suite, bench: &Bench) {
    let promise = "the largest payload it says it takes is delivered, or refused for good";
    suite
        .check("large-payload", promise, async {
            let running = bench.start().await?;
            let most = running.transport.limits().max_payload_bytes.map_or(LARGE_PAYLOAD_BYTES, |bytes| bytes as usize);
            let size = most.min(LARGE_PAYLOAD_BYTES);
            let ended = settled_for_good(bench, &running, 1, vec![b'x'; size]).await?;
            Ok(format!("{size} bytes: {ended}"))
        })
        .await;
}

/// Sends one message with a payload; it must be delivered or refused for good.
async fn settled_for_good(
    bench: &Bench,
    running: &Running,
    number: u64,
    payload: Vec<u8>,
) -> Result<&'static str, Verdict> {
    let size = payload.len();
    let batch = bench.batch(&running.outside, number, 1)?;
    let batch = batch.into_iter().map(|delivery| with_payload(delivery, payload.clone())).collect();
    let Some(outcome) = outcomes(&running.transport, batch).await?.into_iter().next() else { return Ok("nothing") };
    if !matches!(outcome, Outcome::Ack(_) | Outcome::Permanent(_)) {
        return Err(failed(
            format!("a payload of {size} bytes ended as {}, which sends it again", shown(&outcome)),
            "answer `permanent` for what the receiver can never take",
        ));
    }
    Ok(super::bench::word(&outcome))
}

async fn headers(suite: &mut Suite, bench: &Bench) {
    let promise = "headers and attributes it doesn't know do no harm";
    suite
        .check("unknown-headers", promise, async {
            let running = bench.start().await?;
            let batch = bench.batch(&running.outside, 1, 1)?.into_iter().map(with_odd_headers).collect();
            for outcome in outcomes(&running.transport, batch).await? {
                if !matches!(outcome, Outcome::Ack(_) | Outcome::Permanent(_)) {
                    return Err(failed(
                        format!("a message with unknown headers ended as {}", shown(&outcome)),
                        "pass headers on, or leave out what the receiver can't take",
                    ));
                }
            }
            Ok("25 headers, some twice, some empty, some not ASCII".to_owned())
        })
        .await;
}

fn with_odd_headers(mut delivery: Delivery) -> Delivery {
    let mut message = Message::clone(&delivery.message);
    let many = (0..20).map(|number| (format!("x-suite-{number}"), "v".repeat(number * 10)));
    message.headers.extend(many);
    for (name, value) in [
        ("X-Suite-Twice", "1"),
        ("x-suite-twice", "2"),
        ("x-suite-token-bin", "AAECAw"),
        ("x-suite-text", "gr\u{fc}n"),
        ("x-suite-empty", ""),
    ] {
        message.headers.push((name.to_owned(), value.to_owned()));
    }
    message.annotations.set(Annotation::AggregateType, Some("suite"));
    message.annotations.set(Annotation::AggregateId, Some("\u{1f4e6}"));
    delivery.message = std::sync::Arc::new(message);
    delivery
}

pub(super) async fn key_runs(suite: &mut Suite, bench: &Bench) {
    let promise = "several messages of one key in a batch are taken, in their order";
    suite
        .check("key-runs", promise, async {
            let running = bench.start().await?;
            let count = running.transport.limits().max_batch.clamp(1, RUN_MAX) as usize;
            let key = Bench::one_key()?;
            let batch = bench.batch(&running.outside, RUN_FIRST, count)?;
            let batch: Vec<Delivery> = batch.into_iter().map(|delivery| with_key(delivery, &key)).collect();
            let ids: Vec<String> = batch.iter().map(|delivery| delivery.message.id.to_string()).collect();
            delivered(&running.transport, batch).await?;
            let places: Vec<usize> = ids.iter().filter_map(|id| running.outside.switch.first_written(id)).collect();
            if !places.is_sorted() {
                return Err(failed(
                    "messages of one key were written in another order than that of the batch",
                    "send each when the one of its key before it is acknowledged, or don't name `key-runs`",
                ));
            }
            Ok(format!("{count} of one key, {} of them seen on the wire", places.len()))
        })
        .await;
}

async fn concurrency(suite: &mut Suite, bench: &Bench) {
    let promise = "as many calls at once as it says it can run all end well";
    suite
        .check("concurrent-calls", promise, async {
            let running = bench.start().await?;
            let calls = running.transport.limits().calls_per_lane.clamp(1, CALLS_MAX);
            let mut sends = Vec::new();
            for call in 0..calls {
                let batch = bench.batch(&running.outside, u64::from(call) * 10 + 1, 3)?;
                sends.push(delivered(&running.transport, batch));
            }
            for sent in futures::future::join_all(sends).await {
                sent?;
            }
            Ok(format!("{calls} at once"))
        })
        .await;
}

async fn memory(suite: &mut Suite, bench: &Bench) {
    let promise = "it keeps nothing of what it has sent: more passes through than its memory holds";
    suite
        .check("memory", promise, async {
            let asked = bench.plugin.manifest().ask.limits.memory_bytes.unwrap_or(MEMORY_BYTES_DEFAULT);
            let memory = asked.min(MEMORY_BYTES_UNGRANTED_MAX);
            let running = bench.start().await?;
            let most = running.transport.limits().max_payload_bytes.map_or(usize::MAX, |bytes| bytes as usize);
            let payload = vec![b'x'; MEMORY_PAYLOAD_BYTES.min(most)];
            let mut sent = 0;
            let mut first = 1;
            while sent < memory + memory / 2 {
                let batch = bench.batch(&running.outside, first, MEMORY_BATCH)?;
                let batch = batch.into_iter().map(|delivery| with_payload(delivery, payload.clone())).collect();
                let answers = outcomes(&running.transport, batch).await.map_err(|verdict| after(sent, verdict))?;
                first += answers.len() as u64;
                sent += payload.len() * answers.len().max(1);
            }
            Ok(format!("{} MiB through {} MiB", sent >> 20, memory >> 20))
        })
        .await;
}

/// A failure with how much had passed before it.
fn after(bytes: usize, verdict: Verdict) -> Verdict {
    match verdict {
        Verdict::Failed { reason, fix } if reason.contains("MEMORY") || reason.contains("memory") => failed(
            format!("after {} MiB: {reason}", bytes >> 20),
            format!("keep nothing of a message after its outcome; {fix}"),
        ),
        other => other,
    }
}
