//! The driver over a writer that does nothing but count, and a store whose answers are written down.
#![allow(clippy::unwrap_used)]

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use futures::future::{BoxFuture, ready};
use parking_lot::Mutex;
use tokio::sync::watch;
use tokio::time::Instant;
use waybill_core::commit::{self, Step, StoreAnswer, Writer};
use waybill_core::port::store::StoreError;
use waybill_core::port::trace::Span;
use waybill_core::time::Now;

use super::{Commits, Condition, Driven, End, Flight};

/// Knows the nonces of its commit and of its barrier.
#[derive(Default)]
struct Counter {
    out: u64,
    barrier: Option<u64>,
}

impl Writer for Counter {
    type Commit = u64;
    type Record = u64;
    type Applied = ();
    type NotApplied = ();
    type TooLarge = ();

    fn committed(&mut self, _: Now) {}
    fn too_large(&mut self, _: Now) {}
    fn resolve(&mut self, stored: &u64, _: Now, nonce: u64) -> Step<Self> {
        if *stored == self.out {
            return Step::Applied(());
        }
        if self.barrier.replace(nonce) == Some(*stored) {
            return Step::NotApplied(());
        }
        Step::Barrier(Box::new(nonce))
    }
}

struct Actor {
    writer: Counter,
    flight: Flight<u64>,
    commits: Mutex<VecDeque<Result<(), StoreError>>>,
    records: Mutex<VecDeque<Result<u64, StoreError>>>,
    /// What was told, in order.
    told: Vec<&'static str>,
}

impl Actor {
    fn new(condition: &Arc<watch::Sender<Condition>>, commits: &Commits) -> Self {
        Self {
            writer: Counter::default(),
            flight: Flight::begin(commits, condition, 3),
            commits: Mutex::default(),
            records: Mutex::default(),
            told: Vec::new(),
        }
    }

    /// Commits once and follows the answers until nothing is under way.
    async fn commit_once(&mut self) -> Option<End> {
        self.send(1);
        while !self.flight.is_idle() {
            let answer = self.flight.answer().await;
            if let Some(end) = self.take_answer(answer) {
                return Some(end);
            }
        }
        None
    }
}

impl Driven for Actor {
    type Writer = Counter;
    const OF: &'static str = "numbers";

    fn flight(&mut self) -> &mut Flight<u64> {
        &mut self.flight
    }
    fn commit(&self, _: u64) -> BoxFuture<'static, Result<(), StoreError>> {
        ready(self.commits.lock().pop_front().unwrap()).boxed()
    }
    fn record(&self) -> BoxFuture<'static, Result<u64, StoreError>> {
        ready(self.records.lock().pop_front().unwrap()).boxed()
    }
    fn follow(&mut self, answer: StoreAnswer<u64>) -> Step<Counter> {
        commit::take_answer(&mut self.writer, answer, Now::default(), || 7)
    }
    fn spans(&self, _: &u64) -> Vec<Box<dyn Span>> {
        Vec::new()
    }
    fn begins(&mut self, commit: &u64) {
        self.writer.out = *commit;
    }
    fn answered(&mut self) {}
    fn count_commit(&self, _: Duration) {}
    fn count_failure(&self, _: &StoreError) {}
    fn applied(&mut self, (): ()) {
        self.told.push("applied");
    }
    fn not_applied(&mut self, (): ()) {
        self.told.push("not applied");
    }
    fn too_large(&mut self, (): ()) {
        self.told.push("too large");
    }
    fn abandon(&mut self, _: &StoreError) {
        self.told.push("unknown");
    }
}

fn gone() -> StoreError {
    StoreError::Unavailable("no answer".to_owned())
}

#[tokio::test(start_paused = true)]
async fn a_commit_without_an_answer_is_given_up_after_a_barrier_and_meanwhile_others_see_the_trouble() {
    let condition = Arc::new(watch::Sender::new(Condition::Starting));
    let mut actor = Actor::new(&condition, &Commits::default());
    assert_eq!(*condition.borrow(), Condition::Owning { token: 3 });
    *actor.commits.lock() = [Err(gone()), Ok(())].into();
    *actor.records.lock() = [Ok(0), Ok(7)].into();
    actor.send(1);
    let answer = actor.flight.answer().await;
    assert_eq!(actor.take_answer(answer), None);
    assert_eq!(*condition.borrow(), Condition::Trouble { error: gone(), owning: true });
    while !actor.flight.is_idle() {
        let answer = actor.flight.answer().await;
        assert_eq!(actor.take_answer(answer), None);
    }
    assert_eq!(actor.told, ["unknown", "not applied"]);
    assert_eq!(*condition.borrow(), Condition::Owning { token: 3 });
    assert!(!actor.flight.is_held_up());
}

#[tokio::test(start_paused = true)]
async fn a_refused_commit_worries_nobody_and_a_record_that_cant_be_read_is_asked_for_again_after_a_pause() {
    let condition = Arc::new(watch::Sender::new(Condition::Starting));
    let mut actor = Actor::new(&condition, &Commits::default());
    *actor.commits.lock() = [Err(StoreError::Conflict("again".to_owned()))].into();
    *actor.records.lock() = [Err(gone()), Ok(1)].into();
    let began = Instant::now();
    assert_eq!(actor.commit_once().await, None);
    assert_eq!(actor.told, ["unknown", "applied"], "only the read that failed is told");
    assert!(began.elapsed() >= Duration::from_millis(100));
}

#[tokio::test(start_paused = true)]
async fn a_commit_that_is_too_large_is_followed_by_a_rest_and_no_read() {
    let (condition, commits) = (Arc::new(watch::Sender::new(Condition::Starting)), Commits::default());
    let mut actor = Actor::new(&condition, &commits);
    *actor.commits.lock() = [Err(StoreError::TooLarge), Ok(())].into();
    assert_eq!(actor.commit_once().await, None);
    assert!(actor.flight.is_idle() && actor.flight.is_held_up());
    tokio::time::sleep(Duration::from_millis(101)).await;
    assert!(!actor.flight.is_held_up());
    actor.send(1);
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert!(commits.longest() >= Duration::from_secs(2), "it is under way until its answer is taken");
    drop(actor);
    assert_eq!(commits.longest(), Duration::ZERO);
}
