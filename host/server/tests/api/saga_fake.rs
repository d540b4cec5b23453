//! A saga service made of recordings.

use std::time::Duration;

use async_trait::async_trait;
use serde_json::value::RawValue;
use waybill_api::headers::HeadersJson;
use waybill_api::saga_definitions::DefinitionView;
use waybill_api::saga_history::HistoryLine;
use waybill_api::saga_node::{SagaNodeView, StepView};
use waybill_api::sagas::*;
use waybill_core::ids::Tenant;
use waybill_core::port::query::Page;
use waybill_core::port::saga::*;
use waybill_core::saga::definition::problem::{Position, Problem, Problems, Severity};
use waybill_core::saga::error::SagaError;
use waybill_core::saga::event::{PauseCause, StepDirection};
use waybill_core::saga::filter::SagaFilter;
use waybill_core::saga::id::{DefinitionHash, DefinitionRef, SagaId, SagaKey};
use waybill_core::saga::json::Json;
use waybill_core::saga::records::{SagaSummary, StoredDefinition};
use waybill_core::saga::state::{Effect, SagaState, StepState};
use waybill_core::time::UnixMillis;

use crate::support::{Fake, LATER, NOW, plugin};

type Served<T> = Result<T, SagaError>;

fn definition(version: u32) -> DefinitionRef {
    DefinitionRef { name: "order".into(), version, hash: DefinitionHash("ab".repeat(32).into()) }
}

