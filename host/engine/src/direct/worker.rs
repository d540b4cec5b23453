//! One worker of a table: a transaction of its lane after the other, each with its claim, its waves and its marks.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::time::Instant;
use waybill_core::code::Code;
use waybill_core::inbox::direct::{
    AfterClaim, Aggregate, Claim, Claimed, ClaimedRow, MarkKind, Marks, RowId, Wave, WorkerId,
};
use waybill_core::port::table::{self, ClaimId, Ended, Found, RowFate, TableClaim, TableRow};
use waybill_core::port::transport::{CallError, Fault};

use super::row;
use super::send;
use super::table::{PublishedTable, TRANSACTION_TIMEOUT};
use crate::spans;

/// Shortest pause before a worker asks again that had nothing to do.
const PAUSE_MIN: Duration = Duration::from_millis(10);
/// First pause after a transaction that failed; doubled with each further one in turn.
const FAILED_PAUSE: Duration = Duration::from_millis(100);
const FAILED_PAUSE_MAX: Duration = Duration::from_secs(10);
/// A worker for whose lane the plugin has no room, or whose table is paused, looks again after this time.
const STANDBY_PAUSE: Duration = Duration::from_secs(1);

/// What came of a turn.
enum Turn {
    /// A transaction was committed.
    Done,
    /// There was nothing to do; the next turn is after this time.
    Nothing(Duration),
    /// Database, plugin or store failed.
    Failed,
}

/// Rows of a transaction, by their keys.
pub(super) type Rows = HashMap<RowId, (Aggregate, TableRow)>;

/// A transaction with rows locked.
struct Open {
    instance: u32,
    claim: ClaimId,
    rows: Rows,
}

pub(super) async fn work(table: Arc<PublishedTable>, worker: WorkerId) {
    let mut failures: u32 = 0;
    while !table.is_ending() {
        let pause = match turn(&table, worker).await {
            Turn::Done => {
                failures = 0;
                continue;
            }
            Turn::Nothing(pause) => pause.max(PAUSE_MIN),
            Turn::Failed => {
                failures = failures.saturating_add(1);
                FAILED_PAUSE.saturating_mul(1 << (failures - 1).min(16)).min(FAILED_PAUSE_MAX)
            }
        };
        table.rest(pause).await;
    }
}

async fn turn(table: &PublishedTable, worker: WorkerId) -> Turn {
    let lanes = table.adapt();
    if worker.0 >= lanes || table.is_paused() {
        return Turn::Nothing(STANDBY_PAUSE);
    }
    let (open, after) = match claim(table, worker).await {
        Ok(claimed) => claimed,
        Err(turn) => return turn,
    };
    let Some(open) = open else {
        if after != AfterClaim::GiveUp {
            let reason = "it brought rows without a claim".to_owned();
            table.note_trouble("a table's plugin broke its contract", &Fault::new(Code::PLUGIN_CONTRACT, reason));
            table.with(|lane| lane.lost(worker, table.now()));
            return Turn::Failed;
        }
        return Turn::Nothing(PAUSE_MIN);
    };
    table.open.lock().insert(worker, (open.instance, open.claim));
    table.locked.fetch_add(open.rows.len() as u64, Ordering::AcqRel);
    let turn = carry_out(table, worker, &open, after).await;
    table.locked.fetch_sub(open.rows.len() as u64, Ordering::AcqRel);
    table.open.lock().remove(&worker);
    turn
}

/// Sends what was claimed, and marks it.
async fn carry_out(table: &PublishedTable, worker: WorkerId, open: &Open, after: AfterClaim) -> Turn {
    match after {
        AfterClaim::GiveUp => {
            table.give_back(open.instance, open.claim).await;
            return Turn::Nothing(PAUSE_MIN);
        }
        AfterClaim::Name => {
            if let Err(error) = table.store_record().await {
                table.note_trouble(
                    "what is sent can't be named in the store",
                    &Fault::new(error.code(), error.to_string()),
                );
                table.give_back(open.instance, open.claim).await;
                table.with(|lane| lane.gave_up(worker, table.now()));
                return Turn::Failed;
            }
        }
        AfterClaim::Send => {}
    }
    // What is acknowledged when the host drains is marked; the rest is left as it is.
    while !table.is_ending() {
        match table.with(|lane| lane.wave(worker, table.now())) {
            Some(Wave::Send { rows, until }) => send::wave(table, worker, &open.rows, rows, until).await,
            Some(Wave::Mark) => break,
            Some(Wave::GiveUp) | None => {
                table.give_back(open.instance, open.claim).await;
                return Turn::Nothing(PAUSE_MIN);
            }
        }
    }
    mark(table, worker, open).await
}

