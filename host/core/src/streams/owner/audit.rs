//! Audit events of dead letters, in the commit that writes them.

use std::sync::Arc;

use super::StreamOwner;
use crate::streams::dead::StreamDeadPlace;
use crate::streams::records::{StreamDead, StreamWrite};
use crate::time::UnixMillis;
use crate::tx_event::{TxEvent, TxEventKind, TxLog, TxRecordKey, TxSubject};

impl StreamOwner {
    /// Adds what the audit trail says of a commit with this beat and these writes.
    pub(super) fn audit(&self, beat: u64, at: UnixMillis, writes: &mut Vec<StreamWrite>) {
        let Some(host) = &self.config.tx_events else { return };
        let shard = self.config.shard;
        let mut log = TxLog::new(true);
        let letters = writes.iter().filter_map(|write| match write {
            StreamWrite::PutDead(dead) => Some(dead.as_ref()),
            _ => None,
        });
        // Stores number them in this order.
        for (number, dead) in (0_u32..).zip(letters) {
            log.note(|| death(StreamDeadPlace { shard, beat, number }, dead));
        }
        let key = TxRecordKey { at, shard, of: TxSubject::Event, beat, part: 0 };
        writes.extend(log.records(key, host).into_iter().map(StreamWrite::PutTxEvents));
    }
}

fn death(place: StreamDeadPlace, dead: &StreamDead) -> TxEvent {
    let (stream, relay, why) = match dead {
        StreamDead::Door { stream, why, .. } => (stream, None, why),
        StreamDead::Relay { stream, relay, why, .. } => (stream, Some(relay), why),
    };
    TxEvent {
        code: Some(Arc::from(why.code.as_str())),
        relay: relay.map(|relay| Arc::from(relay.as_str())),
        stream: Some(Arc::from(stream.name.as_str())),
        ..TxEvent::plain(TxEventKind::Dead, &stream.tenant, place.to_string())
    }
}
