//! Business transactions: statements and messages commit together, over the doorstep.

use waybill_core::outbox::records::IdOrigin;
use waybill_core::port::service::{MessageState, ServiceError};
use waybill_core::port::store::StoreError;
use waybill_core::port::transact::Statement;
use waybill_testkit::fake_transport::ack;

use crate::support::*;

fn statement(query: &str) -> Statement {
    Statement { query: query.into(), bindings: serde_json::Map::new() }
}

#[tokio::test(start_paused = true)]
async fn statements_and_messages_commit_together_and_the_messages_arrive_in_order() {
    let world = World::new();
    let host = world.start().await;
    let done = host
        .outbox
        .transact(
            vec![statement("CREATE a"), statement("CREATE b")],
            (0..5).map(|index| keyed(&index.to_string(), "k")).collect(),
            Default::default(),
            None,
        )
        .await
        .unwrap();
    assert_eq!((done.ids.len(), done.results.len()), (5, 2));
    host.until_done(&done.ids).await;
    assert_eq!(world.main.log().texts(), ["0", "1", "2", "3", "4"]);
    assert_eq!(world.shim.statements.lock().len(), 2);
    assert!(world.memory.read(|tables| tables.door.is_empty()));
}

#[tokio::test(start_paused = true)]
async fn a_message_is_found_by_its_id_right_after_its_transaction() {
    let world = World::new();
    world.shim.on(|call| if matches!(call, Call::Commit(_)) { Act::Slow(millis(150)) } else { Act::Pass });
    let host = world.start().await;
    host.outbox.pause("main", "", "ops").await.unwrap();
    let done = host
        .outbox
        .transact(Vec::new(), vec![message("a"), named("b", "order-1")], Default::default(), None)
        .await
        .unwrap();
    for id in &done.ids {
        assert_eq!(host.view(id).await.state, MessageState::Pending);
    }
    let unknown = host.outbox.message(&tenant("default"), "nobody").await.unwrap_err();
    assert_eq!(unknown.code().as_str(), "OUTBOX.NOT_FOUND");
}

