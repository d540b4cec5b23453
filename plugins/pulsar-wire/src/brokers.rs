//! The brokers of a cluster that this session knows, and which of them has a topic.

use std::time::{Duration, Instant};

use waybill_plugin::broker::Address;
use waybill_plugin::deadline::Deadline;
use waybill_plugin::transport::{Outcome, PluginError};

use crate::connection::Connection;
use crate::keys::SCHEME;
use crate::proto::{Command, Lookup, LookupResponse};
use crate::refusal::Refusal;

/// Brokers that may send us on, one after the other, before it counts as going round in circles.
const REDIRECTS_MAX: usize = 20;
/// Connections of a session. The manifest asks for as many of all sessions together.
const CONNECTIONS_MAX: usize = 32;

/// After so long a broker that couldn't be connected to is tried again. Longer than the second for which its topics are held, so that it
/// doesn't cost the topics of other brokers the time for connecting with every call.
const UNREACHABLE_AGE: Duration = Duration::from_secs(5);

/// The time for finding topics in a call: no more is begun after half of it, so that the rest is left to those that were found. What was
/// begun has its own time, so that a healthy broker isn't given up for the time that others took.
#[derive(Clone, Copy, Debug)]
pub struct Time {
    until: Deadline,
    call: Deadline,
    /// Milliseconds for one answer.
    patience: u32,
}

impl Time {
    /// Of a call that begins now, and a broker that has so many milliseconds for an answer.
    pub fn of(call: Deadline, patience: u32) -> Self {
        Self { until: Deadline::after(call.left().unwrap_or_default() / 2), call, patience }
    }

    /// Whether nothing more is begun.
    pub fn is_over(&self) -> bool {
        self.until.left().is_none()
    }

    /// When a question that is asked now has to be answered.
    pub fn answer(&self) -> Deadline {
        self.call.at_most(self.patience)
    }

    /// The pause, if there is time for it.
    pub fn pause(&self, pause: Duration) -> Option<Duration> {
        let left = Duration::from_millis(u64::from(self.until.left().unwrap_or_default()));
        Some(pause).filter(|pause| *pause < left)
    }
}

/// Which broker a connection goes to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// Where we connect.
    pub address: Address,
    /// The broker behind the proxy there, as `HOST:PORT`.
    pub behind_proxy: Option<String>,
}

/// Makes connections, as the session that has the brokers does.
#[allow(async_fn_in_trait, reason = "an instance has one thread; nothing here can be `Send`")]
pub trait Dial {
    /// Connects and logs in.
    ///
    /// # Errors
    /// Not reachable, or it refuses us.
    async fn dial(&self, place: &Place, deadline: Deadline) -> Result<Connection, PluginError>;

    /// The name of the listener whose addresses brokers tell; none: their usual ones.
    fn listener(&self) -> Option<&str>;

    /// Whether brokers are connected to in TLS.
    fn is_secure(&self) -> bool;

    /// Whether there is one broker only, which is reached by the address that the configuration names, whatever it tells.
    fn is_single(&self) -> bool;
}

/// Connections to brokers, by their places in the order in which they were made. The first is the one that was asked for.
pub struct Brokers {
    all: Vec<(Place, Connection)>,
    unreachable: Unreachable,
}

/// Brokers that couldn't be connected to lately. A call that meets several of their topics waits for one of them once.
#[derive(Debug, Default)]
struct Unreachable(Vec<(Place, PluginError, Instant)>);

impl Unreachable {
    fn note(&mut self, place: Place, error: PluginError, now: Instant) {
        self.0.retain(|(known, _, since)| *known != place && now.saturating_duration_since(*since) < UNREACHABLE_AGE);
        self.0.push((place, error, now));
    }

    fn why(&self, place: &Place, now: Instant) -> Option<&PluginError> {
        let is_meant = |(known, _, since): &&(Place, PluginError, Instant)| {
            known == place && now.saturating_duration_since(*since) < UNREACHABLE_AGE
        };
        self.0.iter().find(is_meant).map(|(_, error, _)| error)
    }
}

/// Why a topic has no broker that takes us.
#[derive(Clone, Debug, PartialEq)]
pub enum Unfound {
    /// A broker that was asked refuses.
    Refused(Refusal),
    /// The broker that has it, or would know, can't be connected to.
    Unreachable(PluginError),
}

impl Unfound {
    /// Whether it may be found a moment later.
    pub fn is_passing(&self) -> bool {
        match self {
            Self::Refused(refusal) => refusal.is_passing(),
            // Trying again at once costs the time for connecting, which is all that a call has.
            Self::Unreachable(_) => false,
        }
    }

    /// The fate of a message for the topic: nothing of it was sent.
    pub fn fate(&self) -> Outcome {
        match self {
            Self::Refused(refusal) => refusal.fate_unsent(),
            Self::Unreachable(error) => error.fault.clone().with_after(Some(1_000)).blocking(""),
        }
    }

