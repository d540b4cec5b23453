//! What one endpoint's names resolve to: looked up a few at a time, remembered for seconds.
//!
//! What is remembered are addresses as they were answered; whoever uses them judges them for the peer at hand and connects to
//! them and no others, so that an answer that changes between judging and connecting plays no part. A lookup that takes longer
//! than its caller waits keeps its place until it ends: a name server that doesn't answer holds one endpoint's places, not the
//! host's. Places are an endpoint's and not a tenant's, because endpoints are the operator's, and one batch of a transport's is for
//! many tenants: the host doesn't know for whom a guest dials. Tenants that mustn't hold each other up get endpoints of their own.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::Semaphore;
use tokio::time::{Instant, timeout};

use super::resolve::Resolve;
use crate::limits::{RESOLVE_TIMEOUT, RESOLVED_FRESH, RESOLVED_NAMES_MAX, RESOLVES_PER_ENDPOINT_MAX, UNRESOLVED_FRESH};

/// The addresses of a name, or why there are none.
pub(super) type Found = Result<Vec<IpAddr>, String>;

/// The names of one endpoint.
pub(super) struct Names(Arc<Inner>);

struct Inner {
    resolver: Arc<dyn Resolve>,
    places: Arc<Semaphore>,
    known: Mutex<HashMap<String, (Instant, Found)>>,
}

impl Names {
    pub(super) fn new(resolver: Arc<dyn Resolve>) -> Self {
        let places = Arc::new(Semaphore::new(RESOLVES_PER_ENDPOINT_MAX));
        Self(Arc::new(Inner { resolver, places, known: Mutex::default() }))
    }

    /// What a name resolves to, within [`RESOLVE_TIMEOUT`].
    pub(super) async fn find(&self, name: &str) -> Found {
        timeout(RESOLVE_TIMEOUT, self.look_up(name)).await.unwrap_or_else(|_| Err(NO_ANSWER.to_owned()))
    }

    async fn look_up(&self, name: &str) -> Found {
        if let Some(found) = self.0.fresh(name) {
            return found;
        }
        let place = Arc::clone(&self.0.places).acquire_owned().await.map_err(|error| error.to_string())?;
        // Somebody else may have found it meanwhile.
        if let Some(found) = self.0.fresh(name) {
            return found;
        }
        let (inner, name) = (Arc::clone(&self.0), name.to_owned());
        let lookup = tokio::spawn(async move {
            let _place = place;
            let mut looking = inner.resolver.resolve(&name);
            let answer = match timeout(RESOLVE_TIMEOUT, &mut looking).await {
                Ok(answer) => answer,
                Err(_) => {
                    inner.keep(&name, Err(NO_ANSWER.to_owned()));
                    (&mut looking).await
                }
            };
            drop(looking);
            let found = answer.map_err(|error| error.to_string());
            inner.keep(&name, found.clone());
            found
        });
        lookup.await.unwrap_or_else(|error| Err(error.to_string()))
    }
}

const NO_ANSWER: &str = "no answer from the resolver";

fn is_fresh(at: Instant, found: &Found) -> bool {
    at.elapsed() < if found.is_ok() { RESOLVED_FRESH } else { UNRESOLVED_FRESH }
}

impl Inner {
    fn fresh(&self, name: &str) -> Option<Found> {
        let known = self.known.lock();
        known.get(name).filter(|(at, found)| is_fresh(*at, found)).map(|(_, found)| found.clone())
    }

    fn keep(&self, name: &str, found: Found) {
        let mut known = self.known.lock();
        if known.len() >= RESOLVED_NAMES_MAX {
            known.retain(|_, (at, found)| is_fresh(*at, found));
            if known.len() >= RESOLVED_NAMES_MAX {
                known.clear();
            }
        }
        known.insert(name.to_owned(), (Instant::now(), found));
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::io;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use async_trait::async_trait;

    use super::*;

    /// Never answers for `tarpit*`, fails for `none*`, answers another address every time otherwise.
    #[derive(Default)]
    struct Answers {
        asked: AtomicUsize,
        under_way: AtomicUsize,
        most: AtomicUsize,
    }

    #[async_trait]
    impl Resolve for Answers {
        async fn resolve(&self, name: &str) -> io::Result<Vec<IpAddr>> {
            let number = self.asked.fetch_add(1, Ordering::SeqCst);
            self.most.fetch_max(self.under_way.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
            if name.starts_with("tarpit") {
                std::future::pending::<()>().await;
            }
            tokio::task::yield_now().await;
            self.under_way.fetch_sub(1, Ordering::SeqCst);
            if name.starts_with("none") {
                return Err(io::Error::other("unknown name"));
            }
            Ok(vec![IpAddr::from([10, 0, 0, u8::try_from(number).unwrap()])])
        }
    }

    #[tokio::test(start_paused = true)]
    async fn answers_are_used_for_seconds() {
        let answers = Arc::new(Answers::default());
        let names = Names::new(Arc::clone(&answers) as _);
        let first = names.find("a").await.unwrap();
        assert_eq!(names.find("a").await.unwrap(), first);
        tokio::time::advance(RESOLVED_FRESH).await;
        assert_ne!(names.find("a").await.unwrap(), first);
        assert_eq!(answers.asked.load(Ordering::SeqCst), 2);
        for _ in 0..3 {
            assert_eq!(names.find("none").await.unwrap_err(), "unknown name");
        }
        assert_eq!(answers.asked.load(Ordering::SeqCst), 3);
        tokio::time::advance(UNRESOLVED_FRESH).await;
        assert!(names.find("none").await.is_err());
        assert_eq!(answers.asked.load(Ordering::SeqCst), 4);
        // A crowd asks once, or as often as there are places.
        let crowd = futures::future::join_all((0..100).map(|_| names.find("b"))).await;
        assert!(crowd.into_iter().all(|found| found.is_ok()));
        assert!(answers.asked.load(Ordering::SeqCst) <= 4 + RESOLVES_PER_ENDPOINT_MAX);
    }

    /// One endpoint's names that nobody answers for take its own places and nobody else's.
    #[tokio::test(start_paused = true)]
    async fn names_without_an_answer_hold_no_other_endpoint() {
        let answers = Arc::new(Answers::default());
        let (one, other) = (Names::new(Arc::clone(&answers) as _), Names::new(Arc::clone(&answers) as _));
        let crowd: Vec<String> = (0..1_000).map(|n| format!("tarpit{n}")).collect();
        let crowd = futures::future::join_all(crowd.iter().map(|name| one.find(name))).await;
        assert!(crowd.into_iter().all(|found| found.unwrap_err() == NO_ANSWER));
        assert_eq!(answers.most.load(Ordering::SeqCst), RESOLVES_PER_ENDPOINT_MAX);
        assert!(other.find("a").await.is_ok());
        // They keep their places: the threads behind them are still at work.
        assert!(one.find("b").await.is_err());
        assert_eq!(answers.most.load(Ordering::SeqCst), RESOLVES_PER_ENDPOINT_MAX + 1);
        assert!(one.0.known.lock().len() <= RESOLVED_NAMES_MAX);
    }
}
