//! Sagas of the fake host: one that completed, one that waits for a person, one that is stuck in a compensation.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use serde_json::value::RawValue;
use waybill_api::headers::HeadersJson;
use waybill_api::saga_definitions::DefinitionView;
use waybill_api::saga_history::HistoryLine;
use waybill_api::saga_node::{SagaNodeView, StepView};
use waybill_api::sagas::*;
use waybill_core::ids::Tenant;
use waybill_core::outbox::records::DeadState;
use waybill_core::port::query::Page;
use waybill_core::port::saga::*;
use waybill_core::port::service::OperationRequest;
use waybill_core::port::transact::Operation;
use waybill_core::port::transport::PluginIdentity;
use waybill_core::saga::definition::problem::{Position, Problem, Problems, Severity};
use waybill_core::saga::error::SagaError;
use waybill_core::saga::event::{Failure, StepDirection};
use waybill_core::saga::filter::SagaFilter;
use waybill_core::saga::id::{DefinitionHash, DefinitionRef, SagaId, SagaKey};
use waybill_core::saga::json::Json;
use waybill_core::saga::records::{SagaDead, SagaSummary, StoredDefinition};
use waybill_core::saga::state::{Effect, SagaState, StepState};
use waybill_core::time::UnixMillis;

use crate::fake_host::{NOW, Recorded, identity};

type Served<T> = Result<T, SagaError>;

/// Answers from a few fixed sagas.
pub struct Sagas(pub Arc<Mutex<Recorded>>);

fn later(seconds: u64) -> UnixMillis {
    UnixMillis(NOW.0 + seconds * 1_000)
}

fn raw(text: &str) -> Box<RawValue> {
    RawValue::from_string(text.to_owned()).unwrap()
}

fn definition(name: &str, version: u32) -> DefinitionRef {
    DefinitionRef { name: name.into(), version, hash: DefinitionHash("ef".repeat(32).into()) }
}

fn stored(version: u32) -> StoredDefinition {
    StoredDefinition {
        reference: definition("order", version),
        canonical: Json::null(),
        created_at: NOW,
        created_by: "ann".into(),
    }
}

fn failure(code: &str, reason: &str, maybe_done: bool) -> FailureView {
    (&Failure { maybe_done, ..Failure::new(code, reason) }).into()
}

/// A step that was done: with output, in one attempt.
fn done(name: &str, group: u16, at: u64) -> StepView {
    StepView {
        name: name.into(),
        action: format!("fn:orders/{name}"),
        compensation: Some(format!("fn:orders/undo-{name}")),
        group,
        state: StepState::Succeeded,
        direction: Some(StepDirection::Execute),
        effect: Effect::Done,
        attempts: 1,
        failures: 0,
        waiting_for: None,
        waiting: None,
        since: None,
        until: None,
        input: None,
        output: Some(raw("{\"id\": \"r-1\", \"total\": 10.50}")),
        failure: None,
        began_at: Some(later(at).into()),
        ended_at: Some(later(at + 1).into()),
        plugin: Some(plugin()),
        actor: None,
        note: None,
        idempotency_key: format!("order-17/{name}/execute"),
        saga: None,
    }
}

fn ready(name: &str, group: u16) -> StepView {
    StepView {
        state: StepState::Ready,
        direction: None,
        effect: Effect::None,
        attempts: 0,
        output: None,
        began_at: None,
        ended_at: None,
        plugin: None,
        ..done(name, group, 0)
    }
}

fn plugin() -> PluginIdentity {
    PluginIdentity { plugin: "orders".into(), ..identity() }
}

fn node(id: &str, name: &str, state: SagaState, steps: Vec<StepView>) -> SagaNodeView {
    SagaNodeView {
        id: id.into(),
        definition: name.into(),
        version: 2,
        state,
        cause: None,
        failure: None,
        input: raw("{\"order\": 17, \"total\": \"10.50\"}"),
        deadline: None,
        started_at: NOW.into(),
        ended_at: None,
        steps,
        signals: Vec::new(),
    }
}

fn summary(id: &str, tenant: &str, state: SagaState) -> SagaSummary {
    SagaSummary {
        key: SagaKey { tenant: Tenant::new(tenant).unwrap(), id: SagaId::root(id).unwrap() },
        definition: definition("order", 2),
        state,
        waiting_for: None,
        since: None,
        until: None,
        steps: Vec::new(),
        code: None,
        reason: None,
        started_at: NOW,
        updated_at: later(20),
        ended_at: None,
        deadline: None,
    }
}

