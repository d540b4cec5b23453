//! How transactions get behind the wall: between the storage engine and SurrealDB.

use std::any::{Any, TypeId};
use std::sync::Arc;

use surrealdb_cnf::ConfigMap;
use surrealdb_core::kvs::{TransactionBuilderFactory, TransactionBuilderParts};
use surrealdb_kvs::api::{BoxFut, Transactable};
use surrealdb_kvs::{Metrics, TransactionBuilder, TransactionType};
use tokio::task_local;
use tokio_util::sync::CancellationToken;

use super::Gate;
use super::transaction::WalledTransaction;

task_local! {
    /// The gate of the transaction that is being begun.
    static GATE: Arc<Gate>;
}

/// Begins a transaction behind a gate that only the one who asks has. [`None`] if nobody else holds it then: there is no wall.
pub(in crate::embedded) async fn behind<T, E>(
    gate: &Arc<Gate>,
    begin: impl Future<Output = Result<T, E>>,
) -> Result<Option<T>, E> {
    let begun = GATE.scope(Arc::clone(gate), begin).await?;
    Ok((Arc::strong_count(gate) > 1).then_some(begun))
}

/// Makes what another factory makes, with the wall before it.
pub(in crate::embedded) struct Walled<F>(pub(in crate::embedded) F);

impl<F: TransactionBuilderFactory<RouterState = ()>> TransactionBuilderFactory for Walled<F> {
    type RouterState = ();

    async fn new_transaction_builder(
        &self,
        path: &str,
        canceller: CancellationToken,
        config: ConfigMap,
    ) -> anyhow::Result<TransactionBuilderParts<()>> {
        let parts = self.0.new_transaction_builder(path, canceller, config).await?;
        Ok(TransactionBuilderParts::without_router_state(Box::new(WalledBuilder(parts.builder))))
    }

    fn path_valid(&self, path: &str) -> anyhow::Result<String> {
        self.0.path_valid(path)
    }
}

struct WalledBuilder(Box<dyn TransactionBuilder>);

impl TransactionBuilder for WalledBuilder {
    fn name(&self) -> &'static str {
        self.0.name()
    }

    fn new_transaction(
        &self,
        write: TransactionType,
    ) -> BoxFut<'_, surrealdb_kvs::Result<(Box<dyn Transactable>, bool)>> {
        // Only transactions that callers' statements may run on are begun with a gate; SurrealDB's own have none.
        let Ok(gate) = GATE.try_with(Arc::clone) else { return self.0.new_transaction(write) };
        Box::pin(async move {
            let (inner, local) = self.0.new_transaction(write).await?;
            Ok((Box::new(WalledTransaction::new(inner, gate)) as Box<dyn Transactable>, local))
        })
    }

    fn shutdown(&self) -> BoxFut<'_, surrealdb_kvs::Result<()>> {
        self.0.shutdown()
    }

    fn register_metrics(&self) -> Option<Metrics> {
        self.0.register_metrics()
    }

    fn collect_u64_metric(&self, metric: &str) -> Option<u64> {
        self.0.collect_u64_metric(metric)
    }

    fn wait_until_serve_ready(&self) -> BoxFut<'_, surrealdb_kvs::Result<()>> {
        self.0.wait_until_serve_ready()
    }

    fn extension(&self, id: TypeId) -> Option<Arc<dyn Any + Send + Sync>> {
        self.0.extension(id)
    }
}
