//! Tests of the pool with a broker that is made up.
#![allow(clippy::unwrap_used, clippy::panic)]

use std::cell::RefCell;
use std::collections::HashMap;
use std::future::Future;
use std::pin::pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use serde::Deserialize;

use super::*;
use crate::deadline::Deadline;
use crate::host::net_types::TlsOptions;
use crate::transport::{CallInfo, ErrorKind, Fault, Health, OpenArgs, PluginError};

const SCHEME: Scheme = Scheme { plain: "mqtt", tls: "mqtts", port: 1883, tls_port: 8883 };

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct NoKeys {}

impl Keys for NoKeys {
    const SCHEME: Scheme = SCHEME;

    fn check(&self, _: &Common) -> Result<(), PluginError> {
        Ok(())
    }
}

/// What a server does, by its host.
#[derive(Clone, Default)]
struct Server {
    refuses: Option<PluginError>,
    is_gone: bool,
    is_leaving: bool,
    complains: Option<String>,
    tells: Option<Vec<String>>,
    waits: bool,
}

/// Servers, and what was done, in its order.
#[derive(Clone, Default)]
pub(super) struct World(Rc<RefCell<(HashMap<String, Server>, Vec<String>)>>);

impl World {
    fn is(&self, host: &str, server: Server) {
        self.0.borrow_mut().0.insert(host.to_owned(), server);
    }

    fn of(&self, address: &Address) -> Server {
        self.0.borrow().0.get(&address.host).cloned().unwrap_or_default()
    }

    fn note(&self, what: &str, address: &Address) {
        self.0.borrow_mut().1.push(format!("{what} {}", address.host));
    }

    fn done(&self) -> String {
        std::mem::take(&mut self.0.borrow_mut().1).join(", ")
    }
}

pub(super) struct Fake {
    world: World,
    address: Address,
    stays: bool,
    is_server_well: bool,
}

impl Session for Fake {
    type Keys = NoKeys;
    type Shared = World;
    const CODES: &'static Codes = &Codes {
        denied: "FAKE.DENIED",
        tls: "FAKE.TLS",
        unsupported: "FAKE.UNSUPPORTED",
        resolve: "FAKE.RESOLVE",
        refused: "FAKE.REFUSED",
        timeout: "FAKE.TIMEOUT",
        cancelled: "FAKE.CANCELLED",
        limit: "FAKE.LIMIT",
        lost: "FAKE.LOST",
    };

    fn share(_: &OpenArgs, _: &Config<NoKeys>, _: &TlsOptions) -> Result<World, PluginError> {
        Ok(World::default())
    }

    async fn open(endpoint: &Endpoint<Self>, address: &Address, _: Deadline) -> Result<Self, PluginError> {
        let world = endpoint.shared().clone();
        world.note("open", address);
        match world.of(address).refuses {
            Some(error) => Err(error),
            None => Ok(Self { world, address: address.clone(), stays: false, is_server_well: false }),
        }
    }

    fn address(&self) -> &Address {
        &self.address
    }

    async fn catch_up(&mut self, _: Deadline) -> Result<(), PluginError> {
        if self.world.of(&self.address).is_gone { Err(lost()) } else { Ok(()) }
    }

    async fn ping(&mut self, _: &Endpoint<Self>, deadline: Deadline) -> Result<Option<String>, PluginError> {
        self.world.note("ping", &self.address);
        self.catch_up(deadline).await?;
        Ok(self.world.of(&self.address).complains)
    }

    async fn close(self, _: Deadline) {
        self.world.note("close", &self.address);
    }

    fn take_discovered(&mut self, _: &Endpoint<Self>) -> Option<Vec<String>> {
        self.world.of(&self.address).tells
    }

    fn is_leaving(&self) -> bool {
        self.world.of(&self.address).is_leaving
    }

    fn stays(&self) -> bool {
        self.stays
    }

    fn set_stays(&mut self, stays: bool) {
        self.stays = stays;
    }

    fn is_server_well(&self) -> bool {
        self.is_server_well
    }

    fn asked_to_wait(world: &World, _: &[Self]) -> Option<PluginError> {
        let waits = world.0.borrow().0.values().any(|server| server.waits);
        waits.then(|| PluginError::new(ErrorKind::Throttled, Fault::new("FAKE.BLOCKED", "a full disk")))
    }
}