fn completed() -> SagaSummary {
    SagaSummary { ended_at: Some(later(20)), ..summary("order-16", "acme", SagaState::Completed) }
}

fn waiting() -> SagaSummary {
    SagaSummary {
        waiting_for: Some("approval".into()),
        since: Some(later(2)),
        until: Some(later(600)),
        steps: vec!["release".into()],
        ..summary("order-18", "default", SagaState::Running)
    }
}

fn stuck() -> SagaSummary {
    SagaSummary {
        waiting_for: Some("operator".into()),
        since: Some(later(20)),
        steps: vec!["charge".into()],
        code: Some("HTTP.STATUS".into()),
        reason: Some("500 from pay.example".into()),
        deadline: Some(later(3600)),
        ..summary("order-17", "default", SagaState::Failed)
    }
}

/// The dead letter of the stuck one.
pub fn dead() -> Arc<SagaDead> {
    let SagaSummary { key, definition, .. } = stuck();
    Arc::new(SagaDead {
        saga: key.id.clone(),
        key,
        definition,
        step: "charge".into(),
        code: "HTTP.STATUS".into(),
        reason: "500 from pay.example".into(),
        attempts: 6,
        died_at: later(20),
        state: DeadState::Dead,
    })
}

fn stuck_tree() -> SagaNodeView {
    let card = StepView {
        state: StepState::Failed,
        effect: Effect::None,
        attempts: 2,
        failures: 2,
        output: None,
        failure: Some(failure("CARRIER.CLOSED", "no pick-up before Monday", false)),
        ..done("book", 0, 4)
    };
    let child = SagaNodeView {
        failure: Some(failure("CARRIER.CLOSED", "no pick-up before Monday", false)),
        ended_at: Some(later(6).into()),
        ..node("order-17~ship", "shipment", SagaState::Cancelled, vec![card])
    };
    let charge = StepView {
        action: "https://pay.example/charges".into(),
        compensation: Some("https://pay.example/refunds".into()),
        state: StepState::CompensationFailed,
        direction: Some(StepDirection::Compensate),
        attempts: 6,
        failures: 6,
        input: Some(raw("{\"amount\": \"10.50\"}")),
        failure: Some(failure("HTTP.STATUS", "500 from pay.example: \u{1b}[31mred", true)),
        ended_at: Some(later(20).into()),
        plugin: None,
        ..done("charge", 1, 2)
    };
    let label = StepView {
        state: StepState::Compensated,
        direction: Some(StepDirection::Compensate),
        effect: Effect::None,
        ..done("label", 1, 2)
    };
    let ship = StepView {
        action: "saga:shipment".into(),
        compensation: None,
        state: StepState::Failed,
        effect: Effect::None,
        output: None,
        plugin: None,
        failure: Some(failure("SAGA.CHILD", "sub-saga order-17~ship was cancelled", false)),
        saga: Some(Box::new(child)),
        ..done("ship", 2, 4)
    };
    SagaNodeView {
        cause: Some("compensation_failed".into()),
        failure: Some(failure("SAGA.CHILD", "sub-saga order-17~ship was cancelled", false)),
        deadline: Some(later(3600).into()),
        signals: vec!["paid".into()],
        ..node(
            "order-17",
            "order",
            SagaState::Failed,
            vec![done("reserve", 0, 0), charge, label, ship, ready("notify", 3)],
        )
    }
}

fn waiting_tree() -> SagaNodeView {
    let release = StepView {
        action: "wait:approval".into(),
        compensation: None,
        state: StepState::InFlight,
        effect: Effect::None,
        waiting_for: Some("approval".into()),
        waiting: Some("a person who approves or rejects".into()),
        since: Some(later(2).into()),
        until: Some(later(600).into()),
        output: None,
        ended_at: None,
        plugin: None,
        ..done("release", 1, 2)
    };
    node("order-18", "order", SagaState::Running, vec![done("reserve", 0, 0), release])
}

fn completed_tree() -> SagaNodeView {
    let skipped = StepView {
        state: StepState::Skipped,
        actor: Some("ann".into()),
        note: Some("the customer was called".into()),
        ..ready("notify", 1)
    };
    SagaNodeView {
        ended_at: Some(later(20).into()),
        ..node("order-16", "order", SagaState::Completed, vec![done("reserve", 0, 0), skipped])
    }
}

