//! Runs steps on a store and judges every answer.

use std::collections::BTreeMap;
use std::ops::AddAssign;
use std::time::Duration;

use waybill_core::idempotency::{Act, Answer, Begun, EntryKey, Op, Reply};
use waybill_core::ids::{HoldToken, IdempotencyKey, RequestHash, Tenant};
use waybill_core::port::idempotency::IdempotencyStore;
use waybill_core::time::{Monotonic, Now, SteadyClock, UnixMillis};

use super::promise::{Hears, Life, Outcome, heard};
use super::{CLIENTS, HASHES, KEYS, Step};

/// How often what came up.
#[derive(Clone, Copy, Debug, Default)]
pub struct Counts {
    /// A holder whose lease had ended was taken over.
    pub takeovers: u64,
    /// A begin heard an outcome.
    pub replays: u64,
    /// A begin heard that the key is of something else.
    pub mismatches: u64,
    /// A begin heard that somebody is at it.
    pub busy: u64,
    /// An act of a stale token.
    pub lost: u64,
    /// An act done again.
    pub repeats: u64,
    pub collected: u64,
}

impl AddAssign for Counts {
    fn add_assign(&mut self, other: Self) {
        self.takeovers += other.takeovers;
        self.replays += other.replays;
        self.mismatches += other.mismatches;
        self.busy += other.busy;
        self.lost += other.lost;
        self.repeats += other.repeats;
        self.collected += other.collected;
    }
}

/// What a client has, and had.
#[derive(Clone, Debug, Default)]
struct Client {
    has: Option<(u8, HoldToken)>,
    had: Option<(u8, HoldToken)>,
}

struct World<'a, S> {
    store: &'a S,
    clients: Vec<Client>,
    lives: BTreeMap<u8, Life>,
    wall: u64,
    mono: u64,
    clock: SteadyClock,
    /// Latest instant that any act was done at.
    latest: u64,
    tokens: u64,
    last: Option<(u8, Act)>,
    counts: Counts,
}

/// Runs steps on an empty store; panics at the first answer that breaks a promise.
pub async fn run(store: &impl IdempotencyStore, steps: &[Step]) -> Counts {
    let clients = (0..CLIENTS).map(|_| Client::default()).collect();
    let mut world = World {
        store,
        clients,
        lives: BTreeMap::new(),
        wall: 1_700_000_000_000,
        mono: 1_000,
        clock: SteadyClock::default(),
        latest: 0,
        tokens: 0,
        last: None,
        counts: Counts::default(),
    };
    for (index, step) in steps.iter().enumerate() {
        world.step(step, index).await;
    }
    world.counts
}

fn seconds(seconds: u8) -> Duration {
    Duration::from_secs(u64::from(seconds))
}

fn entry_key(key: u8) -> EntryKey {
    EntryKey { tenant: Tenant::unnamed(), key: IdempotencyKey::new(format!("key-{key}")).unwrap() }
}

