//! Our place in the group: found, joined, kept, and shared out where we lead it.

use std::collections::{BTreeMap, BTreeSet};
use std::thread;
use std::time::{Duration, Instant};

use bytes::Bytes;
use waybill_kafka_wire::ask::Ask;
use waybill_kafka_wire::messages::join_group_request::JoinGroupRequestProtocol;
use waybill_kafka_wire::messages::join_group_response::JoinGroupResponse;
use waybill_kafka_wire::messages::sync_group_request::SyncGroupRequestAssignment;
use waybill_kafka_wire::messages::{
    FindCoordinatorRequest, GroupId, HeartbeatRequest, JoinGroupRequest, SyncGroupRequest,
};
use waybill_kafka_wire::refusal::{MEMBER_ID_REQUIRED, NONE, Refusal};
use waybill_kafka_wire::{Cluster, StrBytes, text};
use waybill_plugin::broker::Endpoint;
use waybill_plugin::deadline::Deadline;
use waybill_plugin::transport::{ErrorKind, PluginError};

use crate::assignor::{self, Partitions, Peer, RANGE};
use crate::client::Client;

/// Longest time that the group waits for its members to join again, in milliseconds.
const REBALANCE_MS: i32 = 60_000;
/// Time between two signs of life.
pub(crate) const HEARTBEAT_MS: u32 = 3_000;
/// Longest wait for the server that keeps the group, in milliseconds: the cluster's first group makes it a topic to keep it in.
const FINDING_MS_MAX: u32 = 8_000;
/// Between two questions for it.
const FINDING_PAUSE: Duration = Duration::from_millis(100);
/// The protocol's numbers that end a membership.
const ILLEGAL_GENERATION: i16 = 22;
const UNKNOWN_MEMBER: i16 = 25;
/// The group is shared out anew; until we join we keep what we have.
pub(crate) const REBALANCING: i16 = 27;
const FENCED: i16 = 82;

/// A member of a group.
pub(crate) struct Member {
    group: String,
    instance: String,
    topics: Vec<String>,
    session: i32,
    id: String,
    generation: i32,
    coordinator: Option<i32>,
    is_in: bool,
    /// Joining has begun and isn't through.
    is_joining: bool,
    /// How many partitions were shared out, where we lead the group.
    counts: BTreeMap<String, usize>,
    /// When the last sign of life was answered.
    alive: Instant,
}

/// What joining came to.
#[derive(Debug)]
pub(crate) enum Joined {
    /// These are ours, and those that were so before stayed it all the time.
    Kept(Partitions),
    /// These are ours; meanwhile others may have had them.
    Anew(Partitions),
}

impl Member {
    pub(crate) fn new(group: &str, instance: &str, topics: &[String], session_timeout: u32) -> Self {
        Self {
            group: group.to_owned(),
            instance: instance.to_owned(),
            topics: topics.to_vec(),
            session: i32::try_from(session_timeout).unwrap_or(i32::MAX),
            id: String::new(),
            generation: -1,
            coordinator: None,
            is_in: false,
            is_joining: false,
            counts: BTreeMap::new(),
            alive: Instant::now(),
        }
    }

    pub(crate) fn is_in(&self) -> bool {
        self.is_in
    }

    pub(crate) fn group(&self) -> GroupId {
        GroupId(text(&self.group))
    }

    pub(crate) fn instance(&self) -> Option<StrBytes> {
        Some(text(&self.instance))
    }

    pub(crate) fn id(&self) -> StrBytes {
        text(&self.id)
    }

    pub(crate) fn generation(&self) -> i32 {
        self.generation
    }

    /// Asks the server that keeps the group.
    ///
    /// # Errors
    /// It isn't found, or can't be reached.
    pub(crate) async fn ask<R: Ask>(
        &mut self,
        client: &mut Client,
        endpoint: &Endpoint<Client>,
        request: &R,
        deadline: Deadline,
    ) -> Result<R::Answer, PluginError> {
        let node = match self.coordinator {
            Some(node) => node,
            None => self.find(client, endpoint, deadline).await?,
        };
        // Without the word of its answer another server may keep the group by now.
        self.coordinator = None;
        let mut connection = client.cluster.take(endpoint, node, deadline).await?;
        let answer = connection.ask(request, deadline).await?;
        client.cluster.put(node, connection);
        self.coordinator = Some(node);
        Ok(answer)
    }

