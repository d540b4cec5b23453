//! What arrived: a delivery as its headers and body tell it.

use std::str::FromStr;
use std::time::Duration;

use bytes::Bytes;
use hyper::http::request::Parts;

/// One delivery as the receiver sees it (`surface.md`, "A delivery over HTTP").
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Delivered {
    /// Message id: `ce-id`, which `Idempotency-Key` repeats.
    pub id: String,
    pub tenant: String,
    /// `Waybill-Key` as on the wire.
    pub key: Option<String>,
    /// `Waybill-Attempt`, from 1.
    pub attempt: u32,
    /// `Waybill-Lease-Epoch`: grows with every change of the owner.
    pub epoch: u64,
    /// `Waybill-Seq`: place in the shard's order.
    pub seq: u64,
    /// Path of the request.
    pub path: String,
    pub body: Bytes,
}

/// A delivery with when it came and what it was answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// Place in the order of arrival, from 0.
    pub order: usize,
    /// Since the receiver started.
    pub at: Duration,
    pub delivered: Delivered,
    /// Status that it was answered with, or would have been.
    pub status: u16,
    /// The answer was given to the connection. False when the host died first.
    pub answered: bool,
}

impl Arrival {
    /// The receiver took it: a 2xx, or a 409 by which it says that it had it already.
    pub fn accepted(&self) -> bool {
        (200..300).contains(&self.status) || self.status == 409
    }
}

impl Delivered {
    /// Reads the headers that every delivery carries; the error says which one is wrong.
    pub(super) fn read(head: &Parts, body: Bytes) -> Result<Self, String> {
        let id = text(head, "ce-id")?;
        let idempotency_key = text(head, "idempotency-key")?;
        if id != idempotency_key {
            return Err(format!("ce-id is {id:?} but idempotency-key is {idempotency_key:?}"));
        }
        Ok(Self {
            tenant: text(head, "waybill-tenant")?,
            key: head.headers.contains_key("waybill-key").then(|| text(head, "waybill-key")).transpose()?,
            attempt: number(head, "waybill-attempt")?,
            epoch: number(head, "waybill-lease-epoch")?,
            seq: number(head, "waybill-seq")?,
            path: head.uri.path().to_owned(),
            id,
            body,
        })
    }
}

fn text(head: &Parts, name: &str) -> Result<String, String> {
    let value = head.headers.get(name).ok_or_else(|| format!("{} {}: no {name} header", head.method, head.uri))?;
    Ok(String::from_utf8_lossy(value.as_bytes()).into_owned())
}

fn number<N: FromStr>(head: &Parts, name: &str) -> Result<N, String> {
    let value = text(head, name)?;
    value.parse().map_err(|_| format!("{} {}: {name} is {value:?}, not a number", head.method, head.uri))
}
