//! Where partitions are taken up: behind what the group has, at their start where it has nothing or the topic is another one, and
//! behind what was removed unread.

use waybill_kafka_wire::Uuid;
use waybill_plugin::broker::Endpoint;
use waybill_plugin::deadline::Deadline;
use waybill_plugin::source::{Overtaken, overtaken};
use waybill_plugin::transport::PluginError;

use crate::assignor::Partitions;
use crate::client::Client;
use crate::offsets::{self, EARLIEST, LATEST, Place};
use crate::reader::Reader;
use crate::share::Share;

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
        let ours: Vec<Place> = partitions.iter().flat_map(numbers).collect();
        self.revoke(|place| !ours.contains(place));
        let new: Vec<Place> = ours.into_iter().filter(|place| !self.shares.contains_key(place)).collect();
        if new.is_empty() {
            return Ok(());
        }
        let began = self.begin(client, endpoint, &new, deadline).await;
        if began.is_err() {
            // It is begun once more when the group was joined once more.
            self.revoke(|place| new.contains(place));
            self.member.leave();
        }
        began
    }

    async fn begin(
        &mut self,
        client: &mut Client,
        endpoint: &Endpoint<Client>,
        new: &[Place],
        deadline: Deadline,
    ) -> Result<(), PluginError> {
        let names: Vec<&str> = new.iter().map(|(topic, _)| topic.as_str()).collect();
        client.cluster.refresh(endpoint, &names, false, deadline).await?;
        let committed = offsets::committed(&mut self.member, client, endpoint, new, deadline).await?;
        let first = offsets::bounds(client, endpoint, new, EARLIEST, deadline).await?;
        for place in new {
            let id = topic_id(client, &place.0);
            let Some(first) = first.get(place).copied() else {
                let reason = format!("no server leads partition {} of `{}` now", place.1, place.0);
                return Err(PluginError::unavailable("KAFKA.NO_LEADER", reason));
            };
            let mut position = first;
            let mut known = -1;
            if let Some(committed) = committed.get(place) {
                if committed.topic.is_some_and(|topic| !topic.is_nil() && topic != id) {
                    self.made_anew += 1;
                } else {
                    known = committed.offset;
                    position = committed.offset.max(first);
                    self.missed(place, position - committed.offset)?;
                }
            }
            self.born += 1;
            self.shares.insert(place.clone(), Share::new(place.clone(), id, self.born, position, known));
        }
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
        let unknown = |place: &Place| !matches!(client.cluster.topic(&place.0), Some(Ok(_)));
        if !self.astray && !self.shares.keys().any(unknown) {
            return Ok(());
        }
        let names: Vec<String> = self.shares.keys().map(|(topic, _)| topic.clone()).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        client.cluster.refresh(endpoint, &names, false, deadline).await?;
        self.astray = false;
        self.member.notice_growth(&client.cluster);
        let anew: Vec<Place> = self
            .shares
            .values()
            .filter(|share| {
                let known = client.cluster.topic(&share.place.0);
                known.is_some_and(|topic| topic.is_ok_and(|topic| topic.id != share.topic))
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
        let Some(first) = first.get(place).copied() else {
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
        let (Some(first), Some(end)) = (first.get(place).copied(), end.get(place).copied()) else {
            self.astray = true;
            return Ok(());
        };
        let Some(share) = self.shares.get_mut(place) else { return Ok(()) };
        if share.position > end {
            return self.begin_anew(client, endpoint, place, deadline).await;
        }
        if share.position < first {
            let count = first - share.position;
            share.position = first;
            self.missed(place, count)?;
        }
        Ok(())
    }
}

fn topic_id(client: &Client, name: &str) -> Uuid {
    match client.cluster.topic(name) {
        Some(Ok(topic)) => topic.id,
        _ => Uuid::nil(),
    }
}
