//! Where partitions are taken up: behind what the group has, at their start where it has nothing or the topic is another one, and
//! behind what was removed unread.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use waybill_kafka_wire::Uuid;
use waybill_plugin::broker::Endpoint;
use waybill_plugin::deadline::Deadline;
use waybill_plugin::source::{Overtaken, overtaken};
use waybill_plugin::transport::{ErrorKind, PluginError};

use crate::assignor::Partitions;
use crate::client::Client;
use crate::offsets::{self, Bounds, Committed, EARLIEST, LATEST, Place};
use crate::reader::Reader;
use crate::share::Share;

/// Time between two looks for a topic of the group that isn't there.
const LOOK_EVERY: Duration = Duration::from_secs(10);

impl Reader {
    /// Takes up what is ours now.
    pub(crate) async fn take_over(
        &mut self,
        client: &mut Client,
        endpoint: &Endpoint<Client>,
        partitions: &Partitions,
        deadline: Deadline,
    ) -> Result<(), PluginError> {
        let numbers = |(topic, numbers): (&String, &Vec<i32>)| {
            numbers.iter().map(|number| (topic.clone(), *number)).collect::<Vec<Place>>()
        };
        let ours: BTreeSet<Place> = partitions.iter().flat_map(numbers).collect();
        self.revoke(|place| !ours.contains(place));
        self.unbegun = ours.into_iter().filter(|place| !self.shares.contains_key(place)).collect();
        self.begin(client, endpoint, deadline).await
    }

    /// Begins what is ours and isn't read yet. What can't be begun now, because nobody leads it or its leader can't be reached, stays
    /// so and is tried again: the others go on meanwhile.
    async fn begin(
        &mut self,
        client: &mut Client,
        endpoint: &Endpoint<Client>,
        deadline: Deadline,
    ) -> Result<(), PluginError> {
        if self.unbegun.is_empty() {
            return Ok(());
        }
        let new: Vec<Place> = self.unbegun.iter().cloned().collect();
        let names: Vec<&str> = new.iter().map(|(topic, _)| topic.as_str()).collect();
        client.cluster.refresh(endpoint, &names, false, deadline).await?;
        let committed = offsets::committed(&mut self.member, client, endpoint, &new, deadline).await?;
        let Bounds { found: first, failed } = offsets::bounds(client, endpoint, &new, EARLIEST, deadline).await?;
        for place in &new {
            let Some(first) = first.get(place).copied() else {
                self.astray = true;
                continue;
            };
            self.begin_at(place, topic_id(client, &place.0), first, committed.get(place))?;
        }
        match failed {
            Some(error) if self.shares.is_empty() => Err(error),
            _ => Ok(()),
        }
    }

    /// Begins one: behind what the group has, or at its first offset.
    fn begin_at(
        &mut self,
        place: &Place,
        id: Uuid,
        first: i64,
        committed: Option<&Committed>,
    ) -> Result<(), PluginError> {
        let (mut position, mut known) = (first, -1);
        if let Some(committed) = committed {
            if committed.topic.is_some_and(|topic| is_another(topic, id)) {
                self.made_anew += 1;
            } else {
                known = committed.offset;
                position = committed.offset.max(first);
                self.missed(place, position - committed.offset)?;
            }
        }
        self.born += 1;
        self.unbegun.remove(place);
        self.shares.insert(place.clone(), Share::new(place.clone(), id, self.born, position, known));
        Ok(())
    }

    /// Messages were removed before they were read.
    fn missed(&mut self, place: &Place, count: i64) -> Result<(), PluginError> {
        let count = u64::try_from(count).unwrap_or(0);
        if count > 0 && matches!(self.on_overtaken, Overtaken::Stop) {
            let reason = format!(
                "{count} messages of partition {} of `{}` were removed before they were read (`retention.ms`, `retention.bytes`)",
                place.1, place.0
            );
            return Err(overtaken(reason));
        }
        self.overtaken += count;
        Ok(())
    }

