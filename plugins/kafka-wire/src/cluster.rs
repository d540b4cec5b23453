//! The servers of a cluster, and which of them leads what.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use kafka_protocol::messages::metadata_request::MetadataRequestTopic;
use kafka_protocol::messages::metadata_response::{MetadataResponse, MetadataResponseTopic};
use kafka_protocol::messages::{MetadataRequest, TopicName};
use uuid::Uuid;
use waybill_plugin::broker::{Address, Endpoint, Session};
use waybill_plugin::deadline::Deadline;
use waybill_plugin::transport::PluginError;

use crate::ask::Ask;
use crate::connection::{CODES, Connection};
use crate::login::Identity;
use crate::refusal::{NONE, Refusal};
use crate::{SCHEME, text};

/// After this time a topic is asked for again: partitions may have been added.
const TOPIC_AGE_MAX: Duration = Duration::from_secs(300);
/// Above so many topics those go that say nothing any more: their names come from messages.
const TOPICS_MAX: usize = 10_000;

/// Makes connections that are logged in.
#[allow(async_fn_in_trait, reason = "an instance has one thread; nothing here can be `Send`")]
pub trait Dialer {
    /// Connects to one server.
    ///
    /// # Errors
    /// Not reachable, of another protocol, or it refuses us.
    async fn dial(&self, address: &Address, deadline: Deadline) -> Result<Connection, PluginError>;
}

impl<S: Session<Shared: AsRef<Identity>>> Dialer for Endpoint<S> {
    async fn dial(&self, address: &Address, deadline: Deadline) -> Result<Connection, PluginError> {
        let secure = self.wants_tls(address);
        // The first may tell which mechanism the second has to take.
        for _ in 0..2 {
            let link = self.connect(address, secure, deadline).await?;
            if let Some(connection) = Connection::open(link, self.shared().as_ref(), secure, deadline).await? {
                return Ok(connection);
            }
        }
        Err(PluginError::unavailable(CODES.refused, "the server changed its mechanisms meanwhile"))
    }
}

/// A topic as the cluster tells of it.
#[derive(Clone, Debug)]
pub struct Topic {
    /// Another one when the topic was made anew; nil before Kafka 2.8.
    pub id: Uuid,
    /// Who leads each partition; none while nobody does.
    pub leaders: Vec<Option<i32>>,
    at: Instant,
}

/// A cluster through the connections of one session.
pub struct Cluster {
    address: Address,
    nodes: HashMap<i32, Address>,
    open: HashMap<i32, Connection>,
    /// The connection by which we came in, if no server goes by its address.
    seed: Option<Connection>,
    topics: HashMap<String, Result<Topic, Refusal>>,
    controller: i32,
    /// Servers that weren't told yet.
    discovered: Option<Vec<String>>,
}

impl Cluster {
    /// Comes in by one server and asks it for the others.
    ///
    /// # Errors
    /// It can't be reached, or refuses us.
    pub async fn enter(dialer: &impl Dialer, address: &Address, deadline: Deadline) -> Result<Self, PluginError> {
        let seed = dialer.dial(address, deadline).await?;
        let mut cluster = Self {
            address: address.clone(),
            nodes: HashMap::new(),
            open: HashMap::new(),
            seed: Some(seed),
            topics: HashMap::new(),
            controller: -1,
            discovered: None,
        };
        cluster.refresh(dialer, &[], false, deadline).await.map_err(|mut error| {
            if error.fault.code == CODES.lost {
                error.fault.reason.push_str("; a port with SASL does so without credentials, one with TLS without it");
            }
            error
        })?;
        Ok(cluster)
    }

    /// The server by which we came in.
    pub fn address(&self) -> &Address {
        &self.address
    }

    /// How many servers there are.
    pub fn size(&self) -> usize {
        self.nodes.len()
    }

    /// The server that creates topics.
    pub fn controller(&self) -> i32 {
        self.controller
    }

    /// The servers' addresses, if others were told since this was asked last.
    pub fn take_discovered(&mut self) -> Option<Vec<String>> {
        self.discovered.take()
    }