/// Claims what a worker sends next. Without rows there is nothing open.
async fn claim(table: &PublishedTable, worker: WorkerId) -> Result<(Option<Open>, AfterClaim), Turn> {
    let now = table.now();
    let begun = table.with(|lane| {
        let own = lane.lane_for(worker, now);
        let begin = lane.begin(worker, own, now);
        let claim = begin.and_then(|_| lane.claim(worker, now));
        (claim, lane.begins_at(worker), lane.config().idle_in_transaction())
    });
    let Some((claim, begins_at, idle)) = begun else { return Err(Turn::Failed) };
    let Some(claim) = claim else { return Err(Turn::Nothing(begins_at - now)) };
    let facts = table.config.table.facts();
    let instance = u32::from(worker.0) % facts.instances.max(1);
    let began = Instant::now();
    let mut answer = ask(table, instance, &claim, false, idle).await;
    if let Ok(claimed) = &answer {
        let goes_on = table.with(|lane| lane.lock_answered(worker, !claimed.refused, table.now()));
        if goes_on != Some(true) {
            return Err(Turn::Nothing(PAUSE_MIN));
        }
        if claimed.refused {
            answer = ask(table, instance, &claim, true, idle).await;
        }
    }
    let claimed = match answer {
        Ok(claimed) => claimed,
        Err(error) => {
            table.note_trouble("nothing can be claimed in a table", &error.fault);
            table.with(|lane| lane.gave_up(worker, table.now()));
            return Err(Turn::Failed);
        }
    };
    table.meter.claimed(began.elapsed());
    received(table, &claimed, began.elapsed());
    let open = claimed.claim;
    let (claimed, rows, is_whole) = sorted(claimed, &claim);
    let seen: Vec<RowId> = rows.keys().cloned().collect();
    let after = table.with(|lane| {
        let suspects = lane.suspects();
        let gone = table.sightings.lock().note_claim((claim.lanes, claim.lane), &seen, is_whole, &suspects);
        lane.drop_suspects(&gone);
        lane.claimed(worker, claimed, table.now())
    });
    table.note_well();
    let after = after.unwrap_or(AfterClaim::GiveUp);
    if after == AfterClaim::GiveUp {
        // Caution may have ended, or a suspect been dropped.
        table.keep_record().await;
    }
    Ok((open.map(|claim| Open { instance, claim, rows }), after))
}

async fn ask(
    table: &PublishedTable,
    instance: u32,
    claim: &Claim,
    without_lock: bool,
    idle: Duration,
) -> Result<table::Claimed, CallError> {
    let ask = TableClaim {
        lane: claim.lane.into(),
        lanes: claim.lanes.into(),
        batch: u32::try_from(claim.batch).unwrap_or(u32::MAX),
        batch_bytes: table.context.live().config.batch_bytes,
        window: u32::try_from(claim.window).unwrap_or(u32::MAX),
        held: claim.held.iter().map(|aggregate| aggregate.0.to_string()).collect(),
        without_lock,
        idle,
    };
    table.config.table.claim(instance, ask, TRANSACTION_TIMEOUT).await
}

/// The span of a claim that brought rows.
fn received(table: &PublishedTable, claimed: &table::Claimed, took: Duration) {
    let Some(tracer) = &table.context.config.tracer else { return };
    let locked = claimed.rows.iter().filter_map(|row| match &row.found {
        Found::Locked(row) => Some(row),
        _ => None,
    });
    let count = locked.clone().count();
    if count > 0 {
        let contexts = locked.filter_map(|row| row.message.as_ref().ok().and_then(row::context_of));
        spans::received(tracer, table.config.source.as_str(), contexts, count, took);
    }
}

