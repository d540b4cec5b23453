//! The calls of gRPC: what they replay, where they go on, how they end, and who stops reading.

use serde_json::json;
use waybill_core::seq_json::SeqJson;
use waybill_testkit::grpc_subscriber::{After, Answer, Answers, Call, CallEnded};

use super::lagging::{APPENDS, PATIENT, append};
use super::support::*;

const ABORTED: i32 = 10;
const OUT_OF_RANGE: i32 = 11;

async fn begin(door: &Door, call: &Call) -> Answers {
    // Little lies in sockets, so that whoever stops reading is noticed.
    in_time("a call", Answers::open(door.api().base(), call, Some(SOCKET_BYTES))).await.unwrap()
}

/// The next answer, or how the host ended the call.
async fn heard(answers: &mut Answers) -> Result<Answer, CallEnded> {
    in_time("an answer", answers.next()).await.map(|answer| answer.expect("an answer or a status"))
}

async fn next(answers: &mut Answers) -> Answer {
    heard(answers).await.unwrap_or_else(|ended| panic!("no answer: {ended}"))
}

/// A call that is ended at once, because what it asks for isn't there.
pub(super) async fn out_of_range(door: &Door, call: &Call, code: &str) {
    let ended = heard(&mut begin(door, call).await).await.unwrap_err();
    assert_eq!((ended.number, ended.code.as_str()), (OUT_OF_RANGE, code), "{call:?}: {ended}");
}

/// The ids of all that is kept of a stream, one a page.
pub(super) async fn listed(door: &Door, stream: &str) -> Vec<String> {
    let (mut ids, mut token) = (Vec::new(), None::<String>);
    loop {
        let after = token.as_deref().map_or(After::Nothing, After::Token);
        let page = next(&mut begin(door, &Call::list(stream, after, 1)).await).await.page();
        ids.extend(page.events.iter().map(|event| event.event_id().to_owned()));
        if page.is_end {
            return ids;
        }
        token = Some(page.resume_token);
    }
}

/// Takes the events behind a number up to the last one; what it has then, and how it ended if it did before.
async fn follow(answers: &mut Answers, had: u64, last: u64) -> (u64, Option<CallEnded>) {
    for seq in had + 1..=last {
        match heard(answers).await {
            Ok(event) => assert_eq!((event.seq(), event.resume_token()), (seq, seq.to_string().as_str())),
            Err(ended) => return (seq - 1, Some(ended)),
        }
    }
    (last, None)
}

