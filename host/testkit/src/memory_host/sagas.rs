//! Sagas brought into every state.

use std::collections::BTreeSet;

use waybill_api::saga_node::StepView;
use waybill_api::sagas::SagaView;
use waybill_core::port::participant::Direction;
use waybill_core::port::saga::{ActedBy, Define, Defined, DefinitionFormat, SagaAct, StartSaga};
use waybill_core::saga::id::SagaId;
use waybill_core::saga::json::Json;
use waybill_core::saga::state::SagaState;

use super::{InMemoryHost, eventually, tenant};

/// Two steps that the participant serves, and one that waits for a person between them.
pub const ORDER: &str = r#"name = "order"
version = 1

[[steps]]
name = "reserve"
action = "fn:orders/reserve"
compensation = "fn:orders/reserve"

[[steps]]
name = "release"
action = "wait:approval"

[[steps]]
name = "charge"
action = "fn:orders/charge"
compensation = "fn:orders/charge"
"#;

impl InMemoryHost {
    /// Stores a definition in TOML.
    pub async fn define(&self, text: &str) -> Defined {
        let (text, format) = (text.to_owned(), DefinitionFormat::Toml);
        self.sagas
            .define(Define { text, format, dry_run: false, given: Vec::new(), actor: "ann".to_owned() })
            .await
            .unwrap()
    }

    /// Starts a saga with the input `{"order":17}`.
    pub async fn begin(&self, definition: &str, of: &str, id: &str) {
        let start = StartSaga {
            tenant: tenant(of),
            definition: definition.to_owned(),
            version: None,
            id: Some(id.to_owned()),
            input: Json::parse("{\"order\":17}").unwrap(),
            deadline: None,
            headers: Vec::new(),
            envelope_id: None,
            correlation_id: None,
            traceparent: None,
            actor: "ann".to_owned(),
        };
        self.sagas.start(start).await.unwrap();
    }

    pub async fn saga(&self, of: &str, id: &str) -> SagaView {
        self.sagas.saga(&tenant(of), &SagaId::new(id).unwrap()).await.unwrap()
    }

    /// A step of the root.
    pub async fn step(&self, of: &str, id: &str, name: &str) -> StepView {
        self.saga(of, id).await.saga.unwrap().steps.into_iter().find(|step| step.name == name).unwrap()
    }

    pub async fn until_saga(&self, of: &str, id: &str, state: SagaState) -> SagaView {
        let what = format!("saga {id} is {}", state.word());
        eventually(&what, async || self.saga(of, id).await.state == state).await;
        self.saga(of, id).await
    }

    pub async fn until_waiting(&self, of: &str, id: &str, waiting_for: &str) -> SagaView {
        let what = format!("saga {id} waits for {waiting_for}");
        eventually(&what, async || self.saga(of, id).await.waiting_for.as_deref() == Some(waiting_for)).await;
        self.saga(of, id).await
    }

    /// An operator's act.
    pub async fn act(&self, of: &str, id: &str, act: SagaAct) {
        self.act_noted(of, id, act, "").await;
    }

    /// The same with a note; an empty one is none.
    pub async fn act_noted(&self, of: &str, id: &str, act: SagaAct, note: &str) {
        let note = Some(note.to_owned()).filter(|note| !note.is_empty());
        let by = ActedBy { actor: "ann".to_owned(), note };
        self.sagas.act(&tenant(of), &SagaId::new(id).unwrap(), act, by).await.unwrap();
    }

    /// From now on this step of this saga fails for good.
    pub fn fail_step(&self, id: &str, step: &str, direction: Direction) {
        self.failing.lock().insert((id.to_owned(), step.to_owned(), direction == Direction::Compensate));
    }

    /// No step fails any more.
    pub fn fail_no_step(&self) {
        *self.failing.lock() = BTreeSet::new();
    }

    /// One that waits for a person at its step `release`.
    pub async fn waiting_saga(&self, of: &str, id: &str) -> SagaView {
        self.define(ORDER).await;
        self.begin("order", of, id).await;
        self.until_waiting(of, id, "approval").await
    }

    pub async fn paused_saga(&self, of: &str, id: &str) -> SagaView {
        self.waiting_saga(of, id).await;
        self.act(of, id, SagaAct::Pause).await;
        self.until_saga(of, id, SagaState::Paused).await
    }

    pub async fn completed_saga(&self, of: &str, id: &str) -> SagaView {
        self.waiting_saga(of, id).await;
        self.act(of, id, SagaAct::Approve { step: None, since: None }).await;
        self.until_saga(of, id, SagaState::Completed).await
    }

    pub async fn cancelled_saga(&self, of: &str, id: &str) -> SagaView {
        self.waiting_saga(of, id).await;
        self.act(of, id, SagaAct::Cancel).await;
        self.until_saga(of, id, SagaState::Cancelled).await
    }

    /// One that is stuck in the compensation of `reserve`: a dead letter. What it needs works again.
    pub async fn stuck_saga(&self, of: &str, id: &str) -> SagaView {
        self.waiting_saga(of, id).await;
        self.fail_step(id, "charge", Direction::Execute);
        self.fail_step(id, "reserve", Direction::Compensate);
        self.act(of, id, SagaAct::Approve { step: None, since: None }).await;
        let stuck = self.until_saga(of, id, SagaState::Failed).await;
        self.fail_no_step();
        stuck
    }
}
