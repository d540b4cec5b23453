//! The table as the host publishes it directly: a claim is a transaction, and its marks are in it.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};

use waybill_plugin::deadline::Deadline;
use waybill_plugin::table::{
    Again, Claim, ClaimArgs, Claimed, ClaimedRow, ContextStats, DeadPage, DeadRow, Ended, Failed, Fate, Found, Mark,
    Notices, Row, RowMessage, Table as DirectTable, TableArgs,
};
use waybill_plugin::transport::{CallInfo, Fault, HealthReport, OpenArgs, OpenPurpose, Opened, PluginError};

use crate::config::Config;
use crate::database::{self, Begun, Database, Open, Terms};
use crate::listener::Listener;
use crate::marking::{Marking, error_text};
use crate::table::claim::{self, Wanted};
use crate::table::event::{Event, Unsent};
use crate::table::marks::Other;
use crate::table::selected::Read;
use crate::table::stats;
use crate::wire::{Connection, Pipeline};

/// Calls beside claims: counts, lists, signs of life.
const CALLS_BESIDE: u32 = 2;
/// The consumer's topic, where the host tells it.
const TOPIC: &str = "topic";
/// Times are kept in the table.
const KEEPS_DUE: &str = "keeps-due";
const KEEPS_ATTEMPTS: &str = "keeps-attempts";

/// An outbox table that is published directly.
pub(crate) struct Direct {
    database: Database,
    listener: Listener,
    claims: RefCell<BTreeMap<u32, OpenClaim>>,
    next: Cell<u32>,
}

/// A transaction with rows.
struct OpenClaim {
    connection: Connection,
    statements: std::rc::Rc<crate::table::statements::Statements>,
    /// Keys of the rows that it has.
    ids: BTreeSet<String>,
}

impl DirectTable for Direct {
    type Config = Config;

    async fn open(
        call: &CallInfo,
        args: &OpenArgs,
        wants: &TableArgs,
        config: Config,
    ) -> Result<(Self, Opened), PluginError> {
        let topic = wants.attributes.iter().find(|(name, _)| name == TOPIC).map(|(_, value)| value.clone());
        let listener = Listener::new(&config.own, args.purpose == OpenPurpose::Serve);
        let tick_every = listener.tick_every(&config.own);
        let connections = wants.claims.saturating_add(CALLS_BESIDE);
        let (database, peer) = Database::open(call, args, config, connections, topic, false).await?;
        let keeps_due = database.statements().table.keeps_due();
        let features = [Some(KEEPS_ATTEMPTS), keeps_due.then_some(KEEPS_DUE)];
        let opened = Opened {
            peer: Some(peer),
            max_concurrent_calls: connections,
            tick_every: Some(tick_every),
            features: features.into_iter().flatten().map(str::to_owned).collect(),
            ..Opened::new()
        };
        Ok((Self { database, listener, claims: RefCell::default(), next: Cell::new(0) }, opened))
    }

    async fn claim(&self, call: &CallInfo, args: ClaimArgs) -> Result<Claimed, PluginError> {
        let own = &self.database.pool.config().own;
        let wanted = Wanted {
            lane: args.lane,
            lanes: args.lanes.max(1),
            held: args.held,
            window: args.window,
            batch: args.batch,
            batch_bytes: args.batch_bytes,
            payload_bytes: own.max_payload_bytes,
        };
        let terms = Terms { without_lock: args.without_lock, idle: args.idle };
        match self.database.claim(call, &wanted, terms).await? {
            Begun::Refused => Ok(Claimed::refused()),
            Begun::Nothing(seen, rows) => {
                let elsewhere =
                    |row: claim::ClaimedRow| ClaimedRow { aggregate: row.aggregate, found: Found::Elsewhere };
                Ok(Claimed { rows: rows.into_iter().map(elsewhere).collect(), ..Claimed::nothing(seen) })
            }
            Begun::Open(open) => Ok(self.keep(open)),
        }
    }