fn history(id: &SagaId) -> Vec<HistoryLine> {
    let line = |at: u64, step: &str, kind: &str, text: &str| HistoryLine {
        at: later(at).into(),
        saga: id.to_string(),
        step: Some(step.to_owned()),
        kind: kind.to_owned(),
        text: text.to_owned(),
        actor: (kind == "decided").then(|| "ann".into()),
        direction: None,
        attempt: None,
        took_ms: None,
        failure: None,
        retry_at: None,
        plugin: None,
    };
    let succeeded = line(0, "reserve", "step_succeeded", "succeeded at attempt 1");
    vec![
        HistoryLine {
            direction: Some(StepDirection::Execute),
            attempt: Some(1),
            took_ms: Some(42),
            plugin: Some(plugin()),
            ..succeeded
        },
        line(5, "release", "decided", "approved"),
        HistoryLine { saga: id.child("ship").to_string(), ..line(6, "book", "step_reset", "begun anew") },
    ]
}

impl Sagas {
    fn act(&self, act: String) {
        self.0.lock().unwrap().acts.push(act);
    }

    fn acted(&self, act: String, tenant: &Tenant, id: &SagaId, state: SagaState) -> Served<Acted> {
        if id.root_id().as_str() == "gone" {
            return Err(SagaError::NotFound { id: id.to_string() });
        }
        self.act(format!("{act} {tenant}/{id}"));
        Ok(Acted { id: id.root_id(), state, unchanged: id.as_str() == "same" })
    }
}

impl Sagas {
    /// Does a bulk act to those that match; none = it isn't for sagas.
    pub async fn operate(&self, request: OperationRequest, mut over: Operation) -> Option<Operation> {
        let act = match request.kind.as_str() {
            "pause" => SagaAct::Pause,
            "resume" => SagaAct::Resume,
            "cancel" => SagaAct::Cancel,
            "kill" => SagaAct::Kill,
            "retry" => SagaAct::Retry { step: request.step, mode: request.mode.unwrap_or_default() },
            "accept" => SagaAct::Accept,
            _ => return None,
        };
        let filter = SagaFilter { is_open: true, ..SagaFilter::parse(&request.filter, NOW).unwrap() };
        let found = self.sagas(&filter, None, 100).await.unwrap().items;
        (over.matched, over.done) = (found.len() as u64, 0);
        for SagaSummary { key, .. } in found {
            let by = ActedBy {
                actor: request.actor.clone(),
                note: Some(request.reason.clone()).filter(|it| !it.is_empty()),
            };
            match SagaService::act(self, &key.tenant, &key.id, act.clone(), by).await {
                Ok(acted) if acted.unchanged => over.unchanged += 1,
                Ok(_) => over.done += 1,
                Err(error) => {
                    over.refuse(error.code().as_str(), key.id.as_str(), error.to_string());
                }
            }
        }
        Some(over)
    }
}

