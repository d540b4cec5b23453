//! Claims, marks and counts of outbox tables between the contract and the core.

use bytes::Bytes;
use waybill_bindings::services::exports::waybill::inbound::table_api as wit;
use waybill_core::port::table::{
    ClaimId, Claimed, ClaimedRow, ContextStats, DeadPage, DeadRow, Ended, Found, Mark, RowFate, RowMessage, TableClaim,
    TableRow,
};
use waybill_core::time::UnixMillis;

use super::{bounded, fault, to_millis, told_fault};
use crate::host::EndpointContext;
use crate::limits::{ATTRIBUTE_BYTES_MAX, DEAD_ERROR_BYTES_MAX};

/// What is to be claimed, as a guest gets it.
pub(crate) fn claim(claim: TableClaim) -> wit::ClaimArgs {
    wit::ClaimArgs {
        lane: claim.lane,
        lanes: claim.lanes,
        batch: claim.batch,
        batch_bytes: claim.batch_bytes,
        window: claim.window,
        held: claim.held,
        without_lock: claim.without_lock,
        idle: to_millis(claim.idle),
    }
}

/// What a guest claimed. Rows come as they are: they are bounded by what a call may hand over.
pub(crate) fn claimed(endpoint: &EndpointContext, session: u64, claimed: wit::Claimed) -> Claimed {
    Claimed {
        claim: claimed.claim.map(|number| ClaimId { session, number }),
        refused: claimed.refused,
        seen: claimed.seen,
        rows: claimed.rows.into_iter().map(|row| claimed_row(endpoint, row)).collect(),
    }
}

fn claimed_row(endpoint: &EndpointContext, row: wit::ClaimedRow) -> ClaimedRow {
    let found = match row.found {
        wit::Found::Locked(row) => Found::Locked(TableRow {
            token: Bytes::from(row.token),
            id: row.id,
            attempts: row.attempts,
            message: row.message.map(message).map_err(|cause| fault(endpoint, cause)),
        }),
        wit::Found::Elsewhere => Found::Elsewhere,
        wit::Found::Unread => Found::Unread,
    };
    ClaimedRow { aggregate: row.aggregate, found }
}

fn message(message: wit::RowMessage) -> RowMessage {
    RowMessage {
        id: message.id,
        tenant: message.tenant,
        topic: message.topic,
        key: message.key,
        context: message.context,
        headers: message.headers,
        content_type: message.content_type,
        payload: Bytes::from(message.payload),
        event_type: message.event_type,
        event_version: message.event_version,
        envelope_id: message.envelope_id,
        correlation_id: message.correlation_id,
        causation_id: message.causation_id,
        reply_to: message.reply_to,
        occurred_at: message.occurred_at.map(UnixMillis),
        attributes: message.attributes,
    }
}

/// A row's fate as a guest gets it.
pub(crate) fn mark(mark: Mark) -> wit::Mark {
    let fate = match mark.fate {
        RowFate::Published => wit::Fate::Published,
        RowFate::Again { after, attempts, cause } => {
            wit::Fate::Again(wit::Again { after: to_millis(after), attempts, cause: cause.map(told_fault) })
        }
        RowFate::Failed { attempts, cause } => wit::Fate::Failed(wit::Failed { attempts, cause: told_fault(cause) }),
    };
    wit::Mark { token: mark.token.to_vec(), fate }
}

/// How a claim ended.
pub(crate) fn ended(endpoint: &EndpointContext, ended: wit::Ended) -> Ended {
    match ended {
        wit::Ended::Committed => Ended::Committed,
        wit::Ended::Refused(cause) => Ended::Refused(fault(endpoint, cause)),
        wit::Ended::Lost(cause) => Ended::Lost(fault(endpoint, cause)),
    }
}

pub(crate) fn stats(endpoint: &EndpointContext, stats: wit::ContextStats) -> ContextStats {
    ContextStats {
        context: bounded(endpoint, stats.context, ATTRIBUTE_BYTES_MAX),
        waiting: stats.waiting,
        oldest: stats.oldest.map(UnixMillis),
        dead: stats.dead,
    }
}

/// Rows that stand failed. Their errors are for people: they are cut, and secrets taken out.
pub(crate) fn dead(endpoint: &EndpointContext, page: wit::DeadPage) -> DeadPage {
    let row = |row: wit::DeadRow| DeadRow {
        id: row.id,
        aggregate: row.aggregate,
        context: row.context,
        topic: row.topic,
        event_type: row.event_type,
        attempts: row.attempts,
        error: bounded(endpoint, row.error, DEAD_ERROR_BYTES_MAX),
        occurred_at: row.occurred_at.map(UnixMillis),
        failed_at: row.failed_at.map(UnixMillis),
    };
    DeadPage { rows: page.rows.into_iter().map(row).collect(), next: page.next }
}
