//! Messages by cron expression: each instant has one run, whatever hosts, stores and clocks do.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use async_trait::async_trait;
use bytes::Bytes;
use waybill_core::port::schedules::ScheduleStore;
use waybill_core::port::store::StoreError;
use waybill_core::port::transact::DoorGroup;
use waybill_core::schedule::{MessageWork, Missed, NewSchedule, Schedule, ScheduleKey, ScheduleName, Work};
use waybill_core::time::UnixMillis;
use waybill_testkit::memory_store::MemoryStore;

use crate::support::*;

/// The first full minute of a test, after its start.
const FIRST: u64 = 40_000;
const MINUTE: u64 = 60_000;

/// A schedule of a message each minute.
fn by_minute(missed: Missed) -> Schedule {
    let work = MessageWork {
        topic: "bus:tick".to_owned(),
        payload: Bytes::from_static(b"tick"),
        content_type: None,
        key: None,
        headers: Vec::new(),
        event_type: None,
    };
    let new = NewSchedule {
        key: ScheduleKey { tenant: tenant("default"), name: ScheduleName::new("tick").unwrap() },
        cron: "* * * * *".to_owned(),
        zone: "UTC".to_owned(),
        missed,
        work: Work::Message(work),
        is_paused: false,
        actor: "ops".to_owned(),
    };
    new.check(START).unwrap()
}

/// Ids of the runs of so many minutes, from the first one on.
fn runs(count: u64) -> Vec<String> {
    (0..count).map(|minute| format!("tick@{}", UnixMillis(START.0 + FIRST + minute * MINUTE))).collect()
}

fn sent(world: &World) -> Vec<String> {
    world.main.log().sent.iter().map(|sent| sent.id.clone()).collect()
}

async fn stored(world: &World) -> Schedule {
    world.memory.schedules().await.unwrap().remove(0)
}

#[tokio::test(start_paused = true)]
async fn a_message_is_sent_at_each_instant() {
    let world = World::new();
    world.memory.add_schedule(&by_minute(Missed::Once)).await.unwrap();
    let host = world.start_with(|config| config.schedules = Some(world.memory.clone())).await;
    pass(seconds(35)).await;
    assert!(sent(&world).is_empty());
    pass(seconds(190)).await;
    assert_eq!(sent(&world), runs(4));
    let stored = stored(&world).await;
    assert_eq!((stored.runs, stored.without_run, stored.error), (4, 0, None));
    assert_eq!(host.view(&runs(1)[0]).await.topic, "bus:tick");
}

#[tokio::test(start_paused = true)]
async fn what_was_missed_while_no_host_ran_goes_by_the_policy() {
    for (missed, made) in [(Missed::Skip, 0), (Missed::Once, 1), (Missed::All, 10)] {
        let world = World::new();
        // From 22:14 to 22:23 on each day; the host starts at 23:13.
        let ten_minutes = Schedule { cron: "14-23 22 * * *".to_owned(), ..by_minute(missed) };
        world.memory.add_schedule(&ten_minutes).await.unwrap();
        pass(seconds(3_600)).await;
        let _host = world.start_with(|config| config.schedules = Some(world.memory.clone())).await;
        pass(seconds(5)).await;
        let mut expected = runs(10);
        expected.drain(..10 - made);
        assert_eq!(sent(&world), expected, "{missed:?}");
        assert_eq!(stored(&world).await.without_run, 10 - made as u64);
    }
}

#[tokio::test(start_paused = true)]
async fn two_hosts_make_each_run_once_and_one_goes_on_for_the_other() {
    let world = World::new();
    world.memory.add_schedule(&by_minute(Missed::All)).await.unwrap();
    let launch = |name: &str| {
        world.launch(name, |config| {
            config.exclusive = false;
            config.schedules = Some(world.memory.clone());
        })
    };
    let first = launch("host-a");
    first.until_ready().await;
    let _second = launch("host-b");
    pass(seconds(130)).await;
    assert_eq!(sent(&world), runs(2));
    drop(first);
    pass(seconds(215)).await;
    assert_eq!(sent(&world), runs(6));
}

#[tokio::test(start_paused = true)]
async fn a_clock_that_is_set_back_repeats_no_run() {
    let world = World::new();
    world.memory.add_schedule(&by_minute(Missed::All)).await.unwrap();
    let _host = world.start_with(|config| config.schedules = Some(world.memory.clone())).await;
    pass(seconds(110)).await;
    assert_eq!(sent(&world), runs(2));
    world.stepped.step(-3_600);
    pass(seconds(3_580)).await;
    assert_eq!(sent(&world), runs(2), "the clock is behind the last run still");
    pass(seconds(80)).await;
    assert_eq!(sent(&world), runs(3));
}

#[tokio::test(start_paused = true)]
async fn a_clock_that_is_set_ahead_counts_when_it_is_believed() {
    let world = World::new();
    world.memory.add_schedule(&by_minute(Missed::Once)).await.unwrap();
    let _host = world.start_with(|config| config.schedules = Some(world.memory.clone())).await;
    pass(seconds(50)).await;
    world.stepped.step(7_200);
    pass(seconds(240)).await;
    assert_eq!(sent(&world), runs(5), "for five minutes it goes on as without the jump");
    pass(seconds(100)).await;
    let sent = sent(&world);
    assert_eq!(sent.len(), 7, "one run for the two hours: {sent:?}");
    assert_eq!(sent.last(), runs(126).last());
}

/// A store of which a third of the commits goes in without an answer, and another third is lost.
struct Unsure {
    memory: Arc<MemoryStore>,
    commits: AtomicU32,
}

#[async_trait]
impl ScheduleStore for Unsure {
    async fn add_schedule(&self, schedule: &Schedule) -> Result<(), StoreError> {
        self.memory.add_schedule(schedule).await
    }
    async fn change_schedule(&self, next: &Schedule, messages: Vec<DoorGroup>) -> Result<(), StoreError> {
        let unknown = Err(StoreError::Unavailable("no answer came".to_owned()));
        match self.commits.fetch_add(1, Ordering::AcqRel) % 3 {
            0 => self.memory.change_schedule(next, messages).await.and(unknown),
            1 => unknown,
            _ => self.memory.change_schedule(next, messages).await,
        }
    }
    async fn remove_schedule(&self, key: &ScheduleKey) -> Result<bool, StoreError> {
        self.memory.remove_schedule(key).await
    }
    async fn schedule(&self, key: &ScheduleKey) -> Result<Option<Schedule>, StoreError> {
        self.memory.schedule(key).await
    }
    async fn schedules(&self) -> Result<Vec<Schedule>, StoreError> {
        self.memory.schedules().await
    }
}

#[tokio::test(start_paused = true)]
async fn commits_without_an_answer_neither_lose_nor_repeat_a_run() {
    let world = World::new();
    world.memory.add_schedule(&by_minute(Missed::All)).await.unwrap();
    let unsure = Arc::new(Unsure { memory: world.memory.clone(), commits: AtomicU32::new(0) });
    let _host = world.start_with(|config| config.schedules = Some(unsure.clone())).await;
    pass(seconds(660)).await;
    assert_eq!(sent(&world), runs(11));
    assert_eq!(stored(&world).await.runs, 11);
    assert!(unsure.commits.load(Ordering::Acquire) > 11);
}
