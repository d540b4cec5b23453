//! The bundled Kafka source: a static member of a consumer group, which hands over what transactions have committed and commits
//! up to the first gap.
//!
//! Each instance is a member by a name that lasts, so that a restart moves no partition. What isn't settled when an instance ends
//! comes again, in order, with all that followed it.
//! What this doesn't do: the group protocol of KIP-848, patterns of topics, retries (the host counts and waits).
//!
//! - `config`: what an operator may set; `provision`: topics, created when the operator asks for them
//! - `client`: the cluster as the pool keeps it; `reader`: what lasts between calls
//! - `member`: our place in the group; `assignor`: how it shares out; `offsets`: where it stands; `beginning`: where partitions
//!   are taken up
//! - `fetch`: what the leaders have; `share`: a partition that is ours; `delivery`: a record as a delivery

mod assignor;
mod beginning;
mod client;
mod config;
mod delivery;
mod fetch;
mod member;
mod offsets;
mod provision;
mod reader;
mod share;

use std::cell::RefCell;

use waybill_plugin::broker::Pool;
use waybill_plugin::deadline::Deadline;
use waybill_plugin::source::{Notices, Pulled, Settled, Settlement, Source, SourceArgs};
use waybill_plugin::transport::{
    CallInfo, ErrorKind, Health, HealthReport, OpenArgs, OpenPurpose, Opened, PluginError,
};

use crate::client::Client;
use crate::config::Config;
use crate::delivery::Mapping;
use crate::member::{HEARTBEAT_MS, Member};
use crate::reader::Reader;

waybill_plugin::manifest!();
waybill_plugin::export_source!(KafkaSource);
waybill_plugin::export_provision!(KafkaSource);

/// Codes of what goes wrong while the connections are well.
const OF_THE_GROUP: [&str; 4] = ["KAFKA.NO_LEADER", "KAFKA.COORDINATOR", "KAFKA.REBALANCED", "KAFKA.NO_TOPIC"];

struct KafkaSource {
    pool: Pool<Client>,
    /// Out while a call is under way: one runs at a time.
    reader: RefCell<Option<Reader>>,
}

impl Source for KafkaSource {
    type Config = Config;

    async fn open(
        call: &CallInfo,
        args: &OpenArgs,
        wants: &SourceArgs,
        config: Config,
    ) -> Result<(Self, Opened), PluginError> {
        let deadline = Deadline::of_call(call.timeout);
        let own = &config.own;
        let member = Member::new(&own.group, &own.member(&args.name, args.instance), &own.topics, own.session_timeout);
        let pool = Pool::<Client>::new(args, config)?;
        let mut client = pool.connect(deadline).await?;
        let opened = Opened {
            peer: Some(format!("kafka, {} servers, by {}", client.cluster.size(), client.cluster.address())),
            tick_every: Some(HEARTBEAT_MS),
            features: vec!["ordered-groups".to_owned(), "replays-in-order".to_owned()],
            ..Opened::new()
        };
        if args.purpose == OpenPurpose::Serve {
            let topics: Vec<&str> = pool.config().own.topics.iter().map(String::as_str).collect();
            client.cluster.refresh(pool.endpoint(), &topics, false, deadline).await?;
            for topic in topics {
                if let Some(Err(refusal)) = client.cluster.topic(topic) {
                    return Err(refusal.error());
                }
            }
        }
        pool.put(client, deadline).await;
        Ok((Self { pool, reader: RefCell::new(Some(Reader::new(member, wants))) }, opened))
    }

    async fn pull(&self, call: &CallInfo, max: u32, max_bytes: u32, wait: u32) -> Result<Pulled, PluginError> {
        let deadline = Deadline::of_call(call.timeout);
        let mut reader = self.take()?;
        let pulled = self.pull_into(&mut reader, call, max, max_bytes, wait, deadline).await;
        let pulled = pulled.map(|()| {
            let deliveries = if reader.is_quiet() { Vec::new() } else { reader.hand_over(max, max_bytes) };
            let caught_up = deliveries.is_empty() && reader.is_caught_up();
            Pulled { deliveries, caught_up, notices: reader.notices() }
        });
        self.reader.replace(Some(reader));
        pulled
    }

    async fn settle(&self, call: &CallInfo, items: Vec<Settlement>) -> Result<Vec<Settled>, PluginError> {
        let deadline = Deadline::of_call(call.timeout);
        let mut reader = self.take()?;
        let settled = reader.settle(&items);
        // What couldn't be committed is so at the next tick.
        if let Err(error) = self.with_client(&mut reader, call, deadline, Step::Commit).await {
            waybill_plugin::info!([("code", error.fault.code)], "not committed yet: {}", error.fault.reason);
        }
        self.reader.replace(Some(reader));
        Ok(settled)
    }