fn result(which: bool) -> Answer {
    Answer::of_json(if which { r#"{"ok":1}"# } else { "[2]" })
}

impl<S: IdempotencyStore> World<'_, S> {
    fn now(&mut self) -> u64 {
        let wall = UnixMillis(self.wall);
        let now = self.clock.at(Now { wall, mono: Monotonic(Duration::from_millis(self.mono)) }).0;
        self.latest = self.latest.max(now);
        now
    }

    async fn step(&mut self, step: &Step, index: usize) {
        let client = |number: u8| usize::from(number % CLIENTS);
        match step {
            Step::Begin { client: who, key, hash, ttl, lease } => {
                self.tokens += 1;
                let token = HoldToken::new(format!("token-{}", self.tokens)).unwrap();
                let hash = RequestHash::new((hash % HASHES).to_string()).unwrap();
                let act = Act::Begin { hash, token: token.clone(), ttl: seconds(*ttl), lease: seconds(*lease) };
                let key = key % KEYS;
                if let Reply::Begin(Begun::New(_)) = self.act(key, act, index).await {
                    let client = self.client(client(*who));
                    client.had = client.has.take().or(client.had.take());
                    client.has = Some((key, token));
                }
            }
            Step::Finish(who, which) => {
                let answer = result(*which);
                self.holder(client(*who), index, |token| Act::Finish { token, answer }).await;
            }
            Step::Fail(who) => {
                let error = format!("error {index}");
                self.holder(client(*who), index, |token| Act::Fail { token, error }).await;
            }
            Step::Release(who) => self.holder(client(*who), index, |token| Act::Release { token }).await,
            Step::Yield(who) => self.holder(client(*who), index, |token| Act::Yield { token }).await,
            Step::Renew(who, lease) => {
                let (lease, who) = (seconds(*lease), client(*who));
                if let Some((key, token)) = self.client(who).has.clone() {
                    self.act(key, Act::Renew { token, lease }, index).await;
                }
            }
            Step::Stale(who, which) => {
                if let Some((key, token)) = self.client(client(*who)).had.clone() {
                    let act = match which % 5 {
                        0 => Act::Finish { token, answer: result(true) },
                        1 => Act::Fail { token, error: "stale".to_owned() },
                        2 => Act::Release { token },
                        3 => Act::Yield { token },
                        _ => Act::Renew { token, lease: seconds(5) },
                    };
                    self.act(key, act, index).await;
                }
            }
            Step::Crash(who) => {
                let client = self.client(client(*who));
                client.had = client.has.take().or(client.had.take());
            }
            Step::Forget(key, finished) => {
                self.act(key % KEYS, Act::Forget { finished: *finished }, index).await;
            }
            Step::Again => {
                if let Some((key, act)) = self.last.clone() {
                    self.counts.repeats += 1;
                    self.act(key, act, index).await;
                }
            }
            Step::Pass(time) => {
                self.wall += u64::from(*time) * 1_000;
                self.mono += u64::from(*time) * 1_000;
            }
            Step::SetBack(time) => self.wall -= u64::from(*time) * 1_000,
            Step::Restart => self.clock = SteadyClock::default(),
            Step::Collect => self.collect().await,
        }
    }

    fn client(&mut self, number: usize) -> &mut Client {
        self.clients.get_mut(number).unwrap()
    }

    /// A client acts with what it has, and has it no more.
    async fn holder(&mut self, who: usize, index: usize, make: impl FnOnce(HoldToken) -> Act) {
        let client = self.client(who);
        if let Some((key, token)) = client.has.take() {
            client.had = Some((key, token.clone()));
            self.act(key, make(token), index).await;
        }
    }

    async fn collect(&mut self) {
        let now = self.now();
        while self.store.purge_idempotency(UnixMillis(now), 1).await.unwrap() > 0 {
            self.counts.collected += 1;
        }
        // Collected or not, what is over was forgotten already; what isn't has to be there still.
        self.lives.retain(|_, life| life.end > now);
        for key in self.lives.keys() {
            assert!(self.store.entry(&entry_key(*key), UnixMillis(now)).await.unwrap().is_some(), "key {key} is gone");
        }
    }

    /// Does an act and judges its answer.
    async fn act(&mut self, key: u8, act: Act, index: usize) -> Reply {
        let now = self.now();
        let op = Op { of: entry_key(key), act: act.clone() };
        let done = self.store.act(&[op], UnixMillis(now)).await.unwrap().remove(0).unwrap();
        // A life can't be at an earlier instant than its latest change.
        let now = self.lives.get(&key).map_or(now, |life| now.max(life.latest));
        if self.lives.get(&key).is_some_and(|life| life.end <= now) {
            self.lives.remove(&key);
        }
        let reply = done.reply;
        let context = format!("step {index}: {act:?} at {now} on {:?} answered {reply:?}", self.lives.get(&key));
        match &act {
            Act::Begin { hash, token, ttl, lease } => {
                let hash: u8 = hash.as_str().parse().unwrap();
                let (ttl, lease) = (ttl.as_millis() as u64, lease.as_millis() as u64);
                self.judge_begin(key, hash, token, (ttl, lease), now, &reply, &context);
            }
            Act::Forget { finished } => {
                let expected = match self.lives.get(&key) {
                    None => "absent",
                    Some(life) if life.outcome.is_some() && !finished => "finished",
                    Some(_) => "forgotten",
                };
                let heard = match &reply {
                    Reply::Absent => "absent",
                    Reply::Finished => "finished",
                    Reply::Forgotten(_) => "forgotten",
                    _ => "something else",
                };
                assert_eq!(heard, expected, "{context}");
                if heard == "forgotten" {
                    self.lives.remove(&key);
                }
            }
            held => self.judge_holder(key, held, now, &reply, &context),
        }
        self.last = Some((key, act));
        reply
    }

    #[expect(clippy::too_many_arguments, reason = "what a begin is judged by")]
    fn judge_begin(
        &mut self,
        key: u8,
        hash: u8,
        token: &HoldToken,
        (ttl, lease): (u64, u64),
        now: u64,
        reply: &Reply,
        context: &str,
    ) {
        let expected = self.lives.get(&key).map_or(Hears::Yours, |life| life.hears(hash, token, now));
        assert_eq!(heard(reply), expected, "{context}");
        match expected {
            Hears::Yours => {}
            Hears::Busy(_) => return self.counts.busy += 1,
            Hears::Mismatch => return self.counts.mismatches += 1,
            Hears::Outcome(_) => return self.counts.replays += 1,
        }
        let life = self.lives.entry(key).or_insert_with(|| Life::new(hash, token, now, ttl, lease));
        if life.holders.last() != Some(token) {
            assert!(life.alone_until <= self.latest, "two have it at once: {context}");
            life.holders.push(token.clone());
            self.counts.takeovers += 1;
        }
        // Also of the same begin again, which keeps what it was promised.
        life.alone_until = life.alone_until.max(now + lease);
        life.end = life.end.max(life.alone_until);
        life.latest = now;
        let Reply::Begin(Begun::New(grant)) = reply else { return };
        assert_eq!(Some(&grant.origin), life.holders.first(), "{context}");
        assert_eq!((grant.lease_until.0, grant.until.0), (life.alone_until, life.end), "{context}");
    }

    fn judge_holder(&mut self, key: u8, act: &Act, now: u64, reply: &Reply, context: &str) {
        let (token, outcome) = match act {
            Act::Finish { token, answer } => (token, Some(Outcome::Result(answer.clone()))),
            Act::Fail { token, error } => (token, Some(Outcome::Error(error.clone()))),
            Act::Release { token } | Act::Yield { token } | Act::Renew { token, .. } => (token, None),
            Act::Begin { .. } | Act::Forget { .. } => return,
        };
        let life = self.lives.get_mut(&key);
        let is_repeat = life
            .as_ref()
            .is_some_and(|life| outcome.is_some() && life.outcome == outcome && life.holders.last() == Some(token));
        let Some(life) = life.filter(|life| life.is_of(token)) else {
            assert_eq!(*reply, if is_repeat { Reply::Applied } else { Reply::Lost }, "{context}");
            self.counts.lost += u64::from(!is_repeat);
            return;
        };
        assert_eq!(*reply, Reply::Applied, "{context}");
        life.latest = now;
        match act {
            Act::Release { .. } => {
                self.lives.remove(&key);
            }
            Act::Yield { .. } => life.alone_until = life.alone_until.min(now),
            Act::Renew { lease, .. } => {
                life.alone_until = life.alone_until.max(now + lease.as_millis() as u64);
                life.end = life.end.max(life.alone_until);
            }
            _ => life.outcome = outcome,
        }
    }
}
