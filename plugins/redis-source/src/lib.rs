//! The bundled Redis source: reads a stream through a consumer group, and acknowledges each entry.
//!
//! What this consumer left behind is read first, then what others have left for too long, then what is new. Settlements go
//! over another connection meanwhile. What this doesn't do: several streams in one source, redirects of a cluster, retries
//! (the host counts and waits), a place for dead letters at the server (Redis has none).
//!
//! - `config`: what an operator may set; `provision`: stream and group, created when the operator asks for it
//! - `connection`: a connection as the pool keeps it; `state`: what is known between calls
//! - `read`: one pull; `entry`: an entry as a delivery; `settle`: settlements; `info`: lag, and what was removed unread

mod config;
mod connection;
mod entry;
mod info;
mod provision;
mod read;
mod settle;
mod state;

use waybill_plugin::broker::Pool;
use waybill_plugin::deadline::Deadline;
use waybill_plugin::source::{Disposition, Notices, Pulled, Settled, Settlement, Source, SourceArgs};
use waybill_plugin::transport::{CallInfo, ErrorKind, HealthReport, OpenArgs, OpenPurpose, Opened, PluginError};
use waybill_redis_wire::command::Commands;

use crate::config::{Config, Keys};
use crate::connection::Connection;
use crate::entry::{Mapping, of_pending};
use crate::read::{Group, Room, read};
use crate::state::State;

waybill_plugin::manifest!();
waybill_plugin::export_source!(RedisSource);
waybill_plugin::export_provision!(RedisSource);

/// Abilities of this source.
const FEATURES: [&str; 3] = ["nack", "extend", "delivery-count"];
/// Codes of what goes wrong while the connection is well: the stream, its group, our rights.
const OF_THE_STREAM: [&str; 4] = ["REDIS.NO_GROUP", "REDIS.PERMISSIONS", "REDIS.WRONG_TYPE", "SOURCE.OVERTAKEN"];

struct RedisSource {
    pool: Pool<Connection>,
    /// Our name in the group.
    consumer: String,
    /// Entries that may be unsettled.
    window: u32,
    state: State,
}

impl Source for RedisSource {
    type Config = Config;

    async fn open(
        call: &CallInfo,
        args: &OpenArgs,
        wants: &SourceArgs,
        config: Config,
    ) -> Result<(Self, Opened), PluginError> {
        let deadline = Deadline::of_call(call.timeout);
        let state = State::new(wants, config.own.ack_wait);
        let consumer = config.own.consumer(&args.name, args.instance);
        let pool = Pool::<Connection>::new(args, config)?;
        let mut connection = pool.connect(deadline).await?;
        let source = Self { pool, consumer, window: wants.window, state };
        let info = info::info(&mut connection, source.group(), deadline).await?;
        if args.purpose == OpenPurpose::Serve {
            source.state.stands(info.stream);
            source.state.overtaken(info.overtaken)?;
            source.state.lag(info.lag);
        }
        let wire = connection.wire();
        let opened = Opened {
            peer: Some(wire.version().map_or("redis".to_owned(), |version| format!("redis {version}"))),
            max_concurrent_calls: source.pool.config().common.connections,
            tick_every: Some(source.keys().ping_every),
            features: FEATURES.map(str::to_owned).into(),
            ..Opened::new().settling_within(source.pool.config().own.ack_wait)
        };
        source.pool.put(connection, deadline).await;
        Ok((source, opened))
    }

    async fn pull(&self, call: &CallInfo, max: u32, max_bytes: u32, wait: u32) -> Result<Pulled, PluginError> {
        if self.state.is_quiet() {
            return Ok(Pulled { caught_up: false, ..Pulled::new(Vec::new()) });
        }
        if self.state.has_some() {
            return Ok(self.state.pulled(max, max_bytes, false));
        }
        let most = self.state.room().min(max);
        if most == 0 {
            return Ok(self.state.pulled(max, max_bytes, false));
        }
        let deadline = Deadline::of_call(call.timeout);
        let mut connection = self.pool.take(call, deadline).await?;
        let keys = self.keys();
        let mapping = Mapping {
            stream: &keys.stream,
            payload_field: &keys.payload_field,
            ack_wait: keys.ack_wait,
            most: max_bytes,
        };
        let wait = wait.min(deadline.left().unwrap_or_default() / 2);
        let room = Room { entries: most, bytes: max_bytes, wait };
        let time = deadline.at_most(wait.saturating_add(keys.ack_timeout));
        let read = read(&mut connection, &self.state, self.group(), mapping, room, time).await;
        if read.as_ref().is_err_and(ends_connection) {
            self.state.again();
        }
        self.give_back(connection, read.as_ref().err(), deadline).await;
        let is_all = handed_over(read, self.state.has_some())?;
        Ok(self.state.pulled(max, max_bytes, is_all))
    }

