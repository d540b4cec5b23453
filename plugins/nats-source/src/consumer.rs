//! The consumer that the stream is read through, as JetStream tells of it.

use serde_json::{Map, Value, json};
use waybill_nats_wire::stream::{self, covers};
use waybill_nats_wire::{api, shown};
use waybill_plugin::deadline::Deadline;
use waybill_plugin::time::parse_rfc3339;
use waybill_plugin::transport::{ErrorKind, Fault, PluginError};

use crate::Connection;
use crate::ack::Metadata;
use crate::config::Keys;
use crate::fetch::Wanted;

/// JetStream's error for a consumer that isn't there.
const NO_CONSUMER: u64 = 10_014;
/// How long a consumer of our own outlives a lost connection, in nanoseconds.
const INACTIVE_NANOS: u64 = 5 * 60 * 1_000_000_000;
/// Nanoseconds of one millisecond.
const MILLI: u64 = 1_000_000;

/// A consumer and its stream.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Consumer {
    pub(crate) stream: String,
    pub(crate) name: String,
    /// When the stream was made: another one of the same name begins to count anew.
    created: String,
    /// Milliseconds until redelivery, by the number of the delivery; the last one counts for all that follow.
    ack_wait: Vec<u32>,
    /// Deliveries of one message; none = any number.
    max_deliver: Option<u32>,
    /// Messages that may be unsettled.
    pub(crate) max_ack_pending: u32,
    /// Most messages of one request.
    max_batch: Option<u32>,
    /// Longest wait of one request, in milliseconds.
    max_expires: Option<u32>,
    /// Most bytes of one request.
    max_bytes: Option<u32>,
    /// The highest place in the stream that is known, and the latest time at which something known was taken.
    newest: (u64, u64),
    /// The highest place that it has delivered to us, or behind which it begins; 0 = it begins with the stream.
    delivered: u64,
    /// Messages that wait to be delivered for the first time.
    pub(crate) pending: u64,
    /// Messages that were removed before they were delivered.
    pub(crate) overtaken: u64,
    /// It is ours alone and ends with us.
    pub(crate) is_ephemeral: bool,
}

impl Consumer {
    /// Looks for the durable consumer that the configuration names.
    ///
    /// # Errors
    /// It or its stream isn't there, can't be read by pulls with explicit acknowledgements, or JetStream can't be asked.
    pub(crate) async fn find(
        connection: &mut Connection,
        keys: &Keys,
        name: &str,
        deadline: Deadline,
    ) -> Result<Self, PluginError> {
        let stream = stream_info(connection, &keys.stream, deadline).await?;
        let info = info(connection, &keys.stream, name, deadline).await?.ok_or_else(|| missing(&keys.stream, name))?;
        Self::read(keys, &stream, &info)
    }

    /// Makes one of our own, which begins at this place of the stream, or at its start.
    ///
    /// # Errors
    /// JetStream refuses, or can't be asked.
    pub(crate) async fn make(
        connection: &mut Connection,
        keys: &Keys,
        resume: &Resume,
        deadline: Deadline,
    ) -> Result<Self, PluginError> {
        let stream = stream_info(connection, &keys.stream, deadline).await?;
        let next = resume.next(&keys.stream, text(&stream, "/created"));
        let mut config = document(keys, None);
        if let Some(next) = next {
            config.insert("deliver_policy".to_owned(), "by_start_sequence".into());
            config.insert("opt_start_seq".to_owned(), next.into());
        }
        config.insert("inactive_threshold".to_owned(), INACTIVE_NANOS.into());
        let request = json!({ "stream_name": keys.stream, "config": config }).to_string();
        let bytes = connection.ask(&format!("CONSUMER.CREATE.{}", keys.stream), &request, deadline).await?;
        let mut consumer = Self::read(keys, &stream, &api::answer(&bytes)?)?;
        consumer.is_ephemeral = true;
        consumer.delivered = next.map_or(0, |next| next.saturating_sub(1));
        consumer.overtaken = next.map_or(0, |next| behind(&stream, next.saturating_sub(1)));
        Ok(consumer)
    }

