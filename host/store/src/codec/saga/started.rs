//! What a root was started with.

use std::sync::Arc;

use minicbor::{Decode, Encode};
use waybill_core::backoff::RetryPolicy;
use waybill_core::port::transport::PluginIdentity;
use waybill_core::saga::definition::default_retry;
use waybill_core::saga::event::Started;
use waybill_core::saga::json::Json;
use waybill_core::time::UnixMillis;

use super::shared::{Packing, Unpacking};
use crate::codec::CodecError;

/// As it is written.
#[derive(Debug, Encode, Decode)]
#[cbor(map)]
pub struct WireStarted<'b> {
    #[n(0)]
    definition: u32,
    #[b(1)]
    pinned: Option<Vec<(&'b str, u32)>>,
    #[n(2)]
    steps: u16,
    #[n(3)]
    caller_id: Option<bool>,
    #[n(4)]
    input: u32,
    #[n(5)]
    deadline: Option<u64>,
    #[b(6)]
    headers: Option<Vec<(&'b str, &'b str)>>,
    #[b(7)]
    envelope_id: Option<&'b str>,
    #[b(8)]
    correlation_id: Option<&'b str>,
    #[b(9)]
    traceparent: Option<&'b str>,
    #[b(10)]
    plugins: Option<Vec<(&'b str, u32)>>,
    /// None is the built-in one.
    #[n(11)]
    default_retry: Option<WireRetry>,
}

/// A retry policy as it is written.
#[derive(Clone, Copy, Debug, PartialEq, Encode, Decode)]
struct WireRetry {
    #[n(0)]
    max_attempts: u32,
    #[n(1)]
    base_ms: u64,
    #[n(2)]
    factor: f64,
    #[n(3)]
    jitter: f64,
    #[n(4)]
    cap_ms: u64,
    #[n(5)]
    floor_ms: Option<u64>,
}

impl From<RetryPolicy> for WireRetry {
    fn from(policy: RetryPolicy) -> Self {
        let RetryPolicy { max_attempts, base_ms, factor, jitter, cap_ms, floor_ms } = policy;
        Self { max_attempts, base_ms, factor, jitter, cap_ms, floor_ms }
    }
}

impl From<WireRetry> for RetryPolicy {
    fn from(wire: WireRetry) -> Self {
        let WireRetry { max_attempts, base_ms, factor, jitter, cap_ms, floor_ms } = wire;
        Self { max_attempts, base_ms, factor, jitter, cap_ms, floor_ms }
    }
}

/// An empty list takes no room.
fn some<T>(list: Vec<T>) -> Option<Vec<T>> {
    (!list.is_empty()).then_some(list)
}

pub fn pack<'b>(started: &'b Started, packing: &mut Packing<'b>) -> WireStarted<'b> {
    let pinned = started.pinned.iter().map(|(uri, definition)| (&**uri, packing.definition(definition)));
    let pinned = some(pinned.collect());
    let plugins = started.plugins.iter().filter_map(|(name, plugin)| Some((&**name, packing.plugin(Some(plugin))?)));
    let plugins = some(plugins.collect());
    let headers = started.headers.iter().map(|(name, value)| (name.as_str(), value.as_str()));
    WireStarted {
        definition: packing.definition(&started.definition),
        pinned,
        steps: started.steps,
        caller_id: started.caller_id.then_some(true),
        input: packing.json(&started.input),
        deadline: started.deadline.map(|at| at.0),
        headers: some(headers.collect()),
        envelope_id: started.envelope_id.as_deref(),
        correlation_id: started.correlation_id.as_deref(),
        traceparent: started.traceparent.as_deref(),
        plugins,
        default_retry: (started.default_retry != default_retry()).then(|| started.default_retry.into()),
    }
}

pub fn unpack(wire: WireStarted<'_>, unpacking: &Unpacking) -> Result<Started, CodecError> {
    let pinned = wire.pinned.unwrap_or_default().into_iter();
    let pinned = pinned.map(|(uri, at)| Ok((Arc::from(uri), unpacking.definition(at)?)));
    let plugins = wire.plugins.unwrap_or_default().into_iter();
    let plugins = plugins.map(|(name, at)| Ok((Arc::from(name), PluginIdentity::clone(&*unpacking.plugin(at)?))));
    let headers = wire.headers.unwrap_or_default().into_iter();
    Ok(Started {
        definition: unpacking.definition(wire.definition)?,
        pinned: pinned.collect::<Result<_, CodecError>>()?,
        steps: wire.steps,
        caller_id: wire.caller_id.unwrap_or(false),
        input: unpacking.json(wire.input)?,
        deadline: wire.deadline.map(UnixMillis),
        headers: headers.map(|(name, value)| (name.to_owned(), value.to_owned())).collect(),
        envelope_id: wire.envelope_id.map(Arc::from),
        correlation_id: wire.correlation_id.map(Arc::from),
        traceparent: wire.traceparent.map(Arc::from),
        plugins: plugins.collect::<Result<_, CodecError>>()?,
        default_retry: wire.default_retry.map_or_else(default_retry, RetryPolicy::from),
    })
}

/// Whether `bare` is `started` without its input: then a tree, whose first event has all of it, doesn't repeat it.
pub fn is_bare(bare: &Started, started: &Started) -> bool {
    let Started {
        definition,
        pinned,
        steps,
        caller_id,
        input,
        deadline,
        headers,
        envelope_id,
        correlation_id,
        traceparent,
        plugins,
        default_retry,
    } = bare;
    input.as_str() == "null"
        && *definition == started.definition
        && *pinned == started.pinned
        && *steps == started.steps
        && *caller_id == started.caller_id
        && *deadline == started.deadline
        && *headers == started.headers
        && *envelope_id == started.envelope_id
        && *correlation_id == started.correlation_id
        && *traceparent == started.traceparent
        && *plugins == started.plugins
        && *default_retry == started.default_retry
}

/// `started` without its input.
pub fn bare(started: &Started) -> Started {
    Started { input: Json::null(), ..started.clone() }
}
