//! A saga service made of recordings.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use serde_json::value::RawValue;
use waybill_core::ids::Tenant;
use waybill_core::port::query::Page;
use waybill_core::port::saga::*;
use waybill_core::saga::definition::problem::{Position, Problem, Problems, Severity};
use waybill_core::saga::error::SagaError;
use waybill_core::saga::event::{Event, Failure, PauseCause, Wait, Way, What};
use waybill_core::saga::filter::SagaFilter;
use waybill_core::saga::id::{DefinitionHash, DefinitionRef, SagaId, SagaKey};
use waybill_core::saga::json::Json;
use waybill_core::saga::records::{SagaSummary, StoredDefinition};
use waybill_core::saga::state::{Effect, Pause, SagaState, StepState};
use waybill_core::saga::view::{DefinitionView, HistoryLine, SagaNodeView, SagaView, StepView};
use waybill_core::time::UnixMillis;

use crate::support::{Fake, LATER, NOW, plugin};

type Served<T> = Result<T, SagaError>;

fn definition(version: u32) -> DefinitionRef {
    DefinitionRef { name: "order".into(), version, hash: DefinitionHash("ab".repeat(32).into()) }
}

fn raw(text: &str) -> Box<RawValue> {
    RawValue::from_string(text.to_owned()).unwrap()
}

fn summary(tenant: &str, id: &SagaId) -> SagaSummary {
    SagaSummary {
        key: SagaKey { tenant: Tenant::new(tenant).unwrap(), id: id.clone() },
        definition: definition(2),
        state: SagaState::Paused,
        waiting_for: Some("operator".into()),
        since: Some(NOW),
        until: None,
        steps: vec!["charge".into(), "pay/card".into()],
        code: Some("SAGA.UNKNOWN_RESULT".into()),
        reason: Some("no answer".into()),
        started_at: NOW,
        updated_at: NOW,
        ended_at: None,
        deadline: Some(UnixMillis(NOW.0 + 60_000)),
    }
}

fn failure() -> Failure {
    Failure { maybe_done: true, ..Failure::new("HTTP.TIMEOUT", "no answer in 30 s") }
}

fn step(name: &str, saga: Option<Box<SagaNodeView>>) -> StepView {
    StepView {
        name: name.into(),
        action: "fn:orders/charge".into(),
        compensation: Some("fn:orders/refund".into()),
        group: 0,
        state: StepState::InFlight,
        way: Some(Way::Execute),
        effect: Effect::Unknown,
        attempts: 2,
        failures: 1,
        waiting_for: Some("operator".into()),
        waiting: Some("an operator: the result is unknown".into()),
        since: Some(NOW),
        until: None,
        input: Some(raw("{\"n\":12345678901234567890.10}")),
        output: Some(raw("null")),
        failure: Some(failure()),
        began_at: Some(NOW),
        ended_at: None,
        plugin: Some(Arc::new(plugin())),
        actor: Some("ann".into()),
        note: Some("looked".into()),
        idempotency_key: format!("order-17/{name}/execute"),
        saga,
    }
}

/// A step that waits for a person.
fn approval() -> StepView {
    StepView {
        action: "wait:approval".into(),
        compensation: None,
        waiting_for: Some("approval".into()),
        waiting: Some("approve or reject".into()),
        until: Some(LATER),
        input: Some(raw("{\"for\":\"<b>Ann</b>\"}")),
        failure: None,
        actor: None,
        ..step("release", None)
    }
}

fn node(id: &SagaId, steps: Vec<StepView>) -> SagaNodeView {
    SagaNodeView {
        id: id.clone(),
        definition: definition(2),
        state: SagaState::Paused,
        cause: Some("killed"),
        failure: Some(failure()),
        input: raw("{\"order\":17}"),
        deadline: None,
        started_at: NOW,
        ended_at: None,
        steps,
        signals: vec!["early".into()],
    }
}

fn history(id: &SagaId) -> Vec<HistoryLine> {
    let (way, attempt, step) = (Way::Execute, 1, 0);
    let whats = [
        What::StepBegan { step, way, attempt, input: None, wait: Wait::Call, until: Some(NOW) },
        What::StepSucceeded {
            step,
            way,
            attempt,
            output: None,
            plugin: Some(plugin().into()),
            took_ms: 12,
            late: false,
        },
        What::StepFailed {
            step,
            way,
            attempt,
            failure: failure(),
            retry_at: Some(NOW),
            plugin: Some(plugin().into()),
            took_ms: 12,
        },
        What::StepReleased { step, way, scope: None, failure: failure(), retry_at: NOW },
        What::StepUnknown { step, way, attempt, failure: failure() },
        What::StepSkipped { step, way, note: None },
        What::CompensationStarted { failure: failure() },
        What::Resumed,
    ];
    let line = |what: What| HistoryLine {
        at: NOW,
        saga: id.clone(),
        step: Some("charge".into()),
        kind: "step_failed",
        text: "attempt 1 failed".into(),
        actor: Some("ann".into()),
        event: Event { at: NOW, saga: 0, actor: None, what },
    };
    whats.into_iter().map(line).collect()
}

fn view(tenant: &Tenant, id: &SagaId) -> SagaView {
    let child = node(&id.child("pay"), vec![step("card", None)]);
    SagaView {
        summary: summary(tenant.as_str(), &id.root_id()),
        waiting: Some("an operator".into()),
        paused: Some(Pause { at: NOW, cause: PauseCause::UnknownResult, actor: None, note: Some("why".into()) }),
        saga: node(id, vec![step("charge", None), step("pay", Some(Box::new(child))), approval()]),
        plugins: vec![("orders".into(), plugin())],
        headers: vec![("x-a".into(), "1".into())],
        envelope_id: Some("e".into()),
        correlation_id: Some("c".into()),
        history: history(id),
        history_dropped: 3,
    }
}

