//! Sagas by cron expression.

use waybill_core::port::schedules::ScheduleStore;
use waybill_core::saga::json::Json;
use waybill_core::saga::state::SagaState;
use waybill_core::schedule::{Missed, NewSchedule, SagaWork, Schedule, ScheduleKey, ScheduleName, Work};
use waybill_core::time::UnixMillis;

use crate::support::*;

/// A schedule of a saga each minute.
fn by_minute(definition: &str) -> Schedule {
    let input = Json::parse("{\"n\":7}").unwrap();
    let new = NewSchedule {
        key: ScheduleKey { tenant: tenant("default"), name: ScheduleName::new("tick").unwrap() },
        cron: "* * * * *".to_owned(),
        zone: "UTC".to_owned(),
        missed: Missed::All,
        work: Work::Saga(SagaWork { definition: definition.to_owned(), version: None, input, headers: Vec::new() }),
        is_paused: false,
        actor: "ops".to_owned(),
    };
    new.check(START).unwrap()
}

/// Id of the run of a minute, from the first one after the start on.
fn run(minute: u64) -> String {
    format!("tick@{}", UnixMillis(START.0 + 40_000 + minute * 60_000))
}

async fn stored(world: &World) -> Schedule {
    world.memory.schedules().await.unwrap().remove(0)
}

#[tokio::test(start_paused = true)]
async fn a_saga_is_started_at_each_instant_and_once_over_a_crash() {
    let world = World::new();
    let host = world.start_with(|config| config.schedules = Some(world.memory.clone())).await;
    host.define(&definition(&steps(&["a"]))).await;
    world.memory.add_schedule(&by_minute("s")).await.unwrap();
    pass(seconds(110)).await;
    for minute in 0..2 {
        assert_eq!(host.state(&run(minute)).await, SagaState::Completed);
    }
    // As if the host had crashed between a start and the commit that takes it off.
    let before = stored(&world).await;
    assert!(before.owed.is_empty());
    let again = Schedule { owed: before.last.iter().map(|last| last.run).collect(), ..before };
    world.memory.write(|tables| tables.schedules.insert(again.key.clone(), again));
    pass(seconds(100)).await;
    let stored = stored(&world).await;
    assert_eq!((stored.owed.len(), stored.error, stored.runs), (0, None, 3));
    assert_eq!(host.list("definition=s", 100).await.len(), 3);
}

#[tokio::test(start_paused = true)]
async fn a_saga_that_is_refused_for_good_holds_up_no_later_run() {
    let world = World::new();
    let host = world.start_with(|config| config.schedules = Some(world.memory.clone())).await;
    world.memory.add_schedule(&by_minute("s")).await.unwrap();
    pass(seconds(50)).await;
    let refused = stored(&world).await;
    assert_eq!((refused.runs, refused.owed.len()), (1, 0));
    assert!(refused.error.is_some());
    host.define(&definition(&steps(&["a"]))).await;
    pass(seconds(60)).await;
    assert_eq!((stored(&world).await.runs, stored(&world).await.error), (2, None));
    assert_eq!(host.state(&run(1)).await, SagaState::Completed);
}