#[tokio::test(start_paused = true)]
async fn a_failed_transaction_leaves_no_message() {
    let world = World::new();
    let host = world.start().await;
    world.shim.on(|call| match call {
        Call::Transact => Act::Fail(StoreError::Statement("statement 1: parse error".into())),
        _ => Act::Pass,
    });
    let error =
        host.outbox.transact(vec![statement("CREAT")], vec![message("a")], Default::default(), None).await.unwrap_err();
    assert_eq!(error.code().as_str(), "STORAGE.STATEMENT");
    world.shim.calm();
    pass(seconds(60)).await;
    assert!(world.main.log().sent.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_transaction_that_conflicts_is_tried_again_and_one_with_an_unknown_outcome_says_so() {
    let world = World::new();
    let host = world.start().await;
    let mut tries = 0;
    world.shim.on(move |call| {
        if !matches!(call, Call::Transact) {
            return Act::Pass;
        }
        tries += 1;
        if tries < 4 { Act::Fail(StoreError::Conflict("test".into())) } else { Act::Pass }
    });
    let done =
        host.outbox.transact(vec![statement("CREATE a")], vec![message("a")], Default::default(), None).await.unwrap();
    host.until_done(&done.ids).await;
    assert_eq!(world.shim.statements.lock().len(), 1);
    world.shim.on(|call| match call {
        Call::Transact => Act::FailAfter(StoreError::Unavailable("test".into())),
        _ => Act::Pass,
    });
    let error =
        host.outbox.transact(Vec::new(), vec![named("b", "order-1")], Default::default(), None).await.unwrap_err();
    assert!(matches!(error, ServiceError::OutcomeUnknown(_)));
    world.shim.calm();
    let again = host.outbox.transact(Vec::new(), vec![named("b", "order-1")], Default::default(), None).await.unwrap();
    assert_eq!(again.ids, ["order-1"]);
    host.until_done(&again.ids).await;
    pass(seconds(60)).await;
    assert_eq!(world.main.log().count("b"), 1);
}

#[tokio::test(start_paused = true)]
async fn a_repeat_in_a_transaction_answers_duplicates_and_other_content_is_refused() {
    let world = World::new();
    let host = world.start().await;
    let first = host.send_one(named("a", "order-1")).await;
    let done = host
        .outbox
        .transact(vec![statement("CREATE a")], vec![named("a", "order-1"), message("b")], Default::default(), None)
        .await
        .unwrap();
    assert_eq!(done.duplicates, [first]);
    let error = host
        .outbox
        .transact(vec![statement("CREATE a")], vec![named("other", "order-1")], Default::default(), None)
        .await
        .unwrap_err();
    assert!(matches!(error, ServiceError::IdTaken { .. }));
    pass(seconds(60)).await;
    assert_eq!(world.main.log().texts(), ["a", "b"]);
    assert_eq!(world.shim.statements.lock().len(), 1);
}

/// A repeat is answered without running its statements, so it has to be the same transaction.
#[tokio::test(start_paused = true)]
async fn a_transaction_is_a_repeat_only_with_the_same_statements() {
    let world = World::new();
    let host = world.start().await;
    let run = async |query: &str, id: &str| {
        let statements = if query.is_empty() { Vec::new() } else { vec![statement(query)] };
        host.outbox.transact(statements, vec![named("a", id)], Default::default(), None).await
    };
    run("CREATE a", "order-1").await.unwrap();
    host.until_state("order-1", MessageState::Done).await;
    assert_eq!(run("CREATE a", "order-1").await.unwrap().duplicates, ["order-1"]);
    // Without statements there is nothing to drop.
    assert_eq!(run("", "order-1").await.unwrap().duplicates, ["order-1"]);
    let error = run("CREATE b", "order-1").await.unwrap_err();
    assert_eq!(error.code().as_str(), "TX.OTHER_STATEMENTS", "{error}");
    // A message that came by itself came with no statements.
    host.send_one(named("a", "order-2")).await;
    assert_eq!(run("CREATE a", "order-2").await.unwrap_err().code().as_str(), "TX.OTHER_STATEMENTS");
    assert_eq!(world.shim.statements.lock().len(), 1);
    // Of a row of an older version it isn't known.
    world.memory.write(|tables| tables.ids.values_mut().for_each(|record| record.origin = IdOrigin::Unknown));
    assert_eq!(run("CREATE b", "order-1").await.unwrap().duplicates, ["order-1"]);
}

/// It stays so for a message that waits for its time.
#[tokio::test(start_paused = true)]
async fn the_statements_of_a_scheduled_message_are_known_until_it_is_forgotten() {
    let world = World::new();
    let host = world.start().await;
    let run = async |query: &str| {
        let later =
            waybill_core::new_message::NewMessage { not_before: Some(at(seconds(60))), ..named("a", "order-1") };
        host.outbox.transact(vec![statement(query)], vec![later], Default::default(), None).await
    };
    run("CREATE a").await.unwrap();
    host.until_state("order-1", MessageState::Pending).await;
    assert_eq!(run("CREATE b").await.unwrap_err().code().as_str(), "TX.OTHER_STATEMENTS");
    host.until_state("order-1", MessageState::Done).await;
    assert_eq!(run("CREATE b").await.unwrap_err().code().as_str(), "TX.OTHER_STATEMENTS");
    assert_eq!(run("CREATE a").await.unwrap().duplicates, ["order-1"]);
}

#[tokio::test(start_paused = true)]
async fn a_repeat_that_is_still_on_the_doorstep_is_taken_in_once_and_is_no_dead_letter() {
    let world = World::new();
    let host = world.start().await;
    host.drain().await;
    // Two clients with one id, before any owner has looked.
    let host = world.launch("host-b", |_| {});
    let (one, two) = futures::join!(
        host.outbox.transact(Vec::new(), vec![named("a", "order-1")], Default::default(), None),
        host.outbox.transact(Vec::new(), vec![named("a", "order-1")], Default::default(), None),
    );
    assert!(one.is_ok() && two.is_ok());
    host.until_ready().await;
    host.until_state("order-1", MessageState::Done).await;
    pass(seconds(60)).await;
    assert_eq!(world.main.log().count("a"), 1);
    assert_eq!(world.memory.read(|tables| tables.dead.len()), 0);
    assert_eq!(host.outbox.totals().enqueued, 1, "a repeat counts nothing");
}

#[tokio::test(start_paused = true)]
async fn one_id_over_the_doorstep_and_directly_at_once_is_one_message() {
    let world = World::new();
    world.main.tell(|_| ack());
    world.shim.on(|call| if matches!(call, Call::Commit(_)) { Act::Slow(millis(5)) } else { Act::Pass });
    let host = world.start().await;
    for round in 0..20 {
        let id = format!("order-{round}");
        let busy = host.try_send([message("busy")]);
        let over_door = host.outbox.transact(Vec::new(), vec![named(&id, &id)], Default::default(), None);
        let direct = host.try_send([named(&id, &id)]);
        let (busy, over_door, direct) = futures::join!(busy, over_door, direct);
        assert!(busy.is_ok() && over_door.is_ok(), "{over_door:?}");
        assert_eq!(direct.unwrap().ids, std::slice::from_ref(&id));
        host.until_state(&id, MessageState::Done).await;
        assert_eq!(world.main.log().count(&id), 1);
    }
    assert_eq!(world.memory.read(|tables| tables.dead.len()), 0);
}

#[tokio::test(start_paused = true)]
async fn direct_messages_that_begin_after_a_transaction_come_after_it() {
    let world = World::new();
    world.shim.on(|call| if matches!(call, Call::Commit(_)) { Act::Slow(millis(2)) } else { Act::Pass });
    let host = world.start().await;
    let mut wanted = Vec::new();
    for round in 0..50 {
        let text = round.to_string();
        if round % 3 == 0 {
            host.outbox.transact(Vec::new(), vec![keyed(&text, "k")], Default::default(), None).await.unwrap();
        } else {
            host.send([keyed(&text, "k")]).await;
        }
        wanted.push(text);
    }
    let log = world.main.until_sent(50).await;
    assert_eq!(log.texts(), wanted);
}

#[tokio::test(start_paused = true)]
async fn a_repeat_of_a_whole_transaction_answers_duplicates_and_runs_nothing() {
    let world = World::new();
    let host = world.start().await;
    let send = || {
        host.outbox.transact(
            vec![statement("UPDATE account:1 SET n += 1")],
            vec![named("a", "order-1")],
            Default::default(),
            None,
        )
    };
    let first = send().await.unwrap();
    host.until_done(&first.ids).await;
    let again = send().await.unwrap();
    assert_eq!((again.ids, again.duplicates), (first.ids.clone(), first.ids));
    assert_eq!(world.shim.statements.lock().len(), 1);
}

/// Its answer may be lost, and nobody has taken its messages in yet.
#[tokio::test(start_paused = true)]
async fn a_repeat_runs_nothing_while_the_first_lies_on_the_doorstep() {
    let world = World::new();
    let host = world.start().await;
    world.shim.on(|call| match call {
        // The owner's next commit, which takes it in, is long in coming.
        Call::Commit(_) => Act::Slow(seconds(5)),
        Call::Transact => Act::FailAfter(StoreError::Unavailable("the answer is lost".into())),
        _ => Act::Pass,
    });
    let run = async |query: &str, text: &str| {
        host.outbox.transact(vec![statement(query)], vec![named(text, "order-1")], Default::default(), None).await
    };
    let lost = run("UPDATE account:1 SET n += 1", "a").await.unwrap_err();
    assert!(matches!(lost, ServiceError::OutcomeUnknown(_)), "{lost}");
    world.shim.on(|call| if matches!(call, Call::Commit(_)) { Act::Slow(seconds(5)) } else { Act::Pass });
    let again = run("UPDATE account:1 SET n += 1", "a").await.unwrap();
    assert_eq!((again.ids, again.duplicates), (vec!["order-1".to_owned()], vec!["order-1".to_owned()]));
    assert!(again.results.is_empty());
    let error = run("CREATE b", "a").await.unwrap_err();
    assert_eq!(error.code().as_str(), "TX.OTHER_STATEMENTS", "{error}");
    let error = run("UPDATE account:1 SET n += 1", "other").await.unwrap_err();
    assert!(matches!(error, ServiceError::IdTaken { .. }), "{error}");
    assert!(world.memory.read(|tables| !tables.door.is_empty()), "it lay there all the time");
    world.shim.calm();
    eventually("it is taken in", async || world.memory.read(|tables| tables.door.is_empty())).await;
    host.until_state("order-1", MessageState::Done).await;
    assert_eq!(run("UPDATE account:1 SET n += 1", "a").await.unwrap().duplicates, ["order-1"]);
    assert_eq!(world.shim.statements.lock().len(), 1);
    assert_eq!(world.main.log().count("a"), 1);
    assert_eq!(world.memory.read(|tables| tables.dead.len()), 0);
}

#[tokio::test(start_paused = true)]
async fn of_two_equal_transactions_at_once_one_runs() {
    let world = World::new();
    let host = world.start().await;
    world.shim.on(|call| match call {
        Call::Commit(_) => Act::Slow(seconds(5)),
        Call::Transact => Act::Slow(millis(50)),
        _ => Act::Pass,
    });
    let run = || {
        host.outbox.transact(
            vec![statement("UPDATE account:1 SET n += 1")],
            vec![named("a", "order-1")],
            Default::default(),
            None,
        )
    };
    let (one, two) = futures::join!(run(), run());
    let (one, two) = (one.unwrap(), two.unwrap());
    assert_eq!((one.ids, one.results.len() + two.results.len()), (two.ids, 1));
    assert_eq!(world.shim.statements.lock().len(), 1);
}

/// Nothing runs while so much lies there that it isn't known whether it is a repeat.
async fn runs_once_behind(rows: usize, bytes: usize) {
    let world = World::new();
    let host = world.start().await;
    world.shim.on(|call| if matches!(call, Call::Commit(_)) { Act::Slow(seconds(1)) } else { Act::Pass });
    for _ in 0..rows {
        host.outbox.transact(Vec::new(), vec![message(&"x".repeat(bytes))], Default::default(), None).await.unwrap();
    }
    let run = async || {
        host.outbox
            .transact(
                vec![statement("UPDATE account:1 SET n += 1")],
                vec![named("a", "order-1")],
                Default::default(),
                None,
            )
            .await
    };
    run().await.unwrap();
    assert!(world.memory.read(|tables| tables.door.len()) > rows / 2);
    let mut tries = 0;
    let again = loop {
        match run().await {
            Ok(again) => break again,
            // It was waited for.
            Err(error) => assert!(matches!(error, ServiceError::Busy { .. }), "{error}"),
        }
        tries += 1;
        assert!(tries < 1_000, "it is taken in some time");
    };
    assert_eq!(again.duplicates, ["order-1"]);
    assert_eq!(world.shim.statements.lock().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_long_doorstep_is_taken_in_before_statements_run_again() {
    runs_once_behind(1_050, 10).await;
}

#[tokio::test(start_paused = true)]
async fn a_doorstep_of_large_messages_is_taken_in_before_statements_run_again() {
    runs_once_behind(200, 200_000).await;
}

#[tokio::test(start_paused = true)]
async fn a_transaction_whose_caller_went_away_is_delivered_all_the_same() {
    let world = World::new();
    let host = world.start().await;
    pass(seconds(10)).await;
    world.shim.on(|call| if matches!(call, Call::Transact) { Act::Slow(seconds(1)) } else { Act::Pass });
    let send = host.outbox.transact(vec![statement("CREATE a")], vec![message("a")], Default::default(), None);
    assert!(tokio::time::timeout(millis(500), send).await.is_err());
    pass(seconds(5)).await;
    assert_eq!(world.main.log().texts(), ["a"]);
}