    async fn health(&self, call: &CallInfo) -> HealthReport {
        let report = self.pool.health(call).await;
        let is_in = self.reader.borrow().as_ref().is_none_or(|reader| reader.member.is_in());
        match report.status {
            Health::Ready if !is_in => HealthReport::new(Health::Degraded, "the group isn't joined yet"),
            _ => report,
        }
    }

    async fn tick(&self, call: &CallInfo) -> Result<Notices, PluginError> {
        let deadline = Deadline::of_call(call.timeout);
        let mut reader = self.take()?;
        let kept = self.with_client(&mut reader, call, deadline, Step::Keep).await;
        let notices = kept.map(|()| reader.notices());
        self.reader.replace(Some(reader));
        notices
    }

    async fn quiesce(&self, _: &CallInfo) -> Result<(), PluginError> {
        let mut reader = self.take()?;
        reader.quiesce();
        self.reader.replace(Some(reader));
        Ok(())
    }

    async fn close(&self, call: &CallInfo) {
        // A static member stays one until its session ends: whoever comes by its name has its partitions at once.
        if let Ok(mut reader) = self.take() {
            let deadline = Deadline::of_call(call.timeout);
            if let Err(error) = self.with_client(&mut reader, call, deadline, Step::CommitNow).await {
                waybill_plugin::warn!(
                    [("code", error.fault.code)],
                    "what was handled last comes again: {}",
                    error.fault.reason
                );
            }
        }
        self.pool.close(call).await;
    }
}

/// What is done with a client at hand.
#[derive(Clone, Copy)]
enum Step<'a> {
    /// Our place in the group, and commits that are due.
    Keep,
    /// Commits, if it is time.
    Commit,
    /// Commits.
    CommitNow,
    /// Our place, and then what is new: after so many milliseconds at most, so many bytes.
    Fetch(u32, u32, Mapping<'a>),
}

impl KafkaSource {
    fn take(&self) -> Result<Reader, PluginError> {
        self.reader.borrow_mut().take().ok_or_else(|| PluginError::internal("another call is under way"))
    }

    async fn pull_into(
        &self,
        reader: &mut Reader,
        call: &CallInfo,
        max: u32,
        max_bytes: u32,
        wait: u32,
        deadline: Deadline,
    ) -> Result<(), PluginError> {
        if reader.is_quiet() {
            return Ok(());
        }
        let (count, bytes) = reader.room();
        if reader.holds() || count == 0 || max == 0 {
            return self.with_client(reader, call, deadline, Step::Keep).await;
        }
        let own = &self.pool.config().own;
        let mapping = Mapping { id_header: &own.id_header, most: max_bytes };
        let bytes = own.fetch_bytes.min(u32::try_from(bytes).unwrap_or(u32::MAX)).max(1);
        let wait = wait.min(deadline.left().unwrap_or_default() / 2).min(HEARTBEAT_MS);
        self.with_client(reader, call, deadline, Step::Fetch(wait, bytes, mapping)).await
    }

    async fn with_client(
        &self,
        reader: &mut Reader,
        call: &CallInfo,
        deadline: Deadline,
        step: Step<'_>,
    ) -> Result<(), PluginError> {
        let mut client = self.pool.take(call, deadline).await?;
        let endpoint = self.pool.endpoint();
        let done = match step {
            Step::Keep => reader.keep(&mut client, endpoint, deadline).await,
            Step::Commit if !reader.is_commit_due() => Ok(()),
            Step::Commit | Step::CommitNow => reader.commit(&mut client, endpoint, deadline).await,
            Step::Fetch(wait, bytes, mapping) => match reader.keep(&mut client, endpoint, deadline).await {
                Ok(()) => reader.fetch(&mut client, endpoint, wait, bytes, mapping, deadline).await,
                kept => kept,
            },
        };
        let lost = done.as_ref().err().filter(|error| ends_client(error));
        self.pool.give_back(client, lost, deadline).await;
        done
    }
}

/// Whether a client is of no more use after this.
fn ends_client(error: &PluginError) -> bool {
    error.kind == ErrorKind::Unavailable && !OF_THE_GROUP.contains(&error.fault.code.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_outlives_what_only_the_group_says() {
        assert!(ends_client(&PluginError::unavailable("KAFKA.LOST", "gone")));
        assert!(!ends_client(&PluginError::unavailable("KAFKA.COORDINATOR", "moved")));
        assert!(!ends_client(&PluginError::denied("KAFKA.PERMISSIONS", "no")));
    }
}
