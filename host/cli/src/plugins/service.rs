//! The plugins of this host for the API: what operators do is written to the audit trail.

use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use async_trait::async_trait;
use serde_json::{Value, json};
use waybill_api::plugin_outcomes::PluginShown;
use waybill_api::plugins::{
    PluginChanged, PluginLog, PluginLogAsked, PluginReload, PluginService, PluginUpload, Plugins,
};
use waybill_core::code::Code;
use waybill_core::port::plugins::PluginsError;
use waybill_core::port::transact::{AuditEvent, TransactStore};
use waybill_core::time::UnixMillis;

/// Plugins whose changes are audited, refused ones too. Cheap to clone.
#[derive(Clone)]
pub struct Audited {
    plugins: Arc<dyn PluginService>,
    store: Arc<dyn TransactStore>,
}

impl Audited {
    /// Over the plugins of a host, with the store that keeps the trail.
    pub fn new(plugins: Arc<dyn PluginService>, store: Arc<dyn TransactStore>) -> Self {
        Self { plugins, store }
    }

    async fn note(
        &self,
        kind: &str,
        transport: &str,
        actor: &str,
        mut detail: Value,
        result: Result<PluginChanged, PluginsError>,
    ) -> Result<PluginChanged, PluginsError> {
        let led_to = match &result {
            Ok(done) => {
                json!({ "changed": done.changed, "generation": done.plugin.live.generation, "digest": done.plugin.live.digest })
            }
            Err(error) => json!({ "code": error.code().as_str(), "error": error.to_string() }),
        };
        if let (Value::Object(detail), Value::Object(led_to)) = (&mut detail, led_to) {
            detail.extend(led_to);
        }
        let wall = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let event = AuditEvent {
            at: UnixMillis(u64::try_from(wall.as_millis()).unwrap_or(u64::MAX)),
            kind: kind.to_owned(),
            actor: actor.to_owned(),
            tenant: None,
            object: transport.to_owned(),
            detail,
        };
        // What is done is done: a trail that can't be written is told to the log.
        if let Err(error) = self.store.audit(&event).await {
            tracing::error!(code = error.code().as_str(), %error, ?event, "an operator's act could not be written to the audit trail");
        }
        result
    }
}

#[async_trait]
impl PluginService for Audited {
    async fn plugins(&self) -> Plugins {
        self.plugins.plugins().await
    }

    async fn plugin(&self, name: &str) -> Result<PluginShown, PluginsError> {
        self.plugins.plugin(name).await
    }

    async fn log(&self, name: &str, asked: PluginLogAsked) -> Result<PluginLog, PluginsError> {
        self.plugins.log(name, asked).await
    }

    async fn reload(&self, transport: &str, asked: PluginReload, actor: &str) -> Result<PluginChanged, PluginsError> {
        let (this, transport, actor) = (self.clone(), transport.to_owned(), actor.to_owned());
        to_the_end(async move {
            let detail = json!({ "force": asked.force });
            let result = this.plugins.reload(&transport, asked, &actor).await;
            this.note("PluginReloaded", &transport, &actor, detail, result).await
        })
        .await
    }

    async fn roll_back(&self, transport: &str, reason: &str, actor: &str) -> Result<PluginChanged, PluginsError> {
        let (this, transport, reason, actor) =
            (self.clone(), transport.to_owned(), reason.to_owned(), actor.to_owned());
        to_the_end(async move {
            let result = this.plugins.roll_back(&transport, &reason, &actor).await;
            this.note("PluginRolledBack", &transport, &actor, json!({ "reason": reason }), result).await
        })
        .await
    }

    async fn upload(&self, transport: &str, upload: PluginUpload, actor: &str) -> Result<PluginChanged, PluginsError> {
        let (this, transport, actor) = (self.clone(), transport.to_owned(), actor.to_owned());
        to_the_end(async move {
            let detail = json!({ "force": upload.reload.force, "bytes": upload.component.len() });
            let result = this.plugins.upload(&transport, upload, &actor).await;
            this.note("PluginUploaded", &transport, &actor, detail, result).await
        })
        .await
    }
}

/// Runs an act in a task of its own: what was begun is ended and audited, whether or not its caller waits.
async fn to_the_end(
    act: impl Future<Output = Result<PluginChanged, PluginsError>> + Send + 'static,
) -> Result<PluginChanged, PluginsError> {
    tokio::spawn(act)
        .await
        .unwrap_or_else(|ended| Err(PluginsError::Refused { code: Code::UNKNOWN_INTERNAL, reason: ended.to_string() }))
}