    async fn find(
        &mut self,
        client: &mut Client,
        endpoint: &Endpoint<Client>,
        deadline: Deadline,
    ) -> Result<i32, PluginError> {
        let request = FindCoordinatorRequest::default().with_key(text(&self.group)).with_key_type(0);
        let patience = deadline.at_most(FINDING_MS_MAX);
        let answer = loop {
            let answer = client.cluster.ask_any(endpoint, &request, deadline).await?;
            if answer.error_code == NONE {
                break answer;
            }
            let said = answer.error_message.as_ref().map(|said| said.as_str());
            let refusal = Refusal::of(answer.error_code, &format!("group `{}`", self.group), said);
            if refusal.code != "KAFKA.COORDINATOR" || patience.left().is_none() {
                return Err(refusal.error());
            }
            thread::sleep(FINDING_PAUSE);
        };
        client.cluster.refresh(endpoint, &[], false, deadline).await?;
        Ok(answer.node_id.0)
    }

    /// Where we lead the group and a topic has more partitions than were shared out: joins again, so that these are somebody's.
    pub(crate) fn notice_growth(&mut self, cluster: &Cluster) {
        let count_of = |name: &str| cluster.topic(name)?.ok().map(|topic| topic.leaders.len());
        self.is_joining |= self.is_in && has_changed(&self.counts, count_of);
    }

    /// Topics that were shared out, where we lead the group: missing ones, too.
    pub(crate) fn shared_out(&self) -> impl Iterator<Item = &str> {
        self.counts.keys().map(String::as_str)
    }

    /// Takes the group's word on a request. False if the group is shared out anew.
    ///
    /// # Errors
    /// It refuses us for another reason.
    pub(crate) fn heard(&mut self, number: i16) -> Result<bool, PluginError> {
        match number {
            NONE => Ok(true),
            REBALANCING => Ok(false),
            ILLEGAL_GENERATION | UNKNOWN_MEMBER => {
                self.leave();
                Ok(false)
            }
            FENCED => {
                self.leave();
                let error = Refusal::of(FENCED, &format!("member `{}`", self.instance), None).error();
                Err(PluginError { kind: ErrorKind::Fenced, ..error })
            }
            number => {
                let refusal = Refusal::of(number, &format!("group `{}`", self.group), None);
                if refusal.code == "KAFKA.COORDINATOR" {
                    self.coordinator = None;
                }
                Err(refusal.error())
            }
        }
    }

    /// What we had may be others': the group has given us up, or is to be joined as if it had.
    pub(crate) fn leave(&mut self) {
        self.is_in = false;
        self.id = String::new();
        self.generation = -1;
    }

    /// Gives a sign of life if it is time for one. False if the group is shared out anew.
    ///
    /// # Errors
    /// The group can't be asked, or refuses us.
    pub(crate) async fn keep(
        &mut self,
        client: &mut Client,
        endpoint: &Endpoint<Client>,
        deadline: Deadline,
    ) -> Result<bool, PluginError> {
        if !self.is_in || self.is_joining {
            return Ok(false);
        }
        if self.alive.elapsed() < Duration::from_millis(u64::from(HEARTBEAT_MS) / 2) {
            return Ok(true);
        }
        let request = HeartbeatRequest::default()
            .with_group_id(self.group())
            .with_generation_id(self.generation)
            .with_member_id(self.id())
            .with_group_instance_id(self.instance());
        let answer = self.ask(client, endpoint, &request, deadline).await?;
        // Only the answer to this one says that the group is shared out anew: a commit is taken meanwhile.
        self.alive = Instant::now();
        self.heard(answer.error_code)
    }