/// What a claim brought as the lanes take it, the rows that are locked, and whether nothing that is due was left out.
fn sorted(claimed: table::Claimed, asked: &Claim) -> (Claimed, Rows, bool) {
    let seen = claimed.seen as usize;
    let (mut rows, mut locked, mut unread) = (Vec::new(), Rows::new(), 0);
    let (mut cut, mut elsewhere): (BTreeSet<Aggregate>, bool) = (BTreeSet::new(), false);
    // A claim doesn't tell where a row lay: the window shrinks only when all that was looked at fits into half of it.
    let position = seen.saturating_sub(1);
    for row in claimed.rows {
        let aggregate = Aggregate(Arc::from(row.aggregate));
        let (id, attempts, is_locked) = match row.found {
            _ if cut.contains(&aggregate) => {
                unread += 1;
                continue;
            }
            Found::Unread => {
                cut.insert(aggregate);
                unread += 1;
                continue;
            }
            Found::Elsewhere => {
                elsewhere = true;
                (RowId(Arc::from("")), 0, false)
            }
            Found::Locked(row) => {
                let (id, attempts) = (RowId(Arc::from(row.id.as_str())), row.attempts);
                locked.insert(id.clone(), (aggregate.clone(), row));
                (id, attempts, true)
            }
        };
        rows.push(ClaimedRow { id, aggregate, position, locked: is_locked, attempts });
    }
    let is_all = !claimed.refused && seen < asked.window && rows.len() + unread < asked.batch;
    let is_whole = is_all && unread == 0 && !elsewhere && asked.held.is_empty();
    (Claimed { seen, unread, rows }, locked, is_whole)
}

/// Marks what became of the rows, and commits.
async fn mark(table: &PublishedTable, worker: WorkerId, open: &Open) -> Turn {
    let marks = table.with(|lane| lane.marks(worker, table.now(), rand::random())).unwrap_or_default();
    let written = written(&marks, &open.rows);
    let ended = table.config.table.commit(open.instance, open.claim, written, TRANSACTION_TIMEOUT).await;
    let now = table.now();
    match ended {
        Ok(Ended::Committed) => {
            table.with(|lane| lane.committed(worker, now));
            table.meter.committed(&marks);
            log_failed(&marks, table);
            table.keep_record().await;
            table.with(|lane| table.meter.memory(lane));
            Turn::Done
        }
        Ok(Ended::Refused(fault)) => {
            table.meter.refused();
            let alone = table.with(|lane| lane.mark_refused(worker, now, rand::random())).flatten();
            if let Some(RowId(row)) = alone {
                tracing::error!(source = %table.config.source, row = &*row, code = fault.code, reason = fault.reason, "a row can't be marked: it and its aggregate wait for a person");
            }
            table.with(|lane| table.meter.memory(lane));
            Turn::Nothing(PAUSE_MIN)
        }
        Ok(Ended::Lost(fault)) | Err(CallError { fault, .. }) => {
            table.meter.lost();
            table.note_trouble("a table's transaction was lost: what of it was acknowledged is sent again", &fault);
            table.with(|lane| lane.lost(worker, now));
            Turn::Failed
        }
    }
}

/// Rows that were given up are told: nobody else hears of them.
fn log_failed(marks: &Marks, table: &PublishedTable) {
    for mark in marks.others.iter().filter(|mark| mark.kind == MarkKind::Failed) {
        let (row, fault) = (&*mark.row.0, &mark.error);
        tracing::warn!(source = %table.config.source, row, code = fault.code, reason = fault.reason, "a row stands failed in its table");
    }
}

fn written(marks: &Marks, rows: &Rows) -> Vec<table::Mark> {
    let token = |row: &RowId| rows.get(row).map(|(_, row)| row.token.clone());
    let published = marks.acknowledged.iter().map(|row| (row, RowFate::Published));
    let others = marks.others.iter().map(|mark| {
        let (attempts, cause) = (mark.attempts, mark.error.clone());
        let fate = match mark.kind {
            MarkKind::Failed => RowFate::Failed { attempts, cause },
            MarkKind::Waits(after) => RowFate::Again { after, attempts, cause: Some(cause) },
        };
        (&mark.row, fate)
    });
    let all = published.chain(others);
    all.filter_map(|(row, fate)| Some(table::Mark { token: token(row)?, fate })).collect()
}