/// Phase 0 of document 3: the old call is an adapter over the stream.
#[tokio::test(flavor = "multi_thread")]
async fn the_old_call_for_tasks_replays_goes_on_live_and_resumes_behind_its_last_event_id() {
    const TASKS: &str = "task.node.7f";
    let site = Site::start("").await;
    let door = &site.door;
    door.append(TASKS, &events("stored", 3, "r")).await;
    door.append("task.node.8", &events("other", 1, "r")).await;
    let mut tasks = begin(door, &Call::subscribe_tasks("7f", 0)).await;
    assert_eq!(follow(&mut tasks, 0, 3).await, (3, None));
    door.append(TASKS, &events("live", 2, "r")).await;
    assert_eq!(follow(&mut tasks, 3, 5).await, (5, None));
    drop(tasks);
    door.append(TASKS, &events("missed", 2, "r")).await;
    let mut resumed = begin(door, &Call::subscribe_tasks("7f", 4)).await;
    let mut stream = begin(door, &Call::subscribe(&format!("stream:{TASKS}"), After::Seq(4))).await;
    for id in ["live-1", "missed-0", "missed-1"] {
        let event = next(&mut resumed).await;
        assert_eq!((event.event_id(), event.stream(), event.resource_id()), (id, TASKS, "r"));
        assert_eq!(event, next(&mut stream).await, "byte for byte");
    }
    site.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_position_that_is_not_kept_or_not_there_is_out_of_range_to_every_call() {
    const TASKS: &str = "task.node.7f";
    let site = Site::start("").await;
    let door = &site.door;
    for round in 0..4 {
        door.append(TASKS, &events(&format!("a{round}"), 5, "r")).await;
    }
    let purge = json!({ "before": 11, "reason": "test" });
    let purged = door.api().post(&format!("/v1/streams/{TASKS}/purge"), &purge).await.unwrap();
    let first = SeqJson::in_value(&purged.body["first_seq"]).unwrap();
    assert!(first > 2, "{purged:?}");
    let selector = format!("stream:{TASKS}");
    for (seq, code) in [(1, "EVENT.CURSOR_EXPIRED"), (99, "EVENT.CURSOR_AHEAD")] {
        for call in [
            Call::subscribe_tasks("7f", seq),
            Call::subscribe(&selector, After::Seq(seq)),
            Call::subscribe(&selector, After::Token(&seq.to_string())),
            Call::list(TASKS, After::Seq(seq), 1),
        ] {
            out_of_range(door, &call, code).await;
        }
    }
    // An explicit 0 is a position, too; without one it begins with what is kept.
    out_of_range(door, &Call::list(TASKS, After::Seq(0), 1), "EVENT.CURSOR_EXPIRED").await;
    for call in [Call::subscribe_tasks("7f", 0), Call::subscribe(&selector, After::Nothing)] {
        assert_eq!(follow(&mut begin(door, &call).await, first - 1, 20).await, (20, None));
    }
    site.end().await;
}

/// Acceptance 3 of document 3.
#[tokio::test(flavor = "multi_thread")]
async fn who_stands_still_is_told_exactly_that_the_watch_lagged_and_resumes_without_a_gap() {
    const STREAM: &str = "passed";
    let bounds = "[events]\nlive_buffer_size = 16\nstall_timeout = \"10m\"\n";
    let site = Site::start(&format!("{PATIENT}{bounds}")).await;
    let door = &site.door;
    append(door, STREAM, 1).await;
    let call = |after: After<'_>| Call::subscribe("stream:passed", after);
    let (mut stopped, mut brisk) = (begin(door, &call(After::Nothing)).await, begin(door, &call(After::Nothing)).await);
    // Both are live before one of them stops.
    for number in 1..=APPENDS {
        if number > 1 {
            append(door, STREAM, number).await;
        }
        assert_eq!(follow(&mut brisk, number - 1, number).await, (number, None));
        if number <= 5 {
            assert_eq!(follow(&mut stopped, number - 1, number).await, (number, None));
        }
    }
    let (had, ended) = follow(&mut stopped, 5, APPENDS).await;
    let lagged = ("watch lagged; resync required".to_owned(), "EVENT.LAGGED".to_owned());
    assert_eq!(ended, Some(CallEnded { number: ABORTED, message: lagged.0, code: lagged.1 }));
    assert_eq!(in_time("the end", stopped.next()).await, Ok(None), "nothing after it");
    assert_eq!(door.metric("tx_stream_lagged_total").await, 1.0, "nobody else lagged");
    let mut resumed = begin(door, &call(After::Token(&had.to_string()))).await;
    assert_eq!(follow(&mut resumed, had, APPENDS).await, (APPENDS, None));
    site.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn who_takes_nothing_for_the_stall_timeout_is_cut_off_and_goes_on_where_it_was() {
    const STORED: u64 = 60;
    let site = Site::start(&format!("{PATIENT}[events]\nstall_timeout = \"2s\"\n")).await;
    let door = &site.door;
    for number in 1..=STORED {
        append(door, "stalled", number).await;
    }
    let call = |after: After<'_>| Call::subscribe("stream:stalled", after);
    let mut brisk = begin(door, &call(After::Nothing)).await;
    assert_eq!(follow(&mut brisk, 0, STORED).await, (STORED, None));
    let mut stopped = begin(door, &call(After::Nothing)).await;
    assert_eq!(follow(&mut stopped, 0, 1).await, (1, None));
    until("it is there", async || door.metric("tx_stream_readers").await == 2.0).await;
    until("it is cut off", async || door.metric("tx_stream_readers").await == 1.0).await;
    let (had, ended) = follow(&mut stopped, 1, STORED).await;
    assert!(ended.is_some(), "all of it lay in sockets");
    let mut resumed = begin(door, &call(After::Token(&had.to_string()))).await;
    assert_eq!(follow(&mut resumed, had, STORED).await, (STORED, None));
    // Whoever waits for what comes isn't one who takes nothing.
    append(door, "stalled", STORED + 1).await;
    assert_eq!(follow(&mut brisk, STORED, STORED + 1).await, (STORED + 1, None));
    site.end().await;
}