fn stored() -> StoredDefinition {
    StoredDefinition { reference: definition(2), canonical: Json::null(), created_at: NOW, created_by: "ann".into() }
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

fn failure() -> FailureView {
    FailureView { code: "HTTP.TIMEOUT".into(), reason: "no answer in 30 s".into(), maybe_done: true }
}

fn step(name: &str, saga: Option<Box<SagaNodeView>>) -> StepView {
    StepView {
        name: name.into(),
        action: "fn:orders/charge".into(),
        compensation: Some("fn:orders/refund".into()),
        group: 0,
        state: StepState::InFlight,
        direction: Some(StepDirection::Execute),
        effect: Effect::Unknown,
        attempts: 2,
        failures: 1,
        waiting_for: Some("operator".into()),
        waiting: Some("an operator: the result is unknown".into()),
        since: Some(NOW.into()),
        until: None,
        input: Some(raw("{\"n\":12345678901234567890.10}")),
        output: Some(raw("null")),
        failure: Some(failure()),
        began_at: Some(NOW.into()),
        ended_at: None,
        plugin: Some(plugin()),
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
        until: Some(LATER.into()),
        input: Some(raw("{\"for\":\"<b>Ann</b>\"}")),
        failure: None,
        actor: None,
        ..step("release", None)
    }
}

fn node(id: &SagaId, steps: Vec<StepView>) -> SagaNodeView {
    SagaNodeView {
        id: id.to_string(),
        definition: "order".into(),
        version: 2,
        state: SagaState::Paused,
        cause: Some("killed".into()),
        failure: Some(failure()),
        input: raw("{\"order\":17}"),
        deadline: None,
        started_at: NOW.into(),
        ended_at: None,
        steps,
        signals: vec!["early".into()],
    }
}

fn history(id: &SagaId) -> Vec<HistoryLine> {
    let bare = HistoryLine {
        at: NOW.into(),
        saga: id.to_string(),
        step: Some("charge".into()),
        kind: "step_failed".into(),
        text: "attempt 1 failed".into(),
        actor: Some("ann".into()),
        direction: None,
        attempt: None,
        took_ms: None,
        failure: None,
        retry_at: None,
        plugin: None,
    };
    let failed = HistoryLine {
        direction: Some(StepDirection::Execute),
        attempt: Some(1),
        took_ms: Some(12),
        failure: Some(failure()),
        retry_at: Some(NOW.into()),
        plugin: Some(plugin()),
        ..bare.clone()
    };
    vec![bare.clone(), HistoryLine { took_ms: Some(12), ..bare }, failed]
}

fn view(tenant: &Tenant, id: &SagaId) -> SagaView {
    let child = node(&id.child("pay"), vec![step("card", None)]);
    SagaView {
        waiting: Some("an operator".into()),
        paused: Some(PauseView {
            at: NOW.into(),
            cause: PauseCause::UnknownResult,
            actor: None,
            note: Some("why".into()),
        }),
        saga: Some(node(id, vec![step("charge", None), step("pay", Some(Box::new(child))), approval()])),
        plugins: Some(vec![SagaParticipant { participant: "orders".into(), plugin: plugin() }]),
        headers: Some(HeadersJson(vec![("x-a".into(), "1".into())])),
        envelope_id: Some("e".into()),
        correlation_id: Some("c".into()),
        history: Some(history(id)),
        history_dropped: Some(3),
        ..summary(tenant.as_str(), &id.root_id()).into()
    }
}

fn problem(severity: Severity, line: usize) -> Problem {
    let at = Position { line, column: 7 };
    Problem { severity, at, path: "steps[0].action".into(), what: "it is odd".into(), fix: "write http://".into() }
}

impl Fake {
    fn record_saga(&self, call: String) -> Served<()> {
        self.calls.lock().unwrap().push(call);
        self.saga_fails.lock().unwrap().clone().map_or(Ok(()), Err)
    }

    fn acted(&self, call: String, tenant: &Tenant, id: &SagaId) -> Served<Acted> {
        self.record_saga(format!("{call} {tenant} {id}"))?;
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
        self.record_saga(format!("define {format:?} {dry_run} {actor} [{text}]"))?;
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
        self.record_saga(format!("definition {name} {version:?}"))?;
        if name == "gone" {
            return Err(SagaError::NoDefinition { name: name.to_owned() });
        }
        let document = raw("{\"name\":\"order\",\"steps\":[]}");
        Ok(DefinitionView { versions: Some(vec![1, 2]), document: Some(document), ..stored().into() })
    }
    async fn definitions(
        &self,
        name: Option<&str>,
        cursor: Option<&str>,
        limit: usize,
    ) -> Served<Page<StoredDefinition>> {
        self.record_saga(format!("definitions {name:?} {cursor:?} {limit}"))?;
        Ok(Page { items: vec![stored()], next_cursor: cursor.is_none().then(|| "order/2".to_owned()) })
    }
    async fn start(&self, start: StartSaga) -> Served<StartedSaga> {
        let StartSaga { tenant, definition, version, id, input, deadline, headers, traceparent, actor, .. } = start;
        self.record_saga(format!(
            "saga start {tenant} {definition} {version:?} {id:?} {input:?} {deadline:?} {headers:?} {traceparent:?} {actor}"
        ))?;
        let id = SagaId::root(id.as_deref().unwrap_or("made"))?;
        Ok(StartedSaga { duplicate: id.as_str() == "again", id })
    }
    async fn saga(&self, tenant: &Tenant, id: &SagaId) -> Served<SagaView> {
        self.acted("saga".into(), tenant, id)?;
        let mut view = view(tenant, id);
        if id.as_str() == "order-slow" {
            view.state = SagaState::Running;
        }
        Ok(view)
    }
    async fn at_rest(&self, tenant: &Tenant, id: &SagaId, within: Duration) -> Served<Option<SagaState>> {
        self.record_saga(format!("at_rest {tenant} {id} {within:?}"))?;
        if id.as_str() == "gone" {
            return Err(SagaError::NotFound { id: id.to_string() });
        }
        Ok((id.as_str() != "order-slow").then_some(SagaState::Completed))
    }
    async fn sagas(&self, filter: &SagaFilter, cursor: Option<&str>, limit: usize) -> Served<Page<SagaSummary>> {
        let tenant = filter.tenant.as_ref().map_or("*", |glob| glob.exact().unwrap_or("a pattern"));
        let named = filter.definition.as_ref().map(|glob| glob.exact().unwrap_or("a pattern"));
        self.record_saga(format!("sagas {tenant} {named:?} {cursor:?} {limit}"))?;
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