#[async_trait]
impl SagaService for Sagas {
    async fn define(&self, define: Define) -> Served<Defined> {
        let problem = |severity, line, path: &str, what: &str, fix: &str| Problem {
            severity,
            at: Position { line, column: 10 },
            path: path.into(),
            what: what.into(),
            fix: fix.into(),
        };
        let needs_payment = define.text.contains("needs =");
        let has_payment = !self.0.lock().unwrap().acts.is_empty();
        if define.text.contains("htp:") || needs_payment && !has_payment {
            return Err(Problems(vec![
                problem(
                    Severity::Error,
                    6,
                    "steps[0].action",
                    "the scheme \"htp\" isn't known",
                    "did you mean \"http\"?",
                ),
                problem(
                    Severity::Error,
                    9,
                    "steps[1].input",
                    "there is no step \"resrve\" before",
                    "did you mean \"reserve\"?",
                ),
                problem(
                    Severity::Warning,
                    8,
                    "steps[1]",
                    "it has no compensation",
                    "give it one, or say idempotent = true",
                ),
            ])
            .into());
        }
        self.act(format!("define {:?} {} {}", define.format, define.dry_run, define.text.len()));
        let running = RunningElsewhere {
            tenant: Tenant::unnamed(),
            id: SagaId::root("order-18").unwrap(),
            definition: definition("order", 1),
            state: SagaState::Running,
            could_move: false,
            reason: Some("step \"release\" has begun and is another there".into()),
        };
        Ok(Defined {
            definition: definition("order", 2),
            created: true,
            dry_run: define.dry_run,
            warnings: vec![problem(Severity::Warning, 8, "steps[1]", "it has no compensation", "give it one")],
            running: vec![running],
            running_count: 1,
        })
    }
    async fn definition(&self, name: &str, version: Option<u32>) -> Served<DefinitionView> {
        if name != "order" {
            return Err(SagaError::NoDefinition { name: name.to_owned() });
        }
        let document = raw(
            "{\"name\":\"order\",\"version\":2,\"steps\":[{\"name\":\"reserve\",\"action\":\"fn:orders/reserve\"}]}",
        );
        let stored = stored(version.unwrap_or(2));
        Ok(DefinitionView { versions: Some(vec![1, 2]), document: Some(document), ..stored.into() })
    }
    async fn definitions(&self, _: Option<&str>, _: Option<&str>, _: usize) -> Served<Page<StoredDefinition>> {
        Ok(Page { items: vec![stored(2), stored(1)], next_cursor: None })
    }
    async fn start(&self, start: StartSaga) -> Served<StartedSaga> {
        if start.definition != "order" {
            return Err(SagaError::NoDefinition { name: start.definition });
        }
        let StartSaga { tenant, definition, version, id, input, deadline, headers, .. } = start;
        self.act(format!("start {tenant} {definition} {version:?} {input:?} {deadline:?} {headers:?}"));
        let id = SagaId::root(id.as_deref().unwrap_or("order-16"))?;
        Ok(StartedSaga { duplicate: id.as_str() == "again", id })
    }
    async fn saga(&self, tenant: &Tenant, id: &SagaId) -> Served<SagaView> {
        let (summary, saga) = match (tenant.as_str(), id.root_id().as_str()) {
            ("acme", "order-16") => (completed(), completed_tree()),
            ("default", "order-17") => (stuck(), stuck_tree()),
            ("default", "order-18") => (waiting(), waiting_tree()),
            ("default", "order-19") => (
                SagaSummary { ended_at: Some(later(20)), ..summary("order-19", "default", SagaState::Cancelled) },
                node("order-19", "order", SagaState::Cancelled, vec![ready("reserve", 0)]),
            ),
            _ => return Err(SagaError::NotFound { id: id.to_string() }),
        };
        let operator = summary.waiting_for.as_deref() == Some("operator");
        Ok(SagaView {
            waiting: operator.then(|| "an operator: the compensation of charge failed for good".to_owned()),
            paused: None,
            saga: Some(saga),
            plugins: Some(vec![SagaParticipant { participant: "orders".into(), plugin: plugin() }]),
            headers: Some(HeadersJson(vec![("source".into(), "shop".into())])),
            correlation_id: Some("c-1".into()),
            history: Some(history(&id.root_id())),
            history_dropped: Some(0),
            ..summary.into()
        })
    }
    async fn at_rest(&self, _: &Tenant, _: &SagaId, _: Duration) -> Served<Option<SagaState>> {
        Ok(Some(SagaState::Completed))
    }
    async fn sagas(&self, filter: &SagaFilter, _: Option<&str>, _: usize) -> Served<Page<SagaSummary>> {
        let items = vec![waiting(), stuck(), completed()];
        let items = items.into_iter().filter(|saga| filter.takes(saga)).collect();
        Ok(Page { items, next_cursor: None })
    }
    async fn act(&self, tenant: &Tenant, id: &SagaId, act: SagaAct, by: ActedBy) -> Served<Acted> {
        if id.root_id() != *id && matches!(act, SagaAct::Pause) {
            return Err(SagaError::NotRoot { id: id.to_string(), root: id.root_id().to_string() });
        }
        if id.as_str() == "order-16" {
            return Err(SagaError::Ended { id: id.to_string(), state: "completed".into() });
        }
        let refused = by.note.as_deref().and_then(|note| note.strip_prefix("refuse "));
        if refused == Some(id.as_str()) {
            let (state, fix) = ("running".to_owned(), "only a stuck one can be accepted".to_owned());
            return Err(SagaError::State { id: id.to_string(), state, fix });
        }
        let state = if act == SagaAct::Pause { SagaState::Paused } else { SagaState::Running };
        self.acted(format!("{act:?} {:?}", by.note), tenant, id, state)
    }
    async fn signal(&self, tenant: &Tenant, id: &SagaId, name: &str, data: Json, _: ActedBy) -> Served<Acted> {
        self.acted(format!("signal {name} {data:?}"), tenant, id, SagaState::Running)
    }
    async fn reply(&self, tenant: &Tenant, reply: StepReply) -> Served<Acted> {
        let StepReply { id, step, way, attempt, result } = reply;
        self.acted(format!("reply {step} {way:?} {attempt:?} {result:?}"), tenant, &id, SagaState::Running)
    }
    fn saga_stats(&self) -> SagaStats {
        SagaStats::default()
    }
}
