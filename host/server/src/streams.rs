//! HTTP/2's streams: each is a task of its own, which can be ended without its connection.
//!
//! HTTP/2 doesn't ask an answer's body for anything while flow control keeps the answer back, so an answer that nobody takes
//! can't be ended by its body. Its task is dropped instead, which resets the stream.

use std::sync::Arc;

use hyper::rt::Executor;
use tokio::sync::Notify;

tokio::task_local! {
    static END: Arc<Notify>;
}

/// Runs the streams of a connection.
#[derive(Clone, Copy)]
pub(crate) struct Streams;

impl<F> Executor<F> for Streams
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    fn execute(&self, stream: F) {
        let end = Arc::new(Notify::new());
        let ended = Arc::clone(&end);
        tokio::spawn(END.scope(end, async move {
            tokio::select! {
                _ = stream => {}
                () = ended.notified() => {}
            }
        }));
    }
}

/// What ends the stream that the calling task serves; none = it serves a whole connection, which is HTTP/1.
pub(crate) fn end_of_this() -> Option<Arc<Notify>> {
    END.try_with(Arc::clone).ok()
}

#[cfg(test)]
mod tests {
    use tokio::sync::oneshot;

    use super::*;

    #[tokio::test]
    async fn a_stream_ends_when_it_is_told_and_others_go_on() {
        assert!(end_of_this().is_none());
        let begin = || {
            let (tell, told) = oneshot::channel();
            let (held, dropped) = oneshot::channel::<()>();
            Streams.execute(async move {
                let _held = held;
                let _ = tell.send(end_of_this());
                std::future::pending::<()>().await;
            });
            (told, dropped)
        };
        let ((first, first_gone), (second, mut second_gone)) = (begin(), begin());
        let (first, second) = (first.await.unwrap().unwrap(), second.await.unwrap().unwrap());
        first.notify_one();
        assert!(first_gone.await.is_err(), "all of it is gone");
        assert!(second_gone.try_recv() == Err(oneshot::error::TryRecvError::Empty));
        drop(second);
    }
}