    /// As the failure of a call.
    pub fn error(self) -> PluginError {
        match self {
            Self::Refused(refusal) => refusal.error(),
            Self::Unreachable(error) => error,
        }
    }
}

/// What follows from an answer to the question which broker has a topic.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Step {
    /// It is that one.
    Connect(Option<Place>),
    /// Ask that one.
    Ask(Place, bool),
}

impl Brokers {
    /// With the connection to the broker, or the proxy, that the configuration names.
    pub fn new(first: Connection) -> Self {
        let place = Place { address: first.address().clone(), behind_proxy: None };
        Self { all: vec![(place, first)], unreachable: Unreachable::default() }
    }

    /// The address that the configuration names; none after the last connection is gone.
    pub fn first(&mut self) -> Option<&mut Connection> {
        self.get(0)
    }

    /// A connection by its place.
    pub fn get(&mut self, place: usize) -> Option<&mut Connection> {
        self.all.get_mut(place).map(|(_, connection)| connection)
    }

    /// All of them, with their places.
    pub fn each(&mut self) -> impl Iterator<Item = (usize, &mut Connection)> {
        self.all.iter_mut().map(|(_, connection)| connection).enumerate()
    }

    /// All of them, to be closed.
    pub fn into_connections(self) -> impl Iterator<Item = Connection> {
        self.all.into_iter().map(|(_, connection)| connection)
    }

    /// The place of a connection to the broker that has this topic, or one of its partitions.
    ///
    /// # Errors
    /// A connection is gone.
    pub async fn find(
        &mut self,
        topic: &str,
        dial: &impl Dial,
        time: &Time,
    ) -> Result<Result<usize, Unfound>, PluginError> {
        let (mut at, mut authoritative) = (0, false);
        for _ in 0..REDIRECTS_MAX {
            let Some((place, connection)) = self.all.get_mut(at) else { break };
            if time.is_over() {
                return Ok(Err(late()));
            }
            let lookup = |request_id| {
                Command::Lookup(Lookup {
                    topic: topic.to_owned(),
                    request_id,
                    authoritative: Some(authoritative),
                    advertised_listener_name: dial.listener().map(str::to_owned),
                })
            };
            let answer = match connection.ask(lookup, time.answer()).await? {
                Ok(Command::LookupResponse(answer)) => answer,
                Ok(_) => return Ok(Err(lost_track("the broker answers a lookup with something else"))),
                Err(refusal) => return Ok(Err(Unfound::Refused(refusal.about(topic)))),
            };
            let place = match read(&answer, &place.address, dial.is_secure()) {
                Ok(Step::Connect(_)) if dial.is_single() => return Ok(Ok(at)),
                Ok(Step::Connect(None)) => return Ok(Ok(at)),
                Ok(Step::Connect(Some(place))) => {
                    return Ok(self.connection(place, dial, time.call).await.map_err(Unfound::Unreachable));
                }
                Ok(Step::Ask(place, certain)) => {
                    authoritative = certain;
                    place
                }
                Err(why) => return Ok(Err(lost_track(why))),
            };
            match self.connection(place, dial, time.call).await {
                Ok(next) => at = next,
                Err(error) => return Ok(Err(Unfound::Unreachable(error))),
            }
        }
        Ok(Err(lost_track("brokers send us on to each other without an end")))
    }

    async fn connection(&mut self, place: Place, dial: &impl Dial, deadline: Deadline) -> Result<usize, PluginError> {
        if let Some(known) = self.all.iter().position(|(known, _)| *known == place) {
            return Ok(known);
        }
        if self.all.len() >= CONNECTIONS_MAX {
            let why = format!("the topics are at more than {CONNECTIONS_MAX} brokers");
            return Err(PluginError::unavailable("PULSAR.LIMIT", why));
        }
        if let Some(error) = self.unreachable.why(&place, Instant::now()) {
            return Err(error.clone());
        }
        let mut error = match dial.dial(&place, deadline).await {
            Ok(connection) => {
                self.all.push((place, connection));
                return Ok(self.all.len() - 1);
            }
            Err(error) => error,
        };
        error.fault.reason = format!("{}, which has the topic: {}", place.address, error.fault.reason);
        if error.fault.code != Connection::CODES.cancelled {
            self.unreachable.note(place, error.clone(), Instant::now());
        }
        Err(error)
    }
}

/// Reads an answer that came from `asked`.
fn read(answer: &LookupResponse, asked: &Address, is_secure: bool) -> Result<Step, &'static str> {
    let url = match is_secure {
        true => answer.broker_service_url_tls.as_deref().filter(|url| !url.is_empty()),
        false => answer.broker_service_url.as_deref().filter(|url| !url.is_empty()),
    };
    let url = url.ok_or(match is_secure {
        true => "the broker that has the topic tells no address for TLS",
        false => "the broker that has the topic tells no address without TLS",
    })?;
    let mut address = Address::parse(url, &SCHEME).map_err(|_| "the broker that has the topic tells no address")?;
    address.tls = is_secure;
    let place = match answer.proxy_through_service_url.unwrap_or_default() {
        true => Place { behind_proxy: Some(address.to_string()), address: asked.clone() },
        false => Place { address, behind_proxy: None },
    };
    match answer.response {
        Some(0) => Ok(Step::Ask(place, answer.authoritative.unwrap_or_default())),
        Some(1) if place.behind_proxy.is_none() && is_same(&place.address, asked) => Ok(Step::Connect(None)),
        Some(1) => Ok(Step::Connect(Some(place))),
        _ => Err("the broker answers a lookup with something else"),
    }
}