    /// A topic, or why there is none; none where it wasn't asked for, or too long ago.
    pub fn topic(&self, name: &str) -> Option<Result<&Topic, &Refusal>> {
        match self.topics.get(name)? {
            Ok(topic) if topic.at.elapsed() >= TOPIC_AGE_MAX => None,
            known => Some(known.as_ref()),
        }
    }

    /// How many partitions a topic has; none where that isn't known.
    pub fn partitions(&self, name: &str) -> Option<usize> {
        self.topic(name)?.ok().map(|topic| topic.leaders.len())
    }

    /// Asks any server for all servers and for these topics. `create`: one that isn't there is made, if the cluster allows it.
    ///
    /// # Errors
    /// No server answers.
    pub async fn refresh(
        &mut self,
        dialer: &impl Dialer,
        topics: &[&str],
        create: bool,
        deadline: Deadline,
    ) -> Result<(), PluginError> {
        let named = |name: &&str| MetadataRequestTopic::default().with_name(Some(TopicName(text(name))));
        let request = MetadataRequest::default()
            .with_topics(Some(topics.iter().map(named).collect()))
            .with_allow_auto_topic_creation(create);
        let answer = self.ask_any(dialer, &request, deadline).await?;
        self.learn(answer);
        Ok(())
    }

    /// Asks whichever server answers.
    ///
    /// # Errors
    /// None does.
    pub async fn ask_any<R: Ask>(
        &mut self,
        dialer: &impl Dialer,
        request: &R,
        deadline: Deadline,
    ) -> Result<R::Answer, PluginError> {
        if let Some(seed) = &mut self.seed {
            match seed.ask(request, deadline).await {
                Ok(answer) => return Ok(answer),
                Err(error) if self.nodes.is_empty() => return Err(error),
                Err(_) => self.seed = None,
            }
        }
        let mut order: Vec<i32> = self.nodes.keys().copied().collect();
        order.sort_by_key(|node| !self.open.contains_key(node));
        let mut failed = None;
        for (tried, node) in order.iter().enumerate() {
            // A silent server leaves time for those behind it.
            let left = u32::try_from(order.len() - tried).unwrap_or(u32::MAX).max(1);
            let time = deadline.at_most(deadline.left().unwrap_or(0) / left);
            let mut connection = match self.take(dialer, *node, time).await {
                Ok(connection) => connection,
                Err(error) => {
                    failed.get_or_insert(error);
                    continue;
                }
            };
            match connection.ask(request, time).await {
                Ok(answer) => {
                    self.put(*node, connection);
                    return Ok(answer);
                }
                Err(error) => {
                    failed.get_or_insert(error);
                }
            }
        }
        Err(failed.unwrap_or_else(|| PluginError::unavailable(CODES.refused, "no server of the cluster is known")))
    }

    /// A connection to one server, for the time until it is [`Self::put`] back.
    ///
    /// # Errors
    /// It isn't known, or can't be reached.
    pub async fn take(
        &mut self,
        dialer: &impl Dialer,
        node: i32,
        deadline: Deadline,
    ) -> Result<Connection, PluginError> {
        if let Some(mut connection) = self.open.remove(&node)
            && connection.catch_up().await.is_ok()
        {
            return Ok(connection);
        }
        let Some(address) = self.nodes.get(&node) else {
            return Err(PluginError::unavailable("KAFKA.NO_LEADER", format!("server {node} isn't in the cluster now")));
        };
        dialer.dial(address, deadline).await.map_err(|mut error| {
            error.fault.reason = format!("{address}: {}", error.fault.reason);
            error
        })
    }

    /// Keeps a connection that [`Self::take`] gave. One that failed isn't put back.
    pub fn put(&mut self, node: i32, connection: Connection) {
        self.open.insert(node, connection);
    }

    /// Looks at the idle connections, and lets those go that have ended: the next question makes another.
    pub async fn catch_up(&mut self) {
        for (node, mut connection) in std::mem::take(&mut self.open) {
            if connection.catch_up().await.is_ok() {
                self.open.insert(node, connection);
            }
        }
        if let Some(mut seed) = self.seed.take() {
            self.seed = seed.catch_up().await.is_ok().then_some(seed);
        }
    }

