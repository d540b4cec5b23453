//! Batches of events appended to streams that are taken in turn: what Waybill's event streams are measured against.

use std::collections::VecDeque;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow};
use async_nats::{Subject, jetstream};
use bytes::Bytes;
use redis::{Client, Pipeline};

use crate::{PAYLOAD, Run, cpu};

/// What batches there are.
#[derive(Clone, Copy)]
pub struct Shape {
    /// Batches that aren't acknowledged.
    pub under_way: usize,
    /// Events of a batch, all for one stream.
    pub size: u64,
    pub streams: u64,
}

/// The `redis` crate: a connection for each batch under way, a batch in one pipeline, ids that the server numbers in each stream.
pub fn redis(url: &str, messages: u64, shape: Shape) -> Result<Run> {
    let client = Client::open(url).context("reading the URL")?;
    let (began, before) = (Instant::now(), cpu()?);
    let acknowledged = thread::scope(|scope| {
        let connections = 0..shape.under_way as u64;
        let client = &client;
        let appending: Vec<_> =
            connections.map(|first| scope.spawn(move || append_each(client, messages, shape, first))).collect();
        appending
            .into_iter()
            .map(|thread| thread.join().map_err(|_| anyhow!("a connection's thread died"))?)
            .sum::<Result<u64>>()
    })?;
    Ok(Run { acknowledged, took: began.elapsed(), cpu: cpu()?.saturating_sub(before) })
}

fn append_each(client: &Client, messages: u64, shape: Shape, first: u64) -> Result<u64> {
    let mut connection = client.get_connection().context("connecting")?;
    let (payload, mut acknowledged) = (vec![b'x'; PAYLOAD], 0);
    for batch in (first..messages / shape.size).step_by(shape.under_way) {
        let stream = format!("events:{}", batch % shape.streams);
        let mut pipeline = Pipeline::new();
        for _ in 0..shape.size {
            pipeline.cmd("XADD").arg(stream.as_str()).arg("0-*").arg("event").arg(payload.as_slice());
        }
        let entries: Vec<String> = pipeline.query(&mut connection).context("adding")?;
        acknowledged += entries.len() as u64;
    }
    Ok(acknowledged)
}

/// async-nats on one connection; each event is a message of its own, and a stream is a subject.
pub async fn nats(url: &str, messages: u64, shape: Shape) -> Result<Run> {
    let client = async_nats::connect(url).await.context("connecting")?;
    let mut context = jetstream::new(client);
    context.set_timeout(Duration::from_secs(30));
    let subjects: Vec<Subject> = (0..shape.streams).map(|stream| Subject::from(format!("events.{stream}"))).collect();
    let (payload, window) = (Bytes::from(vec![b'x'; PAYLOAD]), shape.under_way * usize::try_from(shape.size)?);
    let mut pending = VecDeque::with_capacity(window);
    let (began, before, mut acknowledged) = (Instant::now(), cpu()?, 0);
    for number in 0..messages {
        if pending.len() >= window
            && let Some(oldest) = pending.pop_front()
        {
            acknowledged += u64::from(settled(oldest).await);
        }
        let stream = usize::try_from(number / shape.size % shape.streams)?;
        let subject = subjects.get(stream).cloned().context("there are no streams")?;
        pending.push_back(context.publish(subject, payload.clone()).await?);
    }
    for sent in pending {
        acknowledged += u64::from(settled(sent).await);
    }
    Ok(Run { acknowledged, took: began.elapsed(), cpu: cpu()?.saturating_sub(before) })
}

async fn settled(sent: jetstream::context::PublishAckFuture) -> bool {
    sent.await.is_ok()
}