    /// Joins, and answers what is ours; none if it has to be tried again.
    ///
    /// # Errors
    /// The group can't be asked, or refuses us.
    pub(crate) async fn join(
        &mut self,
        client: &mut Client,
        endpoint: &Endpoint<Client>,
        deadline: Deadline,
    ) -> Result<Option<Joined>, PluginError> {
        let was_in = self.is_in;
        self.is_joining = true;
        let wants = JoinGroupRequestProtocol::default()
            .with_name(text(RANGE))
            .with_metadata(Bytes::from(assignor::subscription(&self.topics)));
        let request = JoinGroupRequest::default()
            .with_group_id(self.group())
            .with_session_timeout_ms(self.session)
            .with_rebalance_timeout_ms(REBALANCE_MS)
            .with_member_id(self.id())
            .with_group_instance_id(self.instance())
            .with_protocol_type(text("consumer"))
            .with_protocols(vec![wants]);
        let answer = self.ask(client, endpoint, &request, deadline).await?;
        if answer.error_code == MEMBER_ID_REQUIRED {
            self.id = answer.member_id.as_str().to_owned();
            return Ok(None);
        }
        if !self.heard(answer.error_code)? {
            return Ok(None);
        }
        self.id = answer.member_id.as_str().to_owned();
        self.generation = answer.generation_id;
        let mut shares = Vec::new();
        self.counts.clear();
        if answer.leader == answer.member_id {
            shares = self.share_out(client, endpoint, &answer, deadline).await?;
        }
        if answer.skip_assignment {
            // KIP-814: the group stays shared out as it was, and we watch its topics all the same.
            shares.clear();
        }
        let request = SyncGroupRequest::default()
            .with_group_id(self.group())
            .with_generation_id(self.generation)
            .with_member_id(self.id())
            .with_group_instance_id(self.instance())
            .with_protocol_type(Some(text("consumer")))
            .with_protocol_name(Some(text(RANGE)))
            .with_assignments(shares);
        let synced = self.ask(client, endpoint, &request, deadline).await?;
        if !self.heard(synced.error_code)? {
            return Ok(None);
        }
        let partitions = assignor::partitions_of(&synced.assignment);
        let strange =
            || PluginError::unavailable("KAFKA.PROTOCOL", "the group's leader shares out in a way that can't be read");
        let partitions = partitions.ok_or_else(strange)?;
        // Who is alone and was spared the sharing out sees here whether partitions were added meanwhile: joining once more gives them.
        let is_alone = answer.skip_assignment && answer.members.len() == 1;
        (self.is_in, self.is_joining) = (true, is_alone && is_short(&self.counts, &partitions));
        self.alive = Instant::now();
        Ok(Some(if was_in { Joined::Kept(partitions) } else { Joined::Anew(partitions) }))
    }

    async fn share_out(
        &mut self,
        client: &mut Client,
        endpoint: &Endpoint<Client>,
        joined: &JoinGroupResponse,
        deadline: Deadline,
    ) -> Result<Vec<SyncGroupRequestAssignment>, PluginError> {
        let peers: Vec<Peer> = joined
            .members
            .iter()
            .map(|member| Peer {
                instance: member.group_instance_id.as_ref().map(|name| name.as_str().to_owned()),
                id: member.member_id.as_str().to_owned(),
                topics: assignor::topics_of(&member.metadata).unwrap_or_default(),
            })
            .collect();
        let topics: BTreeSet<&str> = peers.iter().flat_map(|peer| &peer.topics).map(String::as_str).collect();
        let names: Vec<&str> = topics.into_iter().collect();
        client.cluster.refresh(endpoint, &names, false, deadline).await?;
        let count = |name: &&str| match client.cluster.topic(name) {
            Some(Ok(topic)) => ((*name).to_owned(), topic.leaders.len()),
            // It is counted, so that it is noticed when it comes.
            _ => ((*name).to_owned(), 0),
        };
        let counts: BTreeMap<String, usize> = names.iter().map(count).collect();
        self.counts.clone_from(&counts);
        let shares = assignor::range(&peers, &counts).into_iter().map(|(member, partitions)| {
            SyncGroupRequestAssignment::default()
                .with_member_id(text(&member))
                .with_assignment(Bytes::from(assignor::assignment(&partitions)))
        });
        Ok(shares.collect())
    }
}

/// Whether a topic that is there has another number of partitions than were shared out.
fn has_changed(counts: &BTreeMap<String, usize>, count_of: impl Fn(&str) -> Option<usize>) -> bool {
    counts.iter().any(|(name, count)| count_of(name).is_some_and(|now| now != *count))
}

/// Whether there are more partitions than we got.
fn is_short(counts: &BTreeMap<String, usize>, ours: &Partitions) -> bool {
    counts.values().sum::<usize>() > ours.values().map(Vec::len).sum::<usize>()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(orders: usize, bills: usize) -> BTreeMap<String, usize> {
        BTreeMap::from([("orders".to_owned(), orders), ("bills".to_owned(), bills)])
    }

    #[test]
    fn a_topic_that_was_missing_and_comes_is_noticed_and_one_that_goes_is_not() {
        let now = |name: &str| (name == "orders").then_some(3);
        assert!(has_changed(&counts(0, 0), now) && has_changed(&counts(2, 0), now));
        assert!(!has_changed(&counts(3, 0), now) && !has_changed(&counts(3, 5), now));
    }

    #[test]
    fn who_is_alone_sees_that_partitions_were_added_meanwhile() {
        let ours = Partitions::from([("orders".to_owned(), vec![0, 1])]);
        assert!(is_short(&counts(3, 0), &ours) && is_short(&counts(2, 1), &ours));
        assert!(!is_short(&counts(2, 0), &ours));
    }
}