    /// What JetStream tells, checked.
    pub(crate) fn read(keys: &Keys, stream: &Value, info: &Value) -> Result<Self, PluginError> {
        let refused = |why: String| PluginError::new(ErrorKind::InvalidConfig, Fault::new("NATS.CONSUMER", why));
        let config = api::config_of(info.clone())?;
        let setting = |name: &str| config.get(name).and_then(Value::as_str).unwrap_or_default();
        let number = |name: &str| config.get(name).and_then(Value::as_i64).filter(|number| *number > 0);
        let name = text(info, "/name");
        if setting("ack_policy") != "explicit" {
            let why = format!(
                "consumer `{}` has ack_policy `{}`: it must be explicit",
                shown(name),
                shown(setting("ack_policy"))
            );
            return Err(refused(why));
        }
        if !setting("deliver_subject").is_empty() {
            return Err(refused(format!(
                "consumer `{}` pushes to a subject: it must be one that is pulled from",
                shown(name)
            )));
        }
        let filters = filters(&config);
        if !keys.filter_subjects.is_empty() && !is_same_set(&filters, &keys.filter_subjects) {
            let why = format!(
                "consumer `{}` reads {filters:?} and `filter_subjects` says {:?}: change one of them",
                shown(name),
                keys.filter_subjects
            );
            return Err(refused(why));
        }
        let wait = number("ack_wait").map_or(keys.ack_wait, nanos_to_millis);
        let steps = config.get("backoff").and_then(Value::as_array).into_iter().flatten();
        let mut ack_wait: Vec<u32> = steps.filter_map(Value::as_i64).map(nanos_to_millis).collect();
        if ack_wait.is_empty() {
            ack_wait.push(wait);
        }
        let limit = |number: i64| u32::try_from(number).unwrap_or(u32::MAX);
        let delivered = info.pointer("/delivered/stream_seq").and_then(Value::as_u64).unwrap_or_default();
        let sees_all = sees_all(stream, &filters);
        Ok(Self {
            stream: keys.stream.clone(),
            name: name.to_owned(),
            created: text(stream, "/created").to_owned(),
            ack_wait,
            max_deliver: number("max_deliver").map(limit),
            max_ack_pending: number("max_ack_pending").map_or(u32::MAX, limit),
            max_batch: number("max_batch").map(limit),
            max_expires: number("max_expires").map(nanos_to_millis),
            max_bytes: number("max_bytes").map(limit),
            newest: newest(stream),
            delivered: 0,
            pending: pending(info).unwrap_or_default(),
            // One that never delivered begins where the stream begins.
            overtaken: if sees_all && delivered > 0 { behind(stream, delivered) } else { 0 },
            is_ephemeral: false,
        })
    }

    /// The same consumer, as JetStream tells of it now.
    pub(crate) fn updated(mut self, info: &Value) -> Self {
        self.pending = pending(info).unwrap_or(self.pending);
        self
    }

    /// Subject of a request for messages.
    pub(crate) fn next_subject(&self) -> String {
        format!("$JS.API.CONSUMER.MSG.NEXT.{}.{}", self.stream, self.name)
    }

    /// What one request may ask for of so much: more than its bounds the server refuses whole.
    pub(crate) fn request(&self, messages: u32, bytes: u32, wait: u32) -> Wanted {
        let most = |bound: Option<u32>, wanted: u32| wanted.min(bound.unwrap_or(u32::MAX)).max(1);
        Wanted {
            messages: most(self.max_batch, messages),
            bytes: most(self.max_bytes, bytes),
            wait: wait.min(self.max_expires.unwrap_or(u32::MAX)),
            payload: bytes,
        }
    }

    /// Where a message lies: the same at a redelivery, another in a stream that was made anew under the same name.
    pub(crate) fn position(&self, sequence: u64) -> String {
        format!("{}/{sequence}", self.place())
    }

    /// The stream itself, another one when it was made anew under the same name.
    pub(crate) fn place(&self) -> String {
        place(&self.stream, &self.created)
    }

