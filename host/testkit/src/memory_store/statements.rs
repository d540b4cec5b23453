//! What callers' statements answer: this store runs none, so a test says it.

use std::sync::Arc;

use parking_lot::Mutex;
use serde_json::Value;
use waybill_core::port::store::StoreError;
use waybill_core::port::transact::Statement;

use super::MemoryStore;

type Script = dyn Fn(&Statement) -> Result<Value, StoreError> + Send + Sync;

/// The script of statements; none = every one is refused.
#[derive(Default)]
pub(super) struct Statements(Mutex<Option<Arc<Script>>>);

impl std::fmt::Debug for Statements {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Statements").field(&self.0.lock().is_some()).finish()
    }
}

impl Statements {
    /// The results in order, or the first refusal: then nothing of the transaction happens.
    pub(super) fn run(&self, statements: &[Statement]) -> Result<Vec<Value>, StoreError> {
        let script = self.0.lock().clone();
        let refused = || StoreError::Statement("statement 1: the in-memory store runs no SurrealQL".into());
        match script {
            Some(script) => statements.iter().map(|statement| script(statement)).collect(),
            None if statements.is_empty() => Ok(Vec::new()),
            None => Err(refused()),
        }
    }
}

impl MemoryStore {
    /// From now on every statement of a transaction answers what `script` has for it, and changes nothing.
    pub fn answer_statements(&self, script: impl Fn(&Statement) -> Result<Value, StoreError> + Send + Sync + 'static) {
        *self.statements.0.lock() = Some(Arc::new(script));
    }
}
