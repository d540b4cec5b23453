//! Sagas to write and compare: one with every field set to something of its own, and a plain one of three steps.

use std::collections::VecDeque;
use std::sync::Arc;

use waybill_core::outbox::records::DeadState;
use waybill_core::port::transport::PluginIdentity;
use waybill_core::saga::definition::default_retry;
use waybill_core::saga::event::{End, Event, EventKind, Failure, PauseCause, Started, StepDirection, Wait};
use waybill_core::saga::id::{DefinitionHash, DefinitionRef, SagaId, SagaKey};
use waybill_core::saga::json::Json;
use waybill_core::saga::records::{SagaDead, SagaRow, SagaSummary, StoredDefinition};
use waybill_core::saga::state::{Effect, Pause, Phase, SagaNode, SagaState, StepRecord, StepState, StepWait, Tree};
use waybill_core::time::UnixMillis;

use super::samples::{T0, tenant};

/// Steps of a plain saga.
pub const STEPS: u16 = 3;

/// An instant after [`T0`].
pub fn after(ms: u64) -> UnixMillis {
    UnixMillis(T0.0 + ms)
}

pub fn key(tenant_name: &str, id: &str) -> SagaKey {
    SagaKey { tenant: tenant(tenant_name), id: SagaId::new(id).unwrap() }
}

pub fn json(text: &str) -> Json {
    Json::parse(text).unwrap()
}

pub fn reference(name: &str, version: u32) -> DefinitionRef {
    DefinitionRef { name: name.into(), version, hash: DefinitionHash(format!("{version:064x}").into()) }
}

pub fn definition(name: &str, version: u32) -> StoredDefinition {
    StoredDefinition {
        reference: DefinitionRef {
            hash: DefinitionHash(format!("{name}{version:0>50}").into()),
            ..reference(name, version)
        },
        canonical: json(&format!("{{\"name\":\"{name}\",\"version\":{version}}}")),
        created_at: T0,
        created_by: "ada".into(),
    }
}

fn identity() -> PluginIdentity {
    PluginIdentity {
        plugin: "order-steps".into(),
        version: "1.2.3".into(),
        digest: format!("sha256:{:064x}", 7),
        generation: 2,
    }
}

fn failure() -> Failure {
    Failure { maybe_done: true, ..Failure::new("HTTP.500", "the answer was 500 \"ö\"") }
}

fn started(input: Json) -> Started {
    Started {
        deadline: Some(after(3_600_000)),
        plugins: vec![("orders".into(), identity())],
        ..Started::new(reference("order", 3), STEPS, input, default_retry())
    }
}

fn event(at: u64, what: EventKind) -> Event {
    Event { at: after(at), saga: 0, actor: None, what }
}

fn began(step: u16, at: u64) -> Event {
    let until = Some(after(at + 30_000));
    let what =
        EventKind::StepBegan { step, way: StepDirection::Execute, attempt: 1, input: None, wait: Wait::Call, until };
    event(at, what)
}

fn output(step: u16) -> Json {
    json(&format!("{{\"reservation\":\"r-{step}\",\"amount\":1250,\"currency\":\"EUR\"}}"))
}

fn succeeded(step: u16, at: u64) -> Event {
    let (output, plugin) = (Some(output(step)), Some(identity().into()));
    let what = EventKind::StepSucceeded {
        step,
        way: StepDirection::Execute,
        attempt: 1,
        output,
        plugin,
        took_ms: 3,
        late: false,
    };
    event(at, what)
}

/// What happens to a plain saga that completes, commit by commit. `at` is its start after [`T0`].
pub fn transitions(at: u64) -> Vec<Vec<Event>> {
    let input = json("{\"order\":4711,\"customer\":\"c-17\",\"items\":[{\"sku\":\"A-1\",\"count\":2}]}");
    let mut all = vec![vec![event(at, EventKind::Started(Box::new(started(input)))), began(0, at)]];
    for step in 0..STEPS {
        let now = at + 5 * u64::from(step + 1);
        let next = if step + 1 < STEPS {
            began(step + 1, now)
        } else {
            event(now, EventKind::Ended { end: End::Completed, note: None })
        };
        all.push(vec![succeeded(step, now), next]);
    }
    all
}