fn problem(severity: Severity, line: usize) -> Problem {
    let at = Position { line, column: 7 };
    Problem { severity, at, path: "steps[0].action".into(), what: "it is odd".into(), fix: "write http://".into() }
}

impl Fake {
    fn saga_told(&self, call: String) -> Served<()> {
        self.calls.lock().unwrap().push(call);
        self.saga_fails.lock().unwrap().clone().map_or(Ok(()), Err)
    }

    fn acted(&self, call: String, tenant: &Tenant, id: &SagaId) -> Served<Acted> {
        self.saga_told(format!("{call} {tenant} {id}"))?;
        if id.as_str() == "gone" {
            return Err(SagaError::NotFound { id: id.to_string() });
        }
        Ok(Acted { id: id.root_id(), state: SagaState::Running, unchanged: false })
    }
}

#[async_trait]
impl SagaService for Fake {
    async fn define(&self, define: Define) -> Served<Defined> {
        let Define { text, format, dry_run, actor } = define;
        self.saga_told(format!("define {format:?} {dry_run} {actor} [{text}]"))?;
        if text.contains("broken") {
            return Err(Problems(vec![problem(Severity::Error, 3), problem(Severity::Warning, 9)]).into());
        }
        let running = RunningElsewhere {
            tenant: Tenant::unnamed(),
            id: SagaId::root("order-1").unwrap(),
            definition: definition(1),
            state: SagaState::Running,
            could_move: false,
            reason: Some("step \"charge\" has begun and is another there".into()),
        };
        Ok(Defined {
            definition: definition(2),
            created: !text.contains("again"),
            dry_run,
            warnings: vec![problem(Severity::Warning, 4)],
            running: vec![running],
            running_count: 1,
        })
    }
    async fn definition(&self, name: &str, version: Option<u32>) -> Served<DefinitionView> {
        self.saga_told(format!("definition {name} {version:?}"))?;
        if name == "gone" {
            return Err(SagaError::NoDefinition { name: name.to_owned() });
        }
        let document = raw("{\"name\":\"order\",\"steps\":[]}");
        let created_by = "ann".to_owned();
        Ok(DefinitionView { definition: definition(2), document, created_at: NOW, created_by, versions: vec![1, 2] })
    }
    async fn definitions(
        &self,
        name: Option<&str>,
        cursor: Option<&str>,
        limit: usize,
    ) -> Served<Page<StoredDefinition>> {
        self.saga_told(format!("definitions {name:?} {cursor:?} {limit}"))?;
        let stored = StoredDefinition {
            reference: definition(2),
            canonical: Json::null(),
            created_at: NOW,
            created_by: "ann".into(),
        };
        Ok(Page { items: vec![stored], next_cursor: cursor.is_none().then(|| "order/2".to_owned()) })
    }
    async fn start(&self, start: StartSaga) -> Served<StartedSaga> {
        let StartSaga { tenant, definition, version, id, input, deadline, headers, traceparent, actor, .. } = start;
        self.saga_told(format!(
            "saga start {tenant} {definition} {version:?} {id:?} {input:?} {deadline:?} {headers:?} {traceparent:?} {actor}"
        ))?;
        let id = SagaId::root(id.as_deref().unwrap_or("made"))?;
        Ok(StartedSaga { duplicate: id.as_str() == "again", id })
    }
    async fn saga(&self, tenant: &Tenant, id: &SagaId) -> Served<SagaView> {
        self.acted("saga".into(), tenant, id)?;
        let mut view = view(tenant, id);
        if id.as_str() == "order-slow" {
            view.summary.state = SagaState::Running;
        }
        Ok(view)
    }
    async fn at_rest(&self, tenant: &Tenant, id: &SagaId, within: Duration) -> Served<Option<SagaState>> {
        self.saga_told(format!("at_rest {tenant} {id} {within:?}"))?;
        if id.as_str() == "gone" {
            return Err(SagaError::NotFound { id: id.to_string() });
        }
        Ok((id.as_str() != "order-slow").then_some(SagaState::Completed))
    }
    async fn sagas(&self, filter: &SagaFilter, cursor: Option<&str>, limit: usize) -> Served<Page<SagaSummary>> {
        let tenant = filter.tenant.as_ref().map_or("*", |glob| glob.exact().unwrap_or("a pattern"));
        let named = filter.definition.as_ref().map(|glob| glob.exact().unwrap_or("a pattern"));
        self.saga_told(format!("sagas {tenant} {named:?} {cursor:?} {limit}"))?;
        let items = vec![summary("default", &SagaId::root("order-17").unwrap())];
        Ok(Page { items, next_cursor: cursor.is_none().then(|| "0:9".to_owned()) })
    }
    async fn act(&self, tenant: &Tenant, id: &SagaId, act: SagaAct, by: ActedBy) -> Served<Acted> {
        self.acted(format!("{act:?} by {} {:?}", by.actor, by.note), tenant, id)
    }
    async fn signal(&self, tenant: &Tenant, id: &SagaId, name: &str, data: Json, by: ActedBy) -> Served<Acted> {
        self.acted(format!("signal {name} {data:?} by {}", by.actor), tenant, id)
    }
    async fn reply(&self, tenant: &Tenant, reply: StepReply) -> Served<Acted> {
        let StepReply { id, step, way, attempt, result } = reply;
        self.acted(format!("reply {step} {way:?} {attempt:?} {result:?}"), tenant, &id)
    }
    fn saga_stats(&self) -> SagaStats {
        SagaStats { running: 5, running_bytes: 99, paused: 2, stuck: 1, timers: 4, uncommitted: 3 }
    }
}