    /// Milliseconds until it is delivered again.
    pub(crate) fn settle_within(&self, delivered: u32) -> Option<u32> {
        let place = usize::try_from(delivered.saturating_sub(1)).unwrap_or(usize::MAX);
        self.ack_wait.get(place).or(self.ack_wait.last()).copied()
    }

    /// The longest that it takes until something is delivered again.
    pub(crate) fn longest_wait(&self) -> Option<u32> {
        self.ack_wait.iter().max().copied()
    }

    /// How often it is delivered again before the consumer gives it up.
    pub(crate) fn deliveries_left(&self, delivered: u32) -> Option<u32> {
        self.max_deliver.map(|most| most.saturating_sub(delivered))
    }

    pub(crate) fn is_of_the_same_stream(&self, other: &Self) -> bool {
        self.created == other.created
    }

    /// Whether this looks like a message of another stream under the same name: it was taken after one that lies behind it. A
    /// server's clock that was set back looks the same, so the stream has to be looked at.
    pub(crate) fn is_made_anew(&self, metadata: &Metadata) -> bool {
        metadata.sequence <= self.newest.0 && metadata.stored_at > self.newest.1
    }

    /// Learns from a message how far the stream has come.
    pub(crate) fn learn(&mut self, metadata: &Metadata) {
        self.recall((metadata.sequence, metadata.stored_at));
        self.delivered = self.delivered.max(metadata.sequence);
        self.pending = metadata.pending;
    }

    /// What was known of the same stream before is still true of it: another call may have learnt it meanwhile.
    pub(crate) fn recall_of(&mut self, before: &Self) {
        self.recall(before.newest);
        self.delivered = self.delivered.max(before.delivered);
    }

    fn recall(&mut self, (sequence, stored_at): (u64, u64)) {
        self.newest = (self.newest.0.max(sequence), self.newest.1.max(stored_at));
    }
}

/// A stream by its name and when it was made.
fn place(stream: &str, created: &str) -> String {
    format!("{stream}@{created}")
}

/// Where a consumer of our own begins.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum Resume {
    /// At the earliest message that is kept.
    #[default]
    Start,
    /// Behind a position as [`Consumer::position`] writes it.
    Behind(String),
    /// At this place, in the same stream as before.
    At {
        /// When the stream was made.
        created: String,
        /// The first message that is wanted.
        sequence: u64,
    },
}

impl Resume {
    /// Where a consumer is made again that is gone: at the first message that isn't settled, else behind the last one that it
    /// delivered. None: it delivered nothing, so where it began still holds.
    pub(crate) fn at(consumer: &Consumer, unsettled: Option<u64>) -> Option<Self> {
        let behind = (consumer.delivered > 0).then_some(consumer.delivered + 1);
        let sequence = unsettled.or(behind)?;
        Some(Self::At { created: consumer.created.clone(), sequence })
    }

    /// The stream of a position that was kept.
    pub(crate) fn stream(&self) -> Option<&str> {
        match self {
            Self::Behind(position) => position.rsplit_once('/').map(|(place, _)| place),
            Self::Start | Self::At { .. } => None,
        }
    }

    /// The place where to begin in the stream that is there now; none = at its start.
    fn next(&self, stream: &str, created: &str) -> Option<u64> {
        match self {
            Self::Start => None,
            Self::Behind(position) => {
                let (place, sequence) = position.rsplit_once('/')?;
                let sequence: u64 = sequence.parse().ok()?;
                (place == self::place(stream, created)).then_some(sequence + 1)
            }
            Self::At { created: before, sequence } => (before == created).then_some((*sequence).max(1)),
        }
    }
}

