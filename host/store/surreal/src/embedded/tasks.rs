//! Where SurrealKV's own tasks run.

use std::io;

use tokio::runtime::{Builder, Runtime};

/// Threads: one for writing buffers into tables and one for merging tables, both of which hold up their thread meanwhile.
const THREADS: usize = 2;

/// A runtime for the tasks of one opening, which ends with it.
///
/// SurrealKV (0.21.4) starts its tasks before its opening has succeeded, and when that fails nobody ends them: they keep the
/// database's directory locked for as long as their runtime lives, so that the process could never open it again.
pub(super) struct Tasks(Option<Runtime>);

impl Tasks {
    pub(super) fn start() -> io::Result<Self> {
        let runtime =
            Builder::new_multi_thread().worker_threads(THREADS).thread_name("surrealkv").enable_all().build()?;
        Ok(Self(Some(runtime)))
    }

    /// Runs `opening` to its end; whatever it starts, starts here.
    pub(super) async fn run<T: Send + 'static>(
        &self,
        opening: impl Future<Output = anyhow::Result<T>> + Send + 'static,
    ) -> anyhow::Result<T> {
        match &self.0 {
            Some(runtime) => runtime.spawn(opening).await?,
            None => anyhow::bail!("the database's tasks have ended"),
        }
    }
}

impl Drop for Tasks {
    fn drop(&mut self) {
        // Waiting for them isn't allowed where this may be dropped.
        if let Some(runtime) = self.0.take() {
            runtime.shutdown_background();
        }
    }
}