    async fn commit(&self, call: &CallInfo, claim: Claim, marks: Vec<Mark>) -> Result<Ended, PluginError> {
        let deadline = Deadline::of_call(call.timeout);
        let Some(OpenClaim { connection, statements, ids }) = self.claims.borrow_mut().remove(&claim.0) else {
            return Err(PluginError::internal("there is no such claim"));
        };
        let marking = match marking(marks, &ids) {
            Ok(marking) => marking,
            Err(error) => {
                self.database.give_up(connection, deadline).await;
                return Err(error);
            }
        };
        if marking.is_empty() {
            self.database.give_up(connection, deadline).await;
            return Ok(Ended::Committed);
        }
        Ok(match self.database.commit(connection, marking.pipeline(&statements.marks), deadline).await {
            database::Ended::Committed => Ended::Committed,
            database::Ended::Refused(error) => Ended::Refused(error.fault),
            database::Ended::Lost(error) => Ended::Lost(error.fault),
        })
    }

    async fn stats(&self, call: &CallInfo) -> Result<Vec<ContextStats>, PluginError> {
        let statements = self.database.statements();
        let answers = self.database.ask(call, &Pipeline::new().ask(&statements.stats, Vec::new())).await?;
        let counts = answers.iter().flat_map(|answer| &answer.rows).filter_map(stats::read);
        Ok(counts
            .map(|counts| ContextStats {
                context: counts.context,
                waiting: counts.waiting,
                oldest: counts.oldest,
                dead: counts.dead,
            })
            .collect())
    }

    async fn dead(&self, call: &CallInfo, page: Option<String>, max: u32) -> Result<DeadPage, PluginError> {
        let statements = self.database.statements();
        let (statement, values) = statements.dead.page(page.as_deref(), max);
        let answers = self.database.ask(call, &Pipeline::new().ask(statement, values)).await?;
        let rows: Vec<_> =
            answers.iter().flat_map(|answer| &answer.rows).filter_map(|row| statements.dead.read(row)).collect();
        let is_full = rows.len() >= usize::try_from(max).unwrap_or(usize::MAX);
        let next = rows.last().filter(|_| is_full).map(|row| row.id.clone());
        let shown = |row: crate::table::dead::DeadRow| DeadRow {
            id: row.id,
            aggregate: row.aggregate,
            context: row.context,
            topic: row.topic,
            event_type: row.event_type,
            attempts: row.attempts,
            error: row.error,
            occurred_at: row.occurred_at,
            failed_at: row.failed_at,
        };
        Ok(DeadPage { rows: rows.into_iter().map(shown).collect(), next })
    }

    async fn replay(&self, call: &CallInfo, ids: Vec<String>) -> Result<Vec<bool>, PluginError> {
        let statements = self.database.statements();
        let (statement, values) = statements.dead.replay(&ids);
        let answers = self.database.ask(call, &Pipeline::new().ask(statement, values)).await?;
        let replayed: BTreeSet<&str> =
            answers.iter().flat_map(|answer| &answer.rows).filter_map(|row| row.text(0)).collect();
        Ok(ids.iter().map(|id| replayed.contains(id.as_str())).collect())
    }

    async fn health(&self, call: &CallInfo) -> HealthReport {
        self.database.pool.health(call).await
    }

    async fn tick(&self, call: &CallInfo) -> Result<Notices, PluginError> {
        let is_waiting = self.listener.tick(call, &self.database).await?;
        Ok(if is_waiting { Notices::waiting() } else { Notices::new() })
    }

    async fn close(&self, call: &CallInfo) {
        let deadline = Deadline::of_call(call.timeout);
        let open = std::mem::take(&mut *self.claims.borrow_mut());
        for claim in open.into_values() {
            self.database.give_up(claim.connection, deadline).await;
        }
        self.listener.close(deadline).await;
        self.database.pool.close(call).await;
    }
}