/// A plain saga when it has completed. `at` is its start after [`T0`].
pub fn completed(of: SagaKey, at: u64) -> SagaRow {
    let events: Vec<Event> = transitions(at).into_iter().flatten().collect();
    let EventKind::Started(begun) = events[0].what.clone() else { unreachable!("it begins with its start") };
    let plugin = Some(Arc::new(identity()));
    let step = |step: u16| StepRecord {
        state: StepState::Succeeded,
        way: Some(StepDirection::Execute),
        attempt: 1,
        effect: Effect::Done,
        output: Some(output(step)),
        began_at: Some(after(at + 5 * u64::from(step))),
        ended_at: Some(after(at + 5 * u64::from(step + 1))),
        plugin: plugin.clone(),
        ..StepRecord::default()
    };
    let ended_at = Some(after(at + 5 * u64::from(STEPS)));
    let root = SagaNode {
        id: of.id.clone(),
        parent: None,
        definition: begun.definition.clone(),
        input: begun.input.clone(),
        deadline: begun.deadline,
        phase: Phase::Ended(End::Completed),
        failure: None,
        steps: (0..STEPS).map(step).collect(),
        signals: VecDeque::new(),
        started_at: after(at),
        ended_at,
    };
    let tree = Tree {
        key: of.clone(),
        events: events.len() as u32,
        started: Started { input: Json::null(), ..*begun },
        sagas: vec![root],
        paused: None,
        updated_at: after(at + 5 * u64::from(STEPS)),
        weight: 2_000,
        history: events,
        dropped: 0,
        latest: VecDeque::new(),
    };
    let summary = SagaSummary {
        key: of,
        definition: tree.started.definition.clone(),
        state: SagaState::Completed,
        waiting_for: None,
        since: None,
        until: None,
        steps: Vec::new(),
        code: None,
        reason: None,
        started_at: after(at),
        updated_at: tree.updated_at,
        ended_at,
        deadline: tree.started.deadline,
    };
    SagaRow { summary, tree: Arc::new(tree) }
}

/// A plain saga that waits for an approval since its second step.
pub fn resting(of: SagaKey, at: u64) -> SagaRow {
    let row = completed(of, at);
    let mut tree = row.tree.as_ref().clone();
    tree.history.truncate(4);
    tree.events = 4;
    tree.sagas[0].phase = Phase::Forward;
    tree.sagas[0].ended_at = None;
    tree.sagas[0].steps[1] = StepRecord {
        state: StepState::InFlight,
        way: Some(StepDirection::Execute),
        wait: Some(StepWait::For(Wait::Approval)),
        since: Some(after(at + 5)),
        attempt: 1,
        ..StepRecord::default()
    };
    tree.sagas[0].steps[2] = StepRecord::default();
    let summary = SagaSummary {
        state: SagaState::Running,
        waiting_for: Some("approval".into()),
        since: Some(after(at + 5)),
        until: Some(after(at + 60_000)),
        steps: vec!["approve".into()],
        ended_at: None,
        ..row.summary
    };
    SagaRow { summary, tree: Arc::new(tree) }
}

pub fn dead(of: SagaKey, code: &str) -> SagaDead {
    SagaDead {
        saga: of.id.child("pay"),
        key: of,
        definition: reference("payment", 2),
        step: "charge".into(),
        code: code.into(),
        reason: "the bank said no 17 times".into(),
        attempts: 6,
        died_at: after(90),
        state: DeadState::Dead,
    }
}