fn lost() -> PluginError {
    PluginError::unavailable("FAKE.LOST", "gone")
}

fn denied() -> PluginError {
    PluginError::denied("FAKE.AUTH", "a wrong password")
}

pub(super) fn address(text: &str) -> Address {
    Address::parse(text, &SCHEME).unwrap()
}

fn pool(servers: &[&str]) -> (Pool<Fake>, World) {
    let config: Config<NoKeys> = crate::config::parse("{}").unwrap();
    let world = World::default();
    let tls = TlsOptions {
        server_name: None,
        ca_secret: None,
        client_key_secret: None,
        client_cert_secret: None,
        alpn: Vec::new(),
    };
    let servers = Servers::new(&SCHEME, servers.iter().map(|text| address(text)).collect());
    (Pool::of(Endpoint::of(config, world.clone(), tls), servers), world)
}

fn call() -> CallInfo {
    CallInfo { id: 1, timeout: 10_000, traceparent: None, attributes: Vec::new() }
}

fn soon() -> Deadline {
    Deadline::after(10_000)
}

/// Nothing here ever waits.
fn now<T>(work: impl Future<Output = T>) -> T {
    match pin!(work).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(done) => done,
        Poll::Pending => panic!("it waits"),
    }
}

fn take(pool: &Pool<Fake>) -> Result<Fake, PluginError> {
    now(pool.take(&call(), soon()))
}

fn give_back(pool: &Pool<Fake>, session: Fake, lost: Option<&PluginError>) {
    now(pool.give_back(session, lost, soon()));
}

/// How the plugin is, as its health tells.
fn health(pool: &Pool<Fake>) -> (Health, String) {
    let report = now(pool.health(&call()));
    (report.status, report.detail.unwrap_or_default())
}

#[test]
fn a_session_is_used_again_and_no_more_are_kept_than_are_configured() {
    let (pool, world) = pool(&["a"]);
    let three = [take(&pool).unwrap(), take(&pool).unwrap(), take(&pool).unwrap()];
    assert_eq!(world.done(), "open a, open a, open a");
    three.into_iter().for_each(|session| give_back(&pool, session, None));
    assert_eq!(world.done(), "close a");
    let again = take(&pool).unwrap();
    give_back(&pool, again, None);
    now(pool.close(&call()));
    assert_eq!(world.done(), "close a, close a");
}

#[test]
fn what_ended_while_it_was_idle_is_replaced_by_another_server() {
    let (pool, world) = pool(&["a", "b"]);
    let session = take(&pool).unwrap();
    give_back(&pool, session, None);
    world.is("a", Server { is_gone: true, ..Server::default() });
    assert_eq!(take(&pool).unwrap().address.host, "b");
    assert_eq!(world.done(), "open a, open b");
}

#[test]
fn a_server_that_lost_a_session_is_tried_last_unless_it_was_a_message() {
    let (pool, world) = pool(&["a", "b"]);
    let mut session = take(&pool).unwrap();
    session.is_server_well = true;
    give_back(&pool, session, Some(&lost()));
    let session = take(&pool).unwrap();
    assert_eq!(world.done(), "open a, close a, open a");
    give_back(&pool, session, Some(&lost()));
    assert_eq!(take(&pool).unwrap().address.host, "b");
}

