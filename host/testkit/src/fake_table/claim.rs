//! What a claim finds and locks: the first rows that wait, due or not; of these each aggregate's run of due ones.

use std::collections::BTreeSet;
use std::hash::{DefaultHasher, Hash, Hasher};

use bytes::Bytes;
use tokio::time::Instant;
use waybill_core::port::table::{ClaimId, Claimed, ClaimedRow, Found, RowMessage, TableClaim, TableRow};
use waybill_core::port::transport::{CallError, ErrorKind};

use super::database::{ClaimSeen, Database, Fault, Row, State, Status, Transaction, key};
use super::fault;

impl Database {
    pub(super) fn claim(&self, id: ClaimId, claim: &TableClaim) -> Result<Claimed, CallError> {
        let mut state = self.0.lock();
        state.end_idle();
        if state.takes_fault(Fault::Claim) {
            return Err(CallError { kind: ErrorKind::Unavailable, fault: fault("TEST.NO_DATABASE") });
        }
        let lane = (claim.lanes, claim.lane);
        let is_taken = state.foreign_lanes.contains(&lane) || state.open.values().any(|other| other.lane == Some(lane));
        let seen = |locked| ClaimSeen {
            lane: claim.lane,
            lanes: claim.lanes,
            window: claim.window,
            without_lock: claim.without_lock,
            idle: claim.idle,
            locked,
        };
        if is_taken && !claim.without_lock {
            state.claims.push(seen(0));
            return Ok(Claimed { claim: None, refused: true, seen: 0, rows: Vec::new() });
        }
        let (looked_at, rows, locked) = state.find(claim);
        state.claims.push(seen(locked.len()));
        let claim = (!locked.is_empty()).then(|| {
            let lane = (!is_taken).then_some(lane);
            let ends = Instant::now() + claim.idle;
            state.open.insert(key(id), Transaction { rows: locked, lane, ends });
            id
        });
        Ok(Claimed { claim, refused: false, seen: u32::try_from(looked_at).unwrap_or(u32::MAX), rows })
    }
}

impl State {
    /// How many rows were looked at, those of the runs, and what of them is locked from now on.
    fn find(&self, claim: &TableClaim) -> (usize, Vec<ClaimedRow>, BTreeSet<u64>) {
        let now = Instant::now();
        let is_in = |row: &&Row| {
            let aggregate = aggregate(row);
            row.status == Status::Waits
                && hash(&aggregate) % u64::from(claim.lanes) == u64::from(claim.lane)
                && !claim.held.contains(&aggregate)
        };
        let window: Vec<&Row> = self.rows.values().filter(is_in).take(claim.window as usize).collect();
        let (mut stopped, mut rows, mut locked): (BTreeSet<String>, Vec<ClaimedRow>, BTreeSet<u64>) =
            Default::default();
        let mut bytes = 0;
        for row in &window {
            let aggregate = aggregate(row);
            if stopped.contains(&aggregate) || rows.len() >= claim.batch as usize {
                continue;
            }
            if row.due > now && !self.no_due {
                stopped.insert(aggregate);
                continue;
            }
            bytes += row.payload.len();
            let found = if self.is_locked(row.id) {
                Found::Elsewhere
            } else if bytes > claim.batch_bytes as usize && !locked.is_empty() {
                Found::Unread
            } else {
                locked.insert(row.id);
                Found::Locked(table_row(row, self.no_due))
            };
            rows.push(ClaimedRow { aggregate, found });
        }
        (window.len(), rows, locked)
    }
}

fn aggregate(row: &Row) -> String {
    row.aggregate.clone().unwrap_or_else(|| row.id.to_string())
}

fn hash(aggregate: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    aggregate.hash(&mut hasher);
    hasher.finish()
}

fn table_row(row: &Row, no_attempts: bool) -> TableRow {
    let message = RowMessage {
        id: format!("outbox-{}", row.id),
        tenant: row.tenant.clone(),
        topic: row.topic.clone(),
        key: row.aggregate.clone(),
        context: None,
        headers: Vec::new(),
        content_type: Some("application/json".to_owned()),
        payload: row.payload.clone(),
        event_type: Some("created".to_owned()),
        event_version: None,
        envelope_id: None,
        correlation_id: None,
        causation_id: None,
        reply_to: None,
        occurred_at: None,
        attributes: row.attributes.clone(),
    };
    TableRow {
        token: Bytes::from(row.id.to_string()),
        id: row.id.to_string(),
        attempts: if no_attempts { 0 } else { row.attempts },
        message: row.broken.clone().map_or(Ok(message), Err),
    }
}
