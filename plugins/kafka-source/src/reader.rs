//! What lasts between calls: our place in the group, the partitions that are ours, and what the host wasn't told yet.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use waybill_kafka_wire::Uuid;
use waybill_kafka_wire::refusal::{NONE, Refusal};
use waybill_plugin::broker::Endpoint;
use waybill_plugin::deadline::Deadline;
use waybill_plugin::source::{Delivery, Disposition, Notices, Overtaken, Settled, Settlement, SourceArgs};
use waybill_plugin::transport::{ErrorKind, PluginError};

use crate::client::Client;
use crate::delivery::Mapping;
use crate::fetch::{self, Fetched, Room};
use crate::member::{Joined, Member};
use crate::offsets::{self, Place};
use crate::share::{Share, parse};

/// Shortest time between two commits, but for what can't wait.
const COMMIT_EVERY: Duration = Duration::from_millis(200);
/// Longest wait of one fetch where several servers are asked, in milliseconds: the slowest of them decides.
const WAIT_OF_SEVERAL_MS: u32 = 50;

pub(crate) struct Reader {
    pub(crate) member: Member,
    window: usize,
    window_bytes: usize,
    pub(crate) on_overtaken: Overtaken,
    pub(crate) shares: BTreeMap<Place, Share>,
    /// Ours, and not read yet: nobody leads them, or the leader can't be reached.
    pub(crate) unbegun: BTreeSet<Place>,
    pub(crate) born: u64,
    committed_at: Instant,
    /// Which partition is handed over first.
    turn: usize,
    /// Partitions to be found again: their leader changed, or their topic.
    pub(crate) astray: bool,
    /// When topics were asked for last.
    pub(crate) looked_at: Instant,
    is_quiet: bool,
    revoked: Vec<String>,
    pub(crate) overtaken: u64,
    pub(crate) made_anew: u64,
}

impl Reader {
    pub(crate) fn new(member: Member, wants: &SourceArgs) -> Self {
        Self {
            member,
            window: wants.window as usize,
            window_bytes: wants.window_bytes as usize,
            on_overtaken: wants.on_overtaken,
            shares: BTreeMap::new(),
            unbegun: BTreeSet::new(),
            born: 0,
            committed_at: Instant::now(),
            turn: 0,
            astray: false,
            looked_at: Instant::now(),
            is_quiet: false,
            revoked: Vec::new(),
            overtaken: 0,
            made_anew: 0,
        }
    }

    pub(crate) fn is_quiet(&self) -> bool {
        self.is_quiet
    }

    /// Keeps our place, joins again where the group is shared out anew, and commits what is due.
    ///
    /// # Errors
    /// The group can't be asked, or refuses us; messages were removed unread and the operator wants to stop.
    pub(crate) async fn keep(
        &mut self,
        client: &mut Client,
        endpoint: &Endpoint<Client>,
        deadline: Deadline,
    ) -> Result<(), PluginError> {
        let is_kept = self.member.keep(client, endpoint, deadline).await?;
        if is_kept {
            if self.is_commit_due() {
                self.commit(client, endpoint, deadline).await?;
            }
            return Ok(());
        }
        if self.is_quiet {
            return Ok(());
        }
        if self.member.is_in() {
            self.commit(client, endpoint, deadline).await?;
        }
        // Others may join late: until they do, this is tried again and again, so that settlements have their turn.
        let joined = self.member.join(client, endpoint, deadline.at_most(endpoint.config().own.ack_timeout)).await;
        let joined = match joined {
            Err(error) if error.fault.code == "KAFKA.ACK_TIMEOUT" => None,
            joined => joined?,
        };
        match joined {
            Some(Joined::Kept(partitions)) => self.take_over(client, endpoint, &partitions, deadline).await,
            Some(Joined::Anew(partitions)) => {
                self.revoke(|_| true);
                self.take_over(client, endpoint, &partitions, deadline).await
            }
            None => Ok(()),
        }
    }

    pub(crate) fn revoke(&mut self, is_lost: impl Fn(&Place) -> bool) {
        let revoked = &mut self.revoked;
        self.shares.retain(|place, share| {
            let lost = is_lost(place);
            if lost {
                revoked.push(share.group());
            }
            !lost
        });
    }

    /// Whether it is time for a commit.
    pub(crate) fn is_commit_due(&self) -> bool {
        self.committed_at.elapsed() >= COMMIT_EVERY
    }