#[test]
fn a_failure_names_every_configured_server_and_weather_outweighs_refusals() {
    let (pool, world) = pool(&["a", "b", "c"]);
    for (host, refuses) in [("a", denied()), ("b", lost()), ("c", denied())] {
        world.is(host, Server { refuses: Some(refuses), ..Server::default() });
    }
    let error = now(pool.connect(soon())).err().unwrap();
    assert_eq!((error.kind, error.fault.code.as_str()), (ErrorKind::Unavailable, "FAKE.LOST"));
    assert_eq!(error.fault.reason, "b:1883: gone; a:1883: a wrong password; c:1883: a wrong password");
    world.is("b", Server { refuses: Some(denied()), ..Server::default() });
    assert_eq!(take(&pool).err().unwrap().kind, ErrorKind::Denied);
}

#[test]
fn servers_that_others_told_about_are_tried_and_forgotten_where_they_are_denied() {
    let (pool, world) = pool(&["a"]);
    world.is("a", Server { tells: Some(vec!["b".to_owned(), "c".to_owned()]), ..Server::default() });
    world.is("b", Server { refuses: Some(denied()), ..Server::default() });
    let session = take(&pool).unwrap();
    world.is("a", Server { refuses: Some(lost()), ..Server::default() });
    give_back(&pool, session, Some(&lost()));
    assert_eq!(take(&pool).unwrap().address.host, "c");
    assert_eq!(world.done(), "open a, open b, open c");
    world.is("c", Server { refuses: Some(lost()), ..Server::default() });
    assert_eq!(now(pool.connect(soon())).err().unwrap().fault.reason, "a:1883: gone");
    assert_eq!(world.done(), "open c, open a");
}

#[test]
fn a_server_that_is_about_to_shut_down_is_left_if_another_one_takes_us() {
    let (pool, world) = pool(&["a", "b"]);
    let session = take(&pool).unwrap();
    give_back(&pool, session, None);
    world.is("a", Server { is_leaving: true, ..Server::default() });
    world.is("b", Server { refuses: Some(lost()), ..Server::default() });
    // Asked once, until the next ping.
    for _ in 0..2 {
        let session = take(&pool).unwrap();
        assert_eq!(session.address.host, "a");
        give_back(&pool, session, None);
    }
    assert_eq!(world.done(), "open a, open b");
    world.is("b", Server::default());
    assert_eq!(health(&pool), (Health::Ready, "connected to b:1883".to_owned()));
    assert_eq!(world.done(), "ping a, open b");
}

#[test]
fn a_broker_that_asks_to_wait_is_listened_to_and_nothing_new_is_opened() {
    let (pool, world) = pool(&["a"]);
    let two = [take(&pool).unwrap(), take(&pool).unwrap()];
    two.into_iter().for_each(|session| give_back(&pool, session, None));
    world.done();
    world.is("a", Server { waits: true, ..Server::default() });
    let error = take(&pool).err().unwrap();
    assert_eq!((error.kind, error.fault.code.as_str()), (ErrorKind::Throttled, "FAKE.BLOCKED"));
    assert_eq!(health(&pool), (Health::Blocked, "a full disk".to_owned()));
    world.is("a", Server::default());
    take(&pool).unwrap();
    assert_eq!(world.done(), "ping a, ping a");
}

#[test]
fn health_pings_what_is_idle_and_connects_where_there_is_nothing() {
    let (pool, world) = pool(&["a", "b"]);
    assert_eq!(health(&pool), (Health::Ready, "connected to a:1883".to_owned()));
    world.is("a", Server { complains: Some("no exchange".to_owned()), ..Server::default() });
    assert_eq!(health(&pool), (Health::Degraded, "connected to a:1883; no exchange".to_owned()));
    world.is("a", Server { is_gone: true, ..Server::default() });
    assert_eq!(health(&pool), (Health::Ready, "connected to b:1883".to_owned()));
    let session = take(&pool).unwrap();
    assert_eq!(health(&pool), (Health::Ready, "busy".to_owned()));
    world.is("b", Server { refuses: Some(denied()), ..Server::default() });
    world.is("a", Server { refuses: Some(denied()), ..Server::default() });
    give_back(&pool, session, Some(&lost()));
    assert_eq!(health(&pool).0, Health::Down);
    assert_eq!(now(pool.tick(&call())).unwrap_err().kind, ErrorKind::Denied);
}
