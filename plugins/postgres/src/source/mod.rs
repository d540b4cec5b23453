//! The table as a source of the inbox: rows are brought in, stored or handled here, and marked when the host has settled them.
//!
//! - `lane`: how much is asked for; `sorting`: what a claim's rows come to
//! - `transactions`: rows in hand by their locks; `rows`: by the word for it in their status, `in_hand` as long as that counts

mod in_hand;
mod lane;
mod rows;
mod sorting;
mod transactions;

use std::time::Instant;

use waybill_plugin::deadline::Deadline;
use waybill_plugin::source::{Delivery, Notices, Pulled, Settled, Settlement, Source, SourceArgs};
use waybill_plugin::transport::{CallInfo, HealthReport, OpenArgs, OpenPurpose, Opened, PluginError};

use crate::config::{ClaimBy, Config};
use crate::database::Database;
use crate::listener::Listener;
use lane::{Lane, Room, Window};
use rows::Rows;
use transactions::Transactions;

/// Transactions that one instance has open at once: while one is settled, the next is claimed.
const TRANSACTIONS: u32 = 2;
/// Calls beside `pull`: settlements, signs of life.
const CALLS_BESIDE: u32 = 3;
/// Between two looks while a call waits, where nothing tells of new rows: no shorter, in milliseconds.
const POLL_MS_MIN: u32 = 5;

/// A table whose rows are brought in.
pub(crate) struct Stored {
    database: Database,
    listener: Listener,
    hand: Hand,
    clock: Instant,
    window_bytes: u32,
}

/// How rows are in hand.
enum Hand {
    Transactions(Transactions),
    Rows(Rows),
}

/// What one look at the table brought.
#[derive(Debug, Default)]
struct Brought {
    deliveries: Vec<Delivery>,
    /// Nothing more is due, as far as could be seen.
    is_all: bool,
}

impl Source for Stored {
    type Config = Config;

    async fn open(
        call: &CallInfo,
        args: &OpenArgs,
        wants: &SourceArgs,
        config: Config,
    ) -> Result<(Self, Opened), PluginError> {
        let by_row = config.own.claim == ClaimBy::Row;
        let listener = Listener::new(&config.own, args.purpose == OpenPurpose::Serve);
        let tick_every = listener.tick_every(&config.own);
        let connections = if by_row { 2 } else { TRANSACTIONS + 1 };
        let (database, peer) = Database::open(call, args, config, connections, None, by_row).await?;
        let statements = database.statements();
        if by_row && statements.words.is_none() {
            let why = "is `row`, and the table has no word for rows at work: map `columns.status` and `words.processing`, or write transaction";
            return Err(PluginError::invalid_config("claim", why));
        }
        let instances = args.instances.max(1);
        let window = Window { rows: wants.window, bytes: wants.window_bytes };
        let hand = match by_row {
            true => Hand::Rows(Rows::new(Lane::new(args.instance, instances), window)),
            false => {
                let lanes = instances.saturating_mul(TRANSACTIONS);
                let first = args.instance.saturating_mul(TRANSACTIONS);
                let lanes = (first..first + TRANSACTIONS).map(|lane| Lane::new(lane, lanes));
                Hand::Transactions(Transactions::new(lanes, window))
            }
        };
        let features: &[&str] =
            if by_row { &["reject", "extend", "replays-in-order"] } else { &["reject", "replays-in-order"] };
        let settle_within = if by_row { statements.table.claim_ttl } else { database.pool.config().own.settle_within };
        let opened = Opened {
            peer: Some(peer),
            max_concurrent_calls: 1 + CALLS_BESIDE,
            tick_every: Some(tick_every),
            features: features.iter().map(|name| (*name).to_owned()).collect(),
            ..Opened::new().settling_within(settle_within)
        };
        Ok((Self { database, listener, hand, clock: Instant::now(), window_bytes: wants.window_bytes }, opened))
    }

    async fn pull(&self, call: &CallInfo, max: u32, max_bytes: u32, wait: u32) -> Result<Pulled, PluginError> {
        let own = &self.database.pool.config().own;
        let room = Room {
            rows: max,
            bytes: max_bytes.min(self.window_bytes),
            most: self.window_bytes,
            payload: own.max_payload_bytes,
        };
        let until = Deadline::of_call(call.timeout).at_most(wait);
        loop {
            let brought = self.look_for_rows(call, room).await?;
            let left = until.left().filter(|_| brought.deliveries.is_empty() && !call.cancelled());
            let Some(left) = left else {
                let notices = self.notices();
                return Ok(
                    Pulled { caught_up: brought.is_all, ..Pulled::new(brought.deliveries) }.with_notices(notices)
                );
            };
            self.pause(call, left.min(own.poll_every).max(POLL_MS_MIN)).await?;
        }
    }

    async fn settle(&self, call: &CallInfo, items: Vec<Settlement>) -> Result<Vec<Settled>, PluginError> {
        match &self.hand {
            Hand::Transactions(transactions) => Ok(transactions.settle(call, &self.database, items, self.now()).await),
            Hand::Rows(rows) => rows.settle(call, &self.database, items, self.now()).await,
        }
    }

    async fn health(&self, call: &CallInfo) -> HealthReport {
        self.database.pool.health(call).await
    }

    async fn tick(&self, call: &CallInfo) -> Result<Notices, PluginError> {
        if let Hand::Transactions(transactions) = &self.hand {
            transactions.expire(call, &self.database, self.now()).await;
        }
        let waiting = self.listener.tick(call, &self.database).await?;
        Ok(Notices { waiting, ..self.notices() })
    }

    async fn close(&self, call: &CallInfo) {
        let deadline = Deadline::of_call(call.timeout);
        match &self.hand {
            Hand::Transactions(transactions) => transactions.close(call, &self.database, self.now()).await,
            Hand::Rows(rows) => rows.close(call, &self.database, self.now()).await,
        }
        self.listener.close(deadline).await;
        self.database.pool.close(call).await;
    }
}

impl Stored {
    /// Milliseconds since it was opened.
    fn now(&self) -> u64 {
        u64::try_from(self.clock.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    async fn look_for_rows(&self, call: &CallInfo, room: Room) -> Result<Brought, PluginError> {
        match &self.hand {
            Hand::Transactions(transactions) => transactions.pull(call, &self.database, room, self.now()).await,
            Hand::Rows(rows) => rows.pull(call, &self.database, room, self.now()).await,
        }
    }

    /// Waits until somebody notifies, or for the time of a poll; other calls go on meanwhile.
    async fn pause(&self, call: &CallInfo, millis: u32) -> Result<(), PluginError> {
        if self.listener.listens() {
            return self.listener.wait(call, &self.database, millis).await.map(|_| ());
        }
        let deadline = Deadline::of_call(call.timeout);
        let mut connection = self.database.pool.take(call, deadline).await?;
        let ended = connection.wait(millis).await;
        self.database.pool.give_back(connection, ended.as_ref().err(), deadline).await;
        ended.map(|_| ())
    }

    fn notices(&self) -> Notices {
        match &self.hand {
            Hand::Transactions(transactions) => Notices { lost: transactions.take_lost(), ..Notices::new() },
            Hand::Rows(rows) => match rows.take_expired(self.now()) {
                0 => Notices::new(),
                count => Notices::new().with_attribute("claims-expired", count.to_string()),
            },
        }
    }
}