fn is_same(one: &Address, other: &Address) -> bool {
    one.uri().eq_ignore_ascii_case(&other.uri())
}

fn late() -> Unfound {
    let why = "no time was left to ask which broker has the topic";
    Unfound::Unreachable(PluginError::unavailable(Connection::CODES.timeout, why))
}

fn lost_track(why: &str) -> Unfound {
    Unfound::Unreachable(PluginError::unavailable("PULSAR.LOOKUP", why))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic)]
    use super::*;

    fn address(text: &str) -> Address {
        Address::parse(text, &SCHEME).unwrap()
    }

    fn answer(response: i32) -> LookupResponse {
        LookupResponse {
            broker_service_url: Some("pulsar://b:6650".to_owned()),
            broker_service_url_tls: Some("pulsar+ssl://b:6651".to_owned()),
            response: Some(response),
            request_id: 1,
            authoritative: Some(true),
            ..LookupResponse::default()
        }
    }

    fn place(text: &str) -> Place {
        Place { address: address(text), behind_proxy: None }
    }

    #[test]
    fn a_broker_has_the_topic_or_sends_us_on() {
        let asked = address("pulsar://a:6650");
        assert_eq!(read(&answer(1), &asked, false), Ok(Step::Connect(Some(place("pulsar://b:6650")))));
        assert_eq!(read(&answer(1), &asked, true), Ok(Step::Connect(Some(place("pulsar+ssl://b:6651")))));
        assert_eq!(read(&answer(0), &asked, false), Ok(Step::Ask(place("pulsar://b:6650"), true)));
        assert_eq!(read(&answer(1), &address("pulsar://B:6650"), false), Ok(Step::Connect(None)));
    }

    #[test]
    fn a_broker_that_could_not_be_reached_is_left_alone_for_a_while() {
        let (mut unreachable, now) = (Unreachable::default(), Instant::now());
        let error = PluginError::unavailable("PULSAR.TIMEOUT", "late");
        unreachable.note(place("pulsar://a"), error.clone(), now);
        assert_eq!(unreachable.why(&place("pulsar://a"), now), Some(&error));
        assert_eq!(unreachable.why(&place("pulsar://b"), now), None);
        assert_eq!(unreachable.why(&place("pulsar://a"), now + UNREACHABLE_AGE), None);
        unreachable.note(place("pulsar://b"), error, now + UNREACHABLE_AGE);
        assert_eq!(unreachable.0.len(), 1, "what is old is forgotten");
    }

    #[test]
    fn half_of_a_call_is_for_finding_topics_and_an_answer_has_time_of_its_own() {
        let time = Time::of(Deadline::after(10_000), 4_000);
        assert!(!time.is_over() && time.pause(Duration::from_secs(1)).is_some());
        assert_eq!(time.pause(Duration::from_secs(6)), None);
        let late = Time { until: Deadline::after(0), ..time };
        assert!(late.is_over() && late.pause(Duration::ZERO).is_none());
        assert!(late.answer().left().is_some_and(|left| left > 1_000));
    }

    #[test]
    fn a_topic_whose_broker_is_out_of_reach_is_blocked_and_not_looked_for_at_once() {
        let unfound = late();
        assert!(!unfound.is_passing());
        let Outcome::Blocked(block) = unfound.fate() else { panic!("{unfound:?}") };
        assert_eq!((block.fault.after, block.fault.maybe_delivered), (Some(1_000), false));
    }

    #[test]
    fn behind_a_proxy_the_address_stays() {
        let asked = address("pulsar://proxy:6650");
        let proxied = LookupResponse { proxy_through_service_url: Some(true), ..answer(1) };
        let expected = Place { address: asked.clone(), behind_proxy: Some("b:6650".to_owned()) };
        assert_eq!(read(&proxied, &asked, false), Ok(Step::Connect(Some(expected))));
    }

    #[test]
    fn an_answer_without_an_address_is_told() {
        let none = LookupResponse { broker_service_url_tls: None, ..answer(1) };
        assert!(read(&none, &address("a"), true).is_err());
        let odd = LookupResponse { broker_service_url: Some("http://b".to_owned()), ..answer(1) };
        assert!(read(&odd, &address("a"), false).is_err());
        assert!(read(&LookupResponse { response: None, ..answer(1) }, &address("a"), false).is_err());
    }
}
