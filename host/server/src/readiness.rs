//! What `/readyz` tells, asked of the service once for all who ask at the same time.

use std::sync::Arc;

use tokio::sync::Mutex;
use tokio::time::Instant;
use waybill_api::OutboxService;
use waybill_api::status::Check;

use crate::limits::READINESS_KEPT;

/// The latest answer. The route is open to everybody, and the answer asks the store and every transport.
#[derive(Default)]
pub(crate) struct Readiness(Mutex<Option<(Instant, Arc<[Check]>)>>);

impl Readiness {
    /// The service's checks, at most [`READINESS_KEPT`] old. One caller asks; the others wait for what it hears.
    pub(crate) async fn checks(&self, service: &dyn OutboxService) -> Arc<[Check]> {
        let mut latest = self.0.lock().await;
        if let Some((at, checks)) = &*latest
            && at.elapsed() < READINESS_KEPT
        {
            return Arc::clone(checks);
        }
        let checks: Arc<[Check]> = service.ready().await.into();
        *latest = Some((Instant::now(), Arc::clone(&checks)));
        checks
    }
}