/// A consumer's settings as JetStream's API reads them; `durable` is its name, if it has one.
pub(crate) fn document(keys: &Keys, durable: Option<&str>) -> Map<String, Value> {
    let mut config = Map::new();
    let mut set = |name: &str, value: Value| config.insert(name.to_owned(), value);
    if let Some(durable) = durable {
        set("durable_name", durable.into());
    }
    set("deliver_policy", "all".into());
    set("ack_policy", "explicit".into());
    set("ack_wait", (u64::from(keys.ack_wait) * MILLI).into());
    set("max_deliver", keys.max_deliver.into());
    if let Some(most) = keys.max_ack_pending {
        set("max_ack_pending", most.into());
    }
    match keys.filter_subjects.as_slice() {
        [] => {}
        [one] => {
            set("filter_subject", one.as_str().into());
        }
        many => {
            set("filter_subjects", many.into());
        }
    }
    config
}

/// What JetStream tells of a consumer; none if it isn't there.
///
/// # Errors
/// JetStream can't be asked.
pub(crate) async fn info(
    connection: &mut Connection,
    stream: &str,
    name: &str,
    deadline: Deadline,
) -> Result<Option<Value>, PluginError> {
    let bytes = connection.ask(&format!("CONSUMER.INFO.{stream}.{name}"), "", deadline).await?;
    api::unless_missing(&bytes, NO_CONSUMER)
}

async fn stream_info(connection: &mut Connection, name: &str, deadline: Deadline) -> Result<Value, PluginError> {
    stream::info(connection, name, deadline).await?.ok_or_else(|| {
        let why = format!("there is no stream `{}`: create it, e.g. by `waybill source provision`", shown(name));
        PluginError::unavailable("NATS.NO_STREAM", why)
    })
}

/// The consumer is missing.
pub(crate) fn missing(stream: &str, name: &str) -> PluginError {
    let why = format!(
        "stream `{}` has no consumer `{}`: create it, e.g. by `waybill source provision`",
        shown(stream),
        shown(name)
    );
    PluginError::unavailable("NATS.NO_CONSUMER", why)
}

fn text<'a>(value: &'a Value, pointer: &str) -> &'a str {
    value.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

fn nanos_to_millis(nanos: i64) -> u32 {
    u32::try_from(u64::try_from(nanos).unwrap_or_default() / MILLI).unwrap_or(u32::MAX)
}

/// The subjects that a consumer reads; none = all.
pub(crate) fn filters(config: &Map<String, Value>) -> Vec<String> {
    let one = config.get("filter_subject").and_then(Value::as_str).filter(|subject| !subject.is_empty());
    let many = config.get("filter_subjects").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str);
    one.into_iter().chain(many).map(str::to_owned).collect()
}

fn is_same_set(one: &[String], other: &[String]) -> bool {
    one.len() == other.len() && one.iter().all(|subject| other.contains(subject))
}

/// Whether every message of the stream is for a consumer with these filters, and leaves the stream only by its limits: then a
/// gap before the first one that is kept is a loss.
fn sees_all(stream: &Value, filters: &[String]) -> bool {
    let subjects = stream.pointer("/config/subjects").and_then(Value::as_array).into_iter().flatten();
    let is_read = |subject: &str| filters.is_empty() || filters.iter().any(|filter| covers(filter, subject));
    let per_subject = stream.pointer("/config/max_msgs_per_subject").and_then(Value::as_i64).unwrap_or_default();
    text(stream, "/config/retention") == "limits" && per_subject <= 0 && subjects.filter_map(Value::as_str).all(is_read)
}

/// How many messages the stream removed behind this place.
fn behind(stream: &Value, delivered: u64) -> u64 {
    let first = stream.pointer("/state/first_seq").and_then(Value::as_u64).unwrap_or_default();
    first.saturating_sub(delivered + 1)
}

/// Messages that wait to be delivered for the first time.
fn pending(info: &Value) -> Option<u64> {
    info.pointer("/num_pending").and_then(Value::as_u64)
}

fn newest(stream: &Value) -> (u64, u64) {
    let sequence = stream.pointer("/state/last_seq").and_then(Value::as_u64).unwrap_or_default();
    (sequence, parse_rfc3339(text(stream, "/state/last_ts")).unwrap_or_default())
}

#[cfg(test)]
#[path = "consumer_tests.rs"]
mod tests;