    async fn settle(&self, call: &CallInfo, items: Vec<Settlement>) -> Result<Vec<Settled>, PluginError> {
        let deadline = Deadline::of_call(call.timeout);
        let mut connection = self.pool.take(call, deadline).await?;
        let mut settled = Ok(Vec::with_capacity(items.len()));
        for part in items.chunks(self.pool.config().common.window as usize) {
            let Ok(all) = &mut settled else { break };
            let time = deadline.at_most(self.keys().ack_timeout);
            match settle::settle(&mut connection, &self.state, self.group(), self.keys().ack_wait, part, time).await {
                Ok(more) => all.extend(more),
                Err(error) => settled = Err(error),
            }
        }
        self.give_back(connection, settled.as_ref().err(), deadline).await;
        settled
    }

    async fn health(&self, call: &CallInfo) -> HealthReport {
        self.pool.health(call).await
    }

    async fn tick(&self, call: &CallInfo) -> Result<Notices, PluginError> {
        self.pool.tick(call).await?;
        let deadline = Deadline::of_call(call.timeout);
        let mut connection = self.pool.take(call, deadline).await?;
        let looked = self.look_again(&mut connection, deadline.at_most(self.keys().ack_timeout)).await;
        self.give_back(connection, looked.as_ref().err(), deadline).await;
        looked?;
        Ok(self.state.notices())
    }

    async fn quiesce(&self, call: &CallInfo) -> Result<(), PluginError> {
        let held = self.state.quiesce();
        if held.is_empty() {
            return Ok(());
        }
        let release = |id: String| Settlement { token: id.into_bytes(), disposition: Disposition::Release };
        self.settle(call, held.into_iter().map(release).collect()).await.map(|_| ())
    }

    async fn close(&self, call: &CallInfo) {
        self.pool.close(call).await;
    }
}

impl RedisSource {
    fn keys(&self) -> &Keys {
        &self.pool.config().own
    }

    fn group(&self) -> Group<'_> {
        let Keys { stream, group, .. } = self.keys();
        Group { stream, group, consumer: &self.consumer }
    }

    async fn give_back(&self, connection: Connection, error: Option<&PluginError>, deadline: Deadline) {
        self.pool.give_back(connection, error.filter(|error| ends_connection(error)), deadline).await;
    }

    /// How far the group is behind, and which of our entries others have taken.
    async fn look_again(&self, connection: &mut Connection, deadline: Deadline) -> Result<(), PluginError> {
        let info = info::info(connection, self.group(), deadline).await?;
        self.state.lag(info.lag);
        self.state.stands(info.stream);
        self.state.overtaken(info.overtaken)?;
        let (in_hand, group) = (self.state.in_hand(), self.group());
        let (Some(first), Some(last)) =
            (in_hand.iter().min_by_key(|id| order(id)), in_hand.iter().max_by_key(|id| order(id)))
        else {
            return Ok(());
        };
        let most = self.window.max(u32::try_from(in_hand.len()).unwrap_or(u32::MAX)).saturating_mul(2);
        let mut commands = Commands::default();
        commands.add(&["XPENDING", group.stream, group.group, first, last, &most.to_string(), group.consumer]);
        let mut ours = None;
        connection
            .ask(commands, deadline, |_, reply| {
                let all: Vec<String> = of_pending(reply).map(|(id, ..)| id.to_owned()).collect();
                // A list that may go on tells nothing of those behind it.
                if !matches!(reply, waybill_redis_wire::resp::Reply::Error(_)) && all.len() < most as usize {
                    ours = Some(all);
                }
            })
            .await?;
        if let Some(ours) = ours {
            self.state.lose(in_hand.iter().filter(|id| !ours.contains(id)).cloned());
        }
        Ok(())
    }
}

/// Whether a connection is of no more use after this.
fn ends_connection(error: &PluginError) -> bool {
    !OF_THE_STREAM.contains(&error.fault.code.as_str()) && error.kind != ErrorKind::InvalidConfig
}

/// Whether everything was read. What came before the connection ended is ours all the same; where the operator wants to stop,
/// nothing is handed over.
fn handed_over(read: Result<bool, PluginError>, has_some: bool) -> Result<bool, PluginError> {
    match read {
        Err(error) if has_some && ends_connection(&error) => Ok(false),
        read => read,
    }
}

/// The order of entries, which isn't that of their texts.
fn order(id: &str) -> (u64, u64) {
    let (millis, number) = id.split_once('-').unwrap_or((id, "0"));
    (millis.parse().unwrap_or_default(), number.parse().unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lost_connection_keeps_what_came_and_being_overtaken_stops_all_the_same() {
        let lost = || PluginError::unavailable("REDIS.LOST", "gone");
        assert_eq!(handed_over(Err(lost()), true), Ok(false));
        assert_eq!(handed_over(Err(lost()), false), Err(lost()));
        let overtaken = || waybill_plugin::source::overtaken("gone unread");
        assert_eq!(handed_over(Err(overtaken()), true), Err(overtaken()));
        assert_eq!(handed_over(Ok(true), true), Ok(true));
    }

    #[test]
    fn entries_are_in_the_order_of_their_numbers() {
        assert!(order("9-0") < order("10-0") && order("10-2") < order("10-10"));
    }
}