impl Direct {
    /// Keeps an open transaction until its commit, and tells what it has.
    fn keep(&self, open: Open) -> Claimed {
        let Open { connection, statements, seen, rows } = open;
        let mut ids = BTreeSet::new();
        let rows = rows.into_iter().map(|row| {
            let found = row.row.map_or(Found::Elsewhere, |row| {
                let id = claim::Claim::id(&row).to_owned();
                let (selected, before) = statements.claim.selected();
                let message = match selected.read(&row, before) {
                    Read::Unread => return Found::Unread,
                    Read::Event(event) => Ok(message(*event)),
                    Read::Unsent(unsent) => Err(fault(&unsent)),
                };
                ids.insert(id.clone());
                let attempts = selected.attempts(&row, before);
                Found::Locked(Row { token: id.clone().into_bytes(), id, attempts, message })
            });
            ClaimedRow { aggregate: row.aggregate, found }
        });
        let rows: Vec<ClaimedRow> = rows.collect();
        let claim = self.next.get();
        self.next.set(claim.wrapping_add(1));
        self.claims.borrow_mut().insert(claim, OpenClaim { connection, statements, ids });
        Claimed { claim: Some(claim), refused: false, seen, rows }
    }
}

/// The host's marks, of rows that this claim has.
fn marking(marks: Vec<Mark>, ids: &BTreeSet<String>) -> Result<Marking, PluginError> {
    let mut marking = Marking::default();
    for mark in marks {
        let id = String::from_utf8(mark.token).ok().filter(|id| ids.contains(id));
        let id = id.ok_or_else(|| PluginError::internal("a mark of a row that this claim doesn't have"))?;
        let text = |fault: &Fault| error_text(&fault.code, &fault.reason);
        match mark.fate {
            Fate::Published => marking.published.push(id),
            Fate::Again(Again { after, attempts, cause }) => {
                marking.others.push(Other { id, attempts, error: cause.as_ref().map(text), after: Some(after) });
            }
            Fate::Failed(Failed { attempts, cause }) => {
                marking.others.push(Other { id, attempts, error: Some(text(&cause)), after: None });
            }
        }
    }
    Ok(marking)
}

fn message(event: Event) -> RowMessage {
    RowMessage {
        tenant: event.tenant,
        key: event.key,
        context: event.context,
        headers: event.headers,
        content_type: Some(event.content_type),
        event_type: event.event_type,
        event_version: event.event_version,
        envelope_id: event.envelope_id,
        correlation_id: event.correlation_id,
        causation_id: event.causation_id,
        reply_to: event.reply_to,
        occurred_at: event.occurred_at,
        attributes: event.attributes,
        ..RowMessage::new(event.id, event.topic, event.payload)
    }
}

fn fault(unsent: &Unsent) -> Fault {
    let after = match unsent {
        Unsent::Future(millis) => Some(*millis),
        Unsent::Invalid(_) => None,
    };
    Fault::new(unsent.code(), unsent.reason()).with_after(after)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn mark(id: &str, fate: Fate) -> Mark {
        Mark { token: id.as_bytes().to_vec(), fate }
    }

    #[test]
    fn marks_are_sorted_by_their_fate() {
        let ids = BTreeSet::from(["1".to_owned(), "2".to_owned(), "3".to_owned()]);
        let cause = Fault::new("NATS.ACK_TIMEOUT", "no answer");
        let marks = vec![
            mark("1", Fate::Published),
            mark("2", Fate::Again(Again { after: 250, attempts: 1, cause: Some(cause.clone()) })),
            mark("3", Fate::Failed(Failed { attempts: 0, cause })),
        ];
        let marking = marking(marks, &ids).unwrap();
        assert_eq!(marking.published, ["1"]);
        let error = Some("NATS.ACK_TIMEOUT: no answer".to_owned());
        assert_eq!(
            marking.others,
            [
                Other { id: "2".to_owned(), attempts: 1, error: error.clone(), after: Some(250) },
                Other { id: "3".to_owned(), attempts: 0, error, after: None },
            ]
        );
    }

    #[test]
    fn a_mark_of_another_claims_row_is_a_defect() {
        assert!(marking(vec![mark("9", Fate::Published)], &BTreeSet::new()).is_err());
    }

    #[test]
    fn what_waits_for_its_time_says_how_long() {
        assert_eq!(fault(&Unsent::Future(1_500)).after, Some(1_500));
        let invalid = fault(&Unsent::Invalid("it has no event type".to_owned()));
        assert_eq!((invalid.code.as_str(), invalid.after), ("INVALID_OUTBOX", None));
    }
}