    /// Commits what is handled, up to the first gap of each partition.
    pub(crate) async fn commit(
        &mut self,
        client: &mut Client,
        endpoint: &Endpoint<Client>,
        deadline: Deadline,
    ) -> Result<(), PluginError> {
        let due = |share: &&Share| share.upto() > share.committed;
        let offsets: BTreeMap<Place, (i64, Uuid)> =
            self.shares.values().filter(due).map(|share| (share.place.clone(), (share.upto(), share.topic))).collect();
        self.committed_at = Instant::now();
        if offsets.is_empty() || !self.member.is_in() {
            return Ok(());
        }
        if offsets::commit(&mut self.member, client, endpoint, &offsets, deadline).await? {
            for (place, (offset, _)) in offsets {
                if let Some(share) = self.shares.get_mut(&place) {
                    share.committed = offset;
                }
            }
        }
        Ok(())
    }

    /// Unsettled deliveries that there is still room for, and their bytes.
    pub(crate) fn room(&self) -> (usize, usize) {
        let (mut count, mut bytes) = (self.window, self.window_bytes);
        for share in self.shares.values() {
            let (some, heavy) = share.unsettled();
            (count, bytes) = (count.saturating_sub(some), bytes.saturating_sub(heavy));
        }
        (count, bytes)
    }

    /// Whether something was fetched that isn't handed over.
    pub(crate) fn holds(&self) -> bool {
        self.shares.values().any(|share| !share.is_empty())
    }

    /// Fetches from all leaders.
    ///
    /// # Errors
    /// A partition refuses for good; nothing came from any leader.
    pub(crate) async fn fetch(
        &mut self,
        client: &mut Client,
        endpoint: &Endpoint<Client>,
        wait: u32,
        bytes: u32,
        mapping: Mapping<'_>,
        deadline: Deadline,
    ) -> Result<(), PluginError> {
        self.find_again(client, endpoint, deadline).await?;
        let places: Vec<Place> = self.shares.keys().cloned().collect();
        let nodes = offsets::by_leader(client, &places);
        self.astray |= nodes.values().map(Vec::len).sum::<usize>() < places.len();
        let wait = if nodes.len() > 1 { wait.min(WAIT_OF_SEVERAL_MS) } else { wait };
        let mut failure = Failure::default();
        for (topic, _) in &places {
            if let Some(Err(refusal)) = client.cluster.topic(topic) {
                failure.note(refusal.error());
            }
        }
        let mut reached = Vec::new();
        for (node, places) in nodes {
            let connect = deadline.at_most(endpoint.config().common.connect_timeout);
            match client.cluster.take(endpoint, node, connect).await {
                Ok(connection) => reached.push((node, connection, places)),
                Err(error) => {
                    self.astray = true;
                    failure.note(error);
                }
            }
        }
        // The time for answers begins behind the last connection: a server that is down takes none of the others' time.
        let time = deadline.at_most(wait.saturating_add(endpoint.config().own.ack_timeout));
        let mut asks = Vec::new();
        for (node, mut connection, places) in reached {
            let shares: Vec<&Share> = places.iter().filter_map(|place| self.shares.get(place)).collect();
            let request = fetch::request(&shares, wait, bytes);
            asks.push(async move {
                let answer = connection.ask(&request, time).await;
                (node, connection, answer)
            });
        }
        let (count, bytes) = self.room();
        let mut room = Room { count, bytes };
        let mut fetched = Vec::new();
        for (node, connection, answer) in join_all(asks).await {
            match answer {
                Ok(mut answer) => {
                    client.cluster.put(node, connection);
                    fetched.extend(fetch::take(&mut answer, &mut self.shares, &mut room, mapping));
                    if answer.error_code != NONE {
                        self.astray = true;
                        failure.note(Refusal::of(answer.error_code, "a fetch", None).error());
                    }
                }
                Err(error) => {
                    self.astray = true;
                    failure.note(error);
                }
            }
        }
        let is_fruitless = !fetched.iter().any(|(_, fetched)| *fetched == Fetched::Well);
        for (place, fetched) in fetched {
            match fetched {
                Fetched::Well => {}
                Fetched::Elsewhere => self.astray = true,
                Fetched::OutOfRange => {
                    if let Err(error) = self.out_of_range(client, endpoint, &place, deadline).await {
                        failure.note(error);
                    }
                }
                Fetched::Refused(refusal) => failure.note(refusal.error()),
            }
        }
        failure.end(is_fruitless)
    }