    /// Milliseconds for which servers asked to wait since this was taken last.
    pub fn take_throttle(&mut self) -> u32 {
        self.open.values_mut().map(Connection::take_throttle).max().unwrap_or(0)
    }

    /// Says goodbye everywhere.
    pub async fn close(self) {
        for connection in self.open.into_values().chain(self.seed) {
            connection.close().await;
        }
    }

    fn learn(&mut self, answer: MetadataResponse) {
        let mut nodes = HashMap::new();
        for broker in &answer.brokers {
            let scheme = if self.address.tls { SCHEME.tls } else { SCHEME.plain };
            let host = broker.host.as_str();
            let host = if host.contains(':') { format!("[{host}]") } else { host.to_owned() };
            if let Ok(address) = Address::parse(&format!("{scheme}://{host}:{}", broker.port), &SCHEME) {
                nodes.insert(broker.node_id.0, address);
            }
        }
        if nodes != self.nodes && !nodes.is_empty() {
            self.open.retain(|node, open| nodes.get(node).is_some_and(|address| same(address, open.address())));
            let by_seed = |seed: &Connection| nodes.iter().find(|(_, address)| same(address, seed.address()));
            if let Some(node) = self.seed.as_ref().and_then(by_seed).map(|(node, _)| *node)
                && let Some(seed) = self.seed.take()
            {
                self.open.insert(node, seed);
            }
            self.discovered = Some(nodes.values().map(ToString::to_string).collect());
            self.nodes = nodes;
        }
        self.controller = answer.controller_id.0;
        thin_out(&mut self.topics);
        for topic in &answer.topics {
            let Some(name) = topic.name.as_ref().map(|name| name.0.as_str()) else { continue };
            self.topics.insert(name.to_owned(), read(name, topic));
        }
    }
}

/// Lets refusals and what is too old go where there are too many topics.
fn thin_out(topics: &mut HashMap<String, Result<Topic, Refusal>>) {
    if topics.len() > TOPICS_MAX {
        topics.retain(|_, topic| topic.as_ref().is_ok_and(|topic| topic.at.elapsed() < TOPIC_AGE_MAX));
    }
}

fn same(one: &Address, other: &Address) -> bool {
    one.to_string() == other.to_string()
}

fn read(name: &str, topic: &MetadataResponseTopic) -> Result<Topic, Refusal> {
    if topic.error_code != NONE {
        return Err(Refusal::of(topic.error_code, &format!("topic `{name}`"), None));
    }
    // Their numbers have no gaps. They aren't believed for the size of a list.
    let mut leaders = vec![None; topic.partitions.len()];
    for partition in &topic.partitions {
        let place = usize::try_from(partition.partition_index).unwrap_or(usize::MAX);
        if let Some(leader) = leaders.get_mut(place) {
            *leader = (partition.leader_id.0 >= 0).then_some(partition.leader_id.0);
        }
    }
    Ok(Topic { id: topic.topic_id, leaders, at: Instant::now() })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use kafka_protocol::messages::metadata_response::MetadataResponsePartition;

    use super::*;

    fn topic(numbers: &[i32]) -> MetadataResponseTopic {
        let partition =
            |number: &i32| MetadataResponsePartition::default().with_partition_index(*number).with_leader_id(7.into());
        MetadataResponseTopic::default().with_partitions(numbers.iter().map(partition).collect())
    }

    #[test]
    fn a_wrong_number_of_a_partition_makes_no_long_list() {
        assert_eq!(read("orders", &topic(&[1, 0])).unwrap().leaders, [Some(7), Some(7)]);
        assert_eq!(read("orders", &topic(&[0, i32::MAX])).unwrap().leaders, [Some(7), None]);
    }

    #[test]
    fn refusals_go_where_there_are_too_many_topics() {
        let refused = |number: usize| (format!("missing-{number}"), Err(Refusal::of(3, "a topic", None)));
        let mut topics: HashMap<_, _> = (0..TOPICS_MAX).map(refused).collect();
        thin_out(&mut topics);
        assert_eq!(topics.len(), TOPICS_MAX);
        topics.insert("orders".to_owned(), read("orders", &topic(&[0])));
        thin_out(&mut topics);
        assert!(topics.len() == 1 && topics.contains_key("orders"));
    }
}
