//! Feed, streams and windows that a relay wants: one read at a time in a shard, the relays in turn.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use futures::future::join_all;
use serde_json::json;
use tokio::time::Instant;
use waybill_core::code::Code;
use waybill_core::ids::RelayName;
use waybill_core::port::store::StoreError;
use waybill_core::port::stream_store::{RelayPage, RelaySlice, ShardOf};
use waybill_core::port::transact::AuditEvent;
use waybill_core::seq_json::SeqJson;
use waybill_core::streams::name::StreamKey;
use waybill_core::streams::records::FeedRecord;
use waybill_core::streams::relay::Overtaken;
use waybill_core::streams::settings::OnOvertaken;

use super::super::actor::Actor;
use super::super::meter;

/// Records of the feed that are read at once.
const FEED_RECORDS: usize = 256;
/// Streams that are looked at at once while all are gone through.
const STREAMS_AT_ONCE: usize = 1_000;
/// Windows that are read at once.
const WINDOWS_AT_ONCE: usize = 8;
/// Pause after a read that failed.
const TROUBLE_PAUSE: Duration = Duration::from_millis(250);
/// A stream whose look brought nothing rests so long.
const STUCK_PAUSE: Duration = Duration::from_secs(1);

/// What was read for a relay.
pub(in crate::streams) enum RelayRead {
    Feed(RelayName, Result<Vec<FeedRecord>, StoreError>),
    Streams(RelayName, Result<RelayPage, StoreError>),
    Windows(RelayName, Vec<(StreamKey, u64, Result<RelaySlice, StoreError>)>),
}

impl Actor {
    /// Begins the next read, if one is wanted.
    pub(in crate::streams) fn start_relay_read(&mut self) {
        if !self.relay_read.is_idle() || self.is_ending() || Instant::now() < self.relays_rest_until {
            return;
        }
        for _ in 0..self.relays.len() {
            if self.start_read_of_first() {
                break;
            }
        }
    }

    /// Looks at the first relay, which goes to the end of the row.
    fn start_read_of_first(&mut self) -> bool {
        let count = self.relays.len();
        self.relays.rotate_left(count.min(1));
        let Some(driver) = self.relays.last_mut() else { return true };
        let name = driver.name().clone();
        let Some(relay) = self.owner.relays_mut().get_mut(&name) else { return false };
        let now = Instant::now();
        driver.stuck.retain(|_, until| *until > now);
        // What can't be sent now mustn't fill the memory.
        let count = if driver.may_send(&self.shared.context.live()) { WINDOWS_AT_ONCE } else { 0 };
        let mono = self.shared.context.clock.now().mono;
        let windows = relay.windows_wanted(count, mono, |stream| driver.stuck.contains_key(stream));
        let record = self.owner.record();
        let Some(relay) = self.owner.relays().iter().find(|relay| *relay.name() == name) else { return false };
        let bytes_max = relay.settings().read_bytes;
        let (store, shard) = (Arc::clone(&self.shared.store), self.owner.shard());
        let feed = relay.feed_wanted(record).filter(|_| windows.is_empty() || !driver.is_window_next);
        let streams = relay.streams_wanted().filter(|_| windows.is_empty() || !driver.is_window_next);
        if let Some(after) = feed {
            driver.is_window_next = true;
            self.relay_read.begin(async move { RelayRead::Feed(name, store.feed(shard, after, FEED_RECORDS).await) });
        } else if let Some(behind) = streams {
            driver.is_window_next = true;
            let (behind, of) = (behind.cloned(), ShardOf { shard, count: self.shared.shards() });
            self.relay_read.begin(async move {
                let page = store.relay_streams(&name, of, behind.as_ref(), STREAMS_AT_ONCE).await;
                RelayRead::Streams(name, page)
            });
        } else if !windows.is_empty() {
            driver.is_window_next = false;
            self.relay_read.begin(async move {
                let reads = windows.into_iter().map(|(stream, after)| {
                    let (store, name) = (Arc::clone(&store), name.clone());
                    async move {
                        let read = store.relay_slice(&name, &stream, after, bytes_max).await;
                        (stream, after, read)
                    }
                });
                let windows = join_all(reads).await;
                RelayRead::Windows(name, windows)
            });
        } else {
            return false;
        }
        true
    }