    /// Hands over what is held, as much as there is room for; one that is too large for the room goes alone.
    pub(crate) fn hand_over(&mut self, max: u32, max_bytes: u32) -> Vec<Delivery> {
        let (count, bytes) = self.room();
        let is_alone = count == self.window;
        let (mut count, mut bytes) = (count.min(max as usize), bytes.min(max_bytes as usize));
        let mut all = Vec::new();
        // Each pull begins with another partition.
        self.turn = self.turn.wrapping_add(1) % self.shares.len().max(1);
        let mut shares: Vec<&mut Share> = self.shares.values_mut().collect();
        let turn = self.turn.min(shares.len());
        shares.rotate_left(turn);
        for share in shares {
            while count > 0 {
                let room = if all.is_empty() && is_alone { usize::MAX } else { bytes };
                let size = share.next_size().unwrap_or(0);
                let Some(delivery) = share.hand_over(room) else { break };
                (count, bytes) = (count - 1, bytes.saturating_sub(size));
                all.push(delivery);
            }
        }
        all
    }

    /// Notes what became of deliveries.
    pub(crate) fn settle(&mut self, items: &[Settlement]) -> Vec<Settled> {
        let settle = |item: &Settlement| {
            let Some((born, place, offset)) = parse(&item.token) else { return Settled::Lost };
            let Some(share) = self.shares.get_mut(&place).filter(|share| share.born == born) else {
                return Settled::Lost;
            };
            let is_ours = match item.disposition {
                Disposition::Ack => share.acknowledge(offset),
                Disposition::Release => share.release(offset),
                _ => return Settled::unsupported(),
            };
            if is_ours { Settled::Done } else { Settled::Lost }
        };
        items.iter().map(settle).collect()
    }

    pub(crate) fn quiesce(&mut self) {
        self.is_quiet = true;
        for share in self.shares.values_mut() {
            share.drop_held();
        }
    }

    /// What the host wasn't told yet.
    pub(crate) fn notices(&mut self) -> Notices {
        let lag: u64 = self.shares.values().map(Share::lag).sum();
        let mut notices = Notices::new().with_attribute("lag", lag.to_string());
        notices.revoked = std::mem::take(&mut self.revoked);
        for (name, count) in [("overtaken", &mut self.overtaken), ("made-anew", &mut self.made_anew)] {
            if *count > 0 {
                notices = notices.with_attribute(name, std::mem::take(count).to_string());
            }
        }
        notices
    }

    /// Whether nothing waits, as far as every partition's leader said so.
    pub(crate) fn is_caught_up(&self) -> bool {
        let is_known = self.member.is_in() && !self.astray && self.unbegun.is_empty();
        is_known && self.shares.values().all(|share| share.end.is_some() && share.lag() == 0)
    }
}

/// What went wrong in a round over the leaders: the first of it, but for what only somebody's act can mend.
#[derive(Debug, Default)]
struct Failure(Option<PluginError>);

impl Failure {
    fn note(&mut self, error: PluginError) {
        if self.0.as_ref().is_none_or(|noted| is_passing(noted) && !is_passing(&error)) {
            self.0 = Some(error);
        }
    }

    /// What passes by itself is told where nothing came from anybody.
    fn end(self, is_fruitless: bool) -> Result<(), PluginError> {
        match self.0 {
            Some(error) if is_fruitless || !is_passing(&error) => Err(error),
            _ => Ok(()),
        }
    }
}

fn is_passing(error: &PluginError) -> bool {
    error.kind == ErrorKind::Unavailable
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_round_tells_what_an_operator_has_to_act_on_and_the_rest_where_nothing_came() {
        let passing = || PluginError::unavailable("KAFKA.LOST", "gone");
        let round = |errors: Vec<PluginError>, is_fruitless: bool| {
            let mut failure = Failure::default();
            errors.into_iter().for_each(|error| failure.note(error));
            failure.end(is_fruitless).err().map(|error| error.fault.code)
        };
        let lasting = PluginError::denied("KAFKA.PERMISSIONS", "no");
        assert_eq!(round(vec![passing(), lasting, passing()], false).as_deref(), Some("KAFKA.PERMISSIONS"));
        assert_eq!(round(vec![passing()], true).as_deref(), Some("KAFKA.LOST"));
        assert_eq!((round(vec![passing()], false), round(Vec::new(), true)), (None, None));
    }
}
