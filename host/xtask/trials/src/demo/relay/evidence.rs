//! What is read from outside at the end: the tables, the stream, the handler's own account, and what the inbox says of each id.

use std::collections::BTreeMap;

use anyhow::{Context, Result};
use serde::Deserialize;
use waybill_testkit::nats::Stored;

use super::stage::Kill;

/// A row of an outbox table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    pub id: i64,
    pub status: String,
    pub order: Order,
}

/// An order, as rows, messages and bills tell it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
pub struct Order {
    pub customer: String,
    /// The customer's first, second, ... order.
    pub number: u32,
    #[serde(rename = "order", alias = "order_id")]
    pub id: String,
}

impl Row {
    /// From id, status, customer, number and order, as text.
    pub fn read(columns: &[String]) -> Result<Self> {
        let [id, status, customer, number, order] = columns else { anyhow::bail!("a row has {columns:?}") };
        let order =
            Order { customer: customer.clone(), number: number.parse().context("a row's number")?, id: order.clone() };
        Ok(Self { id: id.parse().context("a row's id")?, status: status.clone(), order })
    }
}

/// What `billing.py` tells of itself.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct Report {
    /// In the order in which they came.
    pub calls: Vec<Call>,
    pub bills: Vec<Order>,
}

/// A call of the handler, or of the webhook.
#[derive(Clone, Debug, Deserialize)]
pub struct Call {
    pub path: String,
    pub key: String,
    pub id: String,
    /// 1 where the host says that a handler may have had it before.
    pub maybe_handled: u8,
    /// When it came, by the wall clock in milliseconds.
    pub at_ms: i64,
    /// What it was answered; none if the program died in it.
    pub status: Option<u16>,
    pub body: String,
}

impl Call {
    pub fn is_accepted(&self) -> bool {
        self.status.is_some_and(|status| (200..300).contains(&status) || status == 409)
    }

    /// The order that was posted: in the document's JSON, or as it is.
    pub fn order(&self) -> Option<Order> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Body {
            Document { payload: Order },
            Alone(Order),
        }
        match serde_json::from_str(&self.body).ok()? {
            Body::Document { payload } => Some(payload),
            Body::Alone(order) => Some(order),
        }
    }
}

/// What the inbox says of an id.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct Status {
    pub seen: bool,
    #[serde(default)]
    pub ended: Vec<End>,
}

/// An entry of the history that the inbox keeps.
#[derive(Clone, Debug, Deserialize)]
pub struct End {
    /// `processed`, `duplicate` or `dead`.
    pub end: String,
}

/// All that was seen.
#[derive(Clone, Debug, Default)]
pub struct Evidence {
    /// Ids of the shop's orders.
    pub orders: Vec<String>,
    /// Rows for NATS, by id.
    pub events: Vec<Row>,
    /// Rows for the webhook, by id.
    pub webhooks: Vec<Row>,
    /// The stream as a foreign client reads it.
    pub stream: Vec<Stored>,
    pub report: Report,
    /// What the inbox says, by message id.
    pub inbox: BTreeMap<String, Status>,
    /// Dead letters of all kinds.
    pub dead: usize,
    pub kills: Vec<Kill>,
}
