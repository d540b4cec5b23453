//! Work that goes on when nobody waits for it any more.

use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::runtime::Handle;

/// Work that is done by whoever waits for it, and in a task of its own from the moment that nobody does.
///
/// In a task from the beginning, each request would cost further turns of the scheduler: to begin, for its answer, and for each
/// piece of its body, which the connection's task reads.
pub(crate) struct RunsOn<T: Send + 'static> {
    /// None = it has ended, or panicked.
    work: Option<Pin<Box<dyn Future<Output = T> + Send>>>,
}

impl<T: Send + 'static> RunsOn<T> {
    /// It begins when it is waited for.
    pub(crate) fn new(work: impl Future<Output = T> + Send + 'static) -> Self {
        Self { work: Some(Box::pin(work)) }
    }
}

impl<T: Send + 'static> Future for RunsOn<T> {
    type Output = T;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<T> {
        // Taken out meanwhile, so that what panics isn't polled again.
        let Some(mut work) = self.work.take() else { return Poll::Pending };
        let polled = work.as_mut().poll(cx);
        if polled.is_pending() {
            self.work = Some(work);
        }
        polled
    }
}

impl<T: Send + 'static> Drop for RunsOn<T> {
    fn drop(&mut self) {
        // Without a runtime the process ends.
        if let Some(work) = self.work.take()
            && let Ok(runtime) = Handle::try_current()
        {
            runtime.spawn(work);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use tokio::sync::{Notify, oneshot};

    use super::*;

    #[tokio::test]
    async fn work_goes_on_when_nobody_waits_and_is_done_once() {
        let gate = Arc::new(Notify::new());
        let (tell, told) = oneshot::channel();
        let mut work = RunsOn::new({
            let gate = Arc::clone(&gate);
            async move {
                gate.notified().await;
                tokio::time::sleep(Duration::from_millis(1)).await;
                tell.send(()).unwrap();
            }
        });
        assert!(futures::poll!(&mut work).is_pending());
        drop(work);
        gate.notify_one();
        tokio::time::timeout(Duration::from_secs(20), told).await.expect("the work was given up").unwrap();

        let (tell, told) = oneshot::channel();
        let work = RunsOn::new(async move {
            tell.send(()).unwrap();
            7
        });
        assert_eq!((work.await, told.await), (7, Ok(())));
    }
}
