//! Committing orders: each in one transaction with its business row, several at once, and one customer's in their order.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::Instant;

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};
use tokio::task::JoinSet;
use waybill_testkit::api::{Api, NoReply};

use super::orders::Order;
use super::result::Bars;

pub const TABLE: &str = "orders";
const WORKERS: usize = 16;

/// What the host acknowledged.
#[derive(Clone, Debug)]
pub struct Committed {
    /// When the request was begun.
    pub begun: Instant,
    /// Id of the message.
    pub message: String,
}

/// Commits all; answers by the order's id. The first refusal ends it.
pub async fn all(api: &Api, orders: &[Order], topic: &str, bars: &Bars) -> Result<HashMap<String, Committed>> {
    let mut lanes: Vec<Vec<Order>> = vec![Vec::new(); WORKERS];
    for (order, number) in orders.iter().zip(0..) {
        // One customer's orders go one after the other, or nobody could say in which order they were committed.
        let number = order.key.as_deref().map_or(number, hash);
        if let Some(lane) = usize::try_from(number % WORKERS as u64).ok().and_then(|lane| lanes.get_mut(lane)) {
            lane.push(order.clone());
        }
    }
    let mut workers = JoinSet::new();
    for lane in lanes {
        workers.spawn(one_lane(api.clone(), lane, topic.to_owned(), bars.clone()));
    }
    let mut committed = HashMap::new();
    while let Some(lane) = workers.join_next().await {
        committed.extend(lane.context("a worker of the demo died")??);
    }
    Ok(committed)
}

fn hash(key: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    key.hash(&mut hasher);
    hasher.finish()
}

async fn one_lane(api: Api, orders: Vec<Order>, topic: String, bars: Bars) -> Result<Vec<(String, Committed)>> {
    let mut committed = Vec::new();
    for order in orders {
        let begun = Instant::now();
        let message =
            one(&api, &order, &topic).await.with_context(|| format!("line {}, order {}", order.line, order.id))?;
        bars.committed();
        committed.push((order.id, Committed { begun, message }));
    }
    Ok(committed)
}

/// Row and message, both or neither.
async fn one(api: &Api, order: &Order, topic: &str) -> Result<String> {
    let mut message = json!({ "topic": topic, "payload": order.body, "event_type": "order.placed" });
    if let (Some(key), Some(fields)) = (&order.key, message.as_object_mut()) {
        fields.insert("key".into(), json!(key));
    }
    let body = json!({
        "statements": [{ "query": format!("CREATE {TABLE} CONTENT $order"), "bindings": { "order": order.body } }],
        "messages": [message],
    });
    let reply = match api.post("/v1/transactions", &body).await {
        Ok(reply) => reply,
        Err(NoReply::NotSent(cause) | NoReply::Unknown(cause)) => bail!("the host didn't answer: {cause}"),
    };
    if !reply.is_ok() {
        bail!("the host refused it with {}: {}", reply.status, reply.body);
    }
    let id = reply.body.pointer("/ids/0").and_then(Value::as_str);
    id.map(str::to_owned).with_context(|| format!("the host answered without an id: {}", reply.body))
}