    /// Asks again who leads what, where that was wrong, and whether a topic is another one now.
    pub(crate) async fn find_again(
        &mut self,
        client: &mut Client,
        endpoint: &Endpoint<Client>,
        deadline: Deadline,
    ) -> Result<(), PluginError> {
        let is_unknown = |name: &str| !matches!(client.cluster.topic(name), Some(Ok(_)));
        // A topic that is missing has no share, and is looked for all the same where we share out the group: less often.
        let is_time = self.looked_at.elapsed() >= LOOK_EVERY;
        let is_missing = is_time && self.member.shared_out().any(is_unknown);
        if !self.astray
            && self.unbegun.is_empty()
            && !is_missing
            && !self.shares.keys().any(|(name, _)| is_unknown(name))
        {
            return Ok(());
        }
        let ours = self.shares.keys().chain(&self.unbegun).map(|(name, _)| name.as_str());
        let names: BTreeSet<String> = ours.chain(self.member.shared_out()).map(str::to_owned).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        client.cluster.refresh(endpoint, &names, false, deadline).await?;
        self.astray = false;
        self.looked_at = Instant::now();
        self.member.notice_growth(&client.cluster);
        self.learn_ids(|name| topic_id(client, name));
        match self.begin(client, endpoint, deadline).await {
            // What is read already goes on meanwhile.
            Err(error) if error.kind == ErrorKind::Unavailable && !self.shares.is_empty() => self.astray = true,
            begun => begun?,
        }
        let anew: Vec<Place> = self
            .shares
            .values()
            .filter(|share| {
                let known = client.cluster.topic(&share.place.0);
                known.is_some_and(|topic| topic.is_ok_and(|topic| is_another(topic.id, share.topic)))
            })
            .map(|share| share.place.clone())
            .collect();
        for place in anew {
            self.begin_anew(client, endpoint, &place, deadline).await?;
        }
        Ok(())
    }

    /// The topic is another one of the same name: it is read from its start, and what is in hand of the old one is lost.
    async fn begin_anew(
        &mut self,
        client: &mut Client,
        endpoint: &Endpoint<Client>,
        place: &Place,
        deadline: Deadline,
    ) -> Result<(), PluginError> {
        let first = offsets::bounds(client, endpoint, std::slice::from_ref(place), EARLIEST, deadline).await?;
        let Some(first) = first.found.get(place).copied() else {
            self.astray = true;
            return Ok(());
        };
        let id = topic_id(client, &place.0);
        self.revoke(|other| other == place);
        self.born += 1;
        self.made_anew += 1;
        self.shares.insert(place.clone(), Share::new(place.clone(), id, self.born, first, -1));
        Ok(())
    }

    /// The position isn't there: what is kept begins behind it, or the topic ends before it.
    pub(crate) async fn out_of_range(
        &mut self,
        client: &mut Client,
        endpoint: &Endpoint<Client>,
        place: &Place,
        deadline: Deadline,
    ) -> Result<(), PluginError> {
        let one = std::slice::from_ref(place);
        let first = offsets::bounds(client, endpoint, one, EARLIEST, deadline).await?;
        let end = offsets::bounds(client, endpoint, one, LATEST, deadline).await?;
        let (Some(first), Some(end)) = (first.found.get(place).copied(), end.found.get(place).copied()) else {
            self.astray = true;
            return Ok(());
        };
        let Some(share) = self.shares.get(place) else { return Ok(()) };
        if share.position > end {
            // A topic that was made anew, or a leader that lost what others had. How much the second has got since nobody knows, so
            // what follows the loss isn't passed over unread: all of it comes again.
            return self.begin_anew(client, endpoint, place, deadline).await;
        }
        self.pass_over(place, first)
    }

    /// What lies before this offset was removed unread: goes on behind it, if the operator lets us.
    fn pass_over(&mut self, place: &Place, first: i64) -> Result<(), PluginError> {
        let Some(position) = self.shares.get(place).map(|share| share.position).filter(|position| *position < first)
        else {
            return Ok(());
        };
        // Before the position changes: where this stops the source, the next call has to stop it again.
        self.missed(place, first - position)?;
        if let Some(share) = self.shares.get_mut(place) {
            share.position = first;
        }
        Ok(())
    }

    /// Takes over ids that weren't known: a server before Kafka 2.8 told none.
    fn learn_ids(&mut self, id_of: impl Fn(&str) -> Uuid) {
        for share in self.shares.values_mut().filter(|share| share.topic.is_nil()) {
            share.topic = id_of(&share.place.0);
        }
    }
}

/// Whether these are two topics. One without an id may be any.
fn is_another(one: Uuid, other: Uuid) -> bool {
    !one.is_nil() && !other.is_nil() && one != other
}

fn topic_id(client: &Client, name: &str) -> Uuid {
    match client.cluster.topic(name) {
        Some(Ok(topic)) => topic.id,
        _ => Uuid::nil(),
    }
}

#[cfg(test)]
#[path = "beginning_tests.rs"]
mod tests;