/// One of each kind of event, with every field set.
pub fn events() -> Vec<Event> {
    let (name, note): (Arc<str>, Option<Arc<str>>) = ("paid".into(), Some("as agreed".into()));
    let (way, plugin) = (StepDirection::Compensate, Some(identity().into()));
    let (data, until) = (json("{\"a\":[1,2.50,null]}"), Some(after(77)));
    let started = Started {
        pinned: vec![("saga:pay@2".into(), reference("pay", 2)), ("saga:ship".into(), reference("ship", 9))],
        caller_id: true,
        headers: vec![("x-a".into(), "1".into()), ("x-a".into(), "2".into())],
        envelope_id: Some("env".into()),
        correlation_id: Some("corr".into()),
        traceparent: Some("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01".into()),
        ..started(json("{\"big\":12345678901234567890}"))
    };
    let mut all = vec![EventKind::Started(Box::new(started))];
    all.push(EventKind::ChildStarted {
        step: 3,
        id: SagaId::new("root~pay").unwrap(),
        definition: reference("pay", 2),
        steps: 64,
        input: data.clone(),
        deadline: until,
    });
    let waits = [Wait::Call, Wait::Reply, Wait::Signal("go".into()), Wait::Approval, Wait::Child];
    all.extend(waits.into_iter().map(|wait| EventKind::StepBegan {
        step: 1,
        way,
        attempt: 4,
        input: Some(data.clone()),
        wait,
        until,
    }));
    all.push(EventKind::StepPending { step: 2, signal: name.clone(), until, data: data.clone(), plugin, took_ms: 12 });
    let plugin = Some(identity().into());
    let output = Some(data.clone());
    all.push(EventKind::StepSucceeded { step: 5, way, attempt: 2, output, plugin, took_ms: 9, late: true });
    let (retry_at, plugin) = (until, Some(identity().into()));
    all.push(EventKind::StepFailed { step: 5, way, attempt: 2, failure: failure(), retry_at, plugin, took_ms: 9 });
    let scope = Some("fn:orders".into());
    all.push(EventKind::StepReleased { step: 5, way, scope, failure: failure(), retry_at: after(5) });
    let lost = |clean: bool| EventKind::StepLost { step: 6, way, attempt: 3, clean, until: clean.then_some(after(7)) };
    all.extend([true, false].map(lost));
    all.push(EventKind::StepUnknown { step: 6, way, attempt: 3, failure: failure() });
    all.push(EventKind::LateResult { step: 6, way, attempt: 3, output: Some(data.clone()) });
    all.push(EventKind::StepSkipped { step: 6, way, note: note.clone() });
    all.push(EventKind::StepReset { step: 6, way });
    all.push(EventKind::Signalled { name: name.clone(), data, step: Some(0) });
    all.push(EventKind::SignalTaken { name });
    all.extend([true, false].map(|approved| EventKind::Decided { step: 9, approved, note: note.clone() }));
    all.push(EventKind::CompensationStarted { failure: failure() });
    all.push(EventKind::ForwardAgain);
    all.push(EventKind::Stuck { step: 63 });
    let causes = [PauseCause::Asked, PauseCause::UnknownResult, PauseCause::Suspect, PauseCause::Policy];
    all.extend(causes.map(|cause| EventKind::Paused { cause, note: note.clone() }));
    all.push(EventKind::Resumed);
    let ends = [End::Completed, End::Cancelled, End::Killed, End::Accepted, End::Skipped];
    all.extend(ends.map(|end| EventKind::Ended { end, note: note.clone() }));
    let line = |(number, what): (usize, EventKind)| Event {
        at: after(number as u64),
        saga: (number % 3) as u16,
        actor: (number % 2 == 0).then(|| "ada".into()),
        what,
    };
    all.into_iter().enumerate().map(line).collect()
}

fn steps() -> Vec<StepRecord> {
    let waits = [
        StepWait::For(Wait::Signal("go".into())),
        StepWait::For(Wait::Reply),
        StepWait::Pending("paid".into()),
        StepWait::Retry,
        StepWait::Released(Some("https://a.example".into())),
        StepWait::Released(None),
        StepWait::Lost,
        StepWait::Operator,
    ];
    let step = |wait: StepWait| StepRecord {
        state: StepState::InFlight,
        way: Some(StepDirection::Compensate),
        wait: Some(wait),
        until: Some(after(1)),
        since: Some(after(2)),
        attempt: 3,
        failures: 4,
        lost: 5,
        released: 6,
        delay_ms: 7,
        effect: Effect::Unknown,
        compensation_skipped: true,
        input: Some(json("[1]")),
        output: Some(json("[2]")),
        began_at: Some(after(8)),
        ended_at: Some(after(9)),
        failure: Some(failure()),
        plugin: Some(Arc::new(identity())),
        actor: Some("ada".into()),
        note: Some("by hand".into()),
    };
    let states = [
        StepState::Ready,
        StepState::Succeeded,
        StepState::Failed,
        StepState::Compensated,
        StepState::Skipped,
        StepState::CompensationFailed,
    ];
    let plain = states.map(|state| StepRecord { state, ..StepRecord::default() });
    waits.into_iter().map(step).chain(plain).collect()
}

/// A tree with every field set: sub-sagas in every phase, a long history, held.
pub fn full(of: SagaKey) -> Tree {
    let base = completed(of.clone(), 0);
    let phases = [Phase::Forward, Phase::Back, Phase::Stuck, Phase::Ended(End::Completed), Phase::Ended(End::Skipped)];
    let child = |(number, phase): (usize, Phase)| SagaNode {
        id: of.id.child(&format!("s{number}")),
        parent: Some((0, number as u16)),
        phase,
        failure: Some(failure()),
        steps: steps(),
        signals: VecDeque::from([("early".into(), json("true")), ("early".into(), json("[2]"))]),
        ..base.tree.sagas[0].clone()
    };
    let mut sagas = base.tree.sagas.clone();
    sagas.extend(phases.into_iter().enumerate().map(child));
    Tree {
        events: 1_234,
        started: started(Json::null()),
        sagas,
        paused: Some(Pause {
            at: after(3),
            cause: PauseCause::Policy,
            actor: Some("ada".into()),
            note: Some("wait".into()),
        }),
        history: events(),
        dropped: 17,
        latest: events().into(),
        ..base.tree.as_ref().clone()
    }
}