    pub(in crate::streams) fn take_relay_read(&mut self, read: RelayRead) {
        let record = self.owner.record().clone();
        let failed = match read {
            RelayRead::Feed(name, Ok(feed)) => {
                let Some(relay) = self.owner.relays_mut().get_mut(&name) else { return };
                if let Some(driver) = self.relays.iter_mut().find(|driver| *driver.name() == name) {
                    for part in feed.iter().flat_map(|record| &record.parts).filter(|part| relay.takes(&part.stream)) {
                        let named = i64::try_from(part.to + 1 - part.from).unwrap_or(i64::MAX);
                        driver.count_unsettled(&part.stream.tenant, named);
                    }
                }
                relay.take_feed(&feed, &record);
                None
            }
            RelayRead::Streams(name, Ok(page)) => {
                if let Some(relay) = self.owner.relays_mut().get_mut(&name) {
                    relay.take_streams(&page, &record);
                }
                None
            }
            RelayRead::Windows(name, windows) => {
                let mut failed = None;
                for (stream, after, read) in windows {
                    match read {
                        Ok(read) => self.take_window(&name, &stream, after, &read),
                        Err(error) => failed = Some(error),
                    }
                }
                failed
            }
            RelayRead::Feed(_, Err(error)) | RelayRead::Streams(_, Err(error)) => Some(error),
        };
        if let Some(error) = failed {
            tracing::warn!(code = error.code().as_str(), %error, "a relay can't read its streams");
            self.relays_rest_until = Instant::now() + TROUBLE_PAUSE;
        }
        for at in 0..self.relays.len() {
            self.note_lag(at);
        }
    }

    fn take_window(&mut self, name: &RelayName, stream: &StreamKey, after: u64, read: &RelaySlice) {
        let Some(driver) = self.relays.iter_mut().find(|driver| driver.name() == name) else { return };
        let Some(relay) = self.owner.relays_mut().get_mut(name) else { return };
        let overtaken = relay.take_window(stream, read);
        if relay.still_wants(stream, after) {
            driver.stuck.insert(stream.clone(), Instant::now() + STUCK_PAUSE);
        }
        if relay.has_to_record(stream) {
            // Its mark moves when that is recorded.
            driver.word();
        }
        if let Some(range) = overtaken {
            self.overtaken(name, stream, range);
        }
    }

    /// Retention took events before the relay had them.
    fn overtaken(&mut self, name: &RelayName, stream: &StreamKey, range: Overtaken) {
        let Some(driver) = self.relays.iter_mut().find(|driver| driver.name() == name) else { return };
        driver.count_unsettled(&stream.tenant, i64::try_from(range.lost).unwrap_or(i64::MAX).saturating_neg());
        driver.state.overtaken.fetch_add(range.lost, Ordering::AcqRel);
        meter::overtaken(name, range.lost);
        tracing::error!(code = %Code::RELAY_OVERTAKEN, relay = name.as_str(), %stream, from = range.from, to = range.to, lost = range.lost, "retention took events before the relay had sent them");
        if driver.plan.on_overtaken == OnOvertaken::Stop {
            let reason = format!(
                "{}: events {} to {} of {stream} were removed before it had sent them",
                Code::RELAY_OVERTAKEN,
                range.from,
                range.to
            );
            driver.state.stop_everywhere(reason);
        }
        let event = AuditEvent {
            at: self.shared.context.clock.now().wall,
            kind: "RelayOvertaken".to_owned(),
            actor: self.shared.context.config.host.clone(),
            tenant: Some(stream.tenant.to_string()),
            object: name.to_string(),
            detail: json!({
                "stream": stream.name.as_str(), "from": SeqJson(range.from), "to": SeqJson(range.to), "lost": range.lost,
            }),
        };
        let context = Arc::clone(&self.shared.context);
        tokio::spawn(async move { crate::service::audit(&context, &event).await });
    }
}
