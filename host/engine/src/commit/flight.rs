//! The one outstanding commit: what is asked of the store, and what its answer means ([`waybill_core::commit`] says what follows).
//! After a failure the shard record tells whether it went in; until that is known, nothing else is committed, and callers hear what
//! is wrong.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use futures::future::{BoxFuture, pending};
use parking_lot::Mutex;
use tokio::sync::watch;
use tokio::time::{Instant, sleep};
use waybill_core::commit::{Read, Step, StoreAnswer, Writer, is_refusal};
use waybill_core::port::store::StoreError;
use waybill_core::port::trace::{self, Span};

use super::{Condition, End};

/// Pause before the store is asked again after it failed or refused a commit as too large.
const TROUBLE_PAUSE: Duration = Duration::from_millis(100);

/// Since when commits of this process have been under way.
#[derive(Clone, Debug, Default)]
pub(crate) struct Commits(Arc<Mutex<(u64, BTreeMap<u64, Instant>)>>);

impl Commits {
    fn begin(&self) -> Outstanding {
        let mut commits = self.0.lock();
        commits.0 += 1;
        let (number, began) = (commits.0, Instant::now());
        commits.1.insert(number, began);
        Outstanding { commits: self.clone(), number, began }
    }

    /// How long the slowest of them has taken so far.
    pub fn longest(&self) -> Duration {
        self.0.lock().1.values().map(Instant::elapsed).max().unwrap_or_default()
    }
}

/// A commit that is under way, until it is dropped: nobody waits for it after a panic either.
struct Outstanding {
    commits: Commits,
    number: u64,
    began: Instant,
}

impl Drop for Outstanding {
    fn drop(&mut self) {
        self.commits.0.lock().1.remove(&self.number);
    }
}

/// A call that may be under way.
pub(crate) struct UnderWay<T>(Option<BoxFuture<'static, T>>);

impl<T> Default for UnderWay<T> {
    fn default() -> Self {
        Self(None)
    }
}

impl<T> UnderWay<T> {
    pub fn is_idle(&self) -> bool {
        self.0.is_none()
    }

    pub fn begin(&mut self, call: impl Future<Output = T> + Send + 'static) {
        self.0 = Some(call.boxed());
    }

    /// The call's answer; without a call it never comes. May be dropped and asked for again.
    pub async fn answer(&mut self) -> T {
        let Some(call) = &mut self.0 else { return pending().await };
        let answer = call.await;
        self.0 = None;
        answer
    }
}

/// What is under way at the store, and how the store is as far as is known.
pub(crate) struct Flight<R> {
    commits: Commits,
    condition: Arc<watch::Sender<Condition>>,
    token: u64,
    /// A commit, a barrier, or a read of the record.
    call: UnderWay<StoreAnswer<R>>,
    outstanding: Option<Outstanding>,
    /// Of the commit that is out, where spans are made.
    spans: Vec<Box<dyn Span>>,
    trouble: Option<StoreError>,
    rests_until: Option<Instant>,
}

impl<R> Flight<R> {
    /// An ownership begins, which others see from now on.
    pub fn begin(commits: &Commits, condition: &Arc<watch::Sender<Condition>>, token: u64) -> Self {
        condition.send_replace(Condition::Owning { token });
        Self {
            commits: commits.clone(),
            condition: Arc::clone(condition),
            token,
            call: UnderWay::default(),
            outstanding: None,
            spans: Vec::new(),
            trouble: None,
            rests_until: None,
        }
    }

    /// Whether no commit, barrier or read of the record is under way.
    pub fn is_idle(&self) -> bool {
        self.call.is_idle()
    }

    /// Whether nothing can be committed now.
    pub fn is_held_up(&self) -> bool {
        !self.is_idle() || self.rests_until().is_some()
    }

    /// Until when no commit is tried, if that is yet to come.
    pub fn rests_until(&self) -> Option<Instant> {
        self.rests_until.filter(|until| *until > Instant::now())
    }

    /// No commit is tried for a while.
    pub fn rest(&mut self, pause: Duration) {
        self.rests_until = Some(Instant::now() + pause);
    }

    /// What is wrong with the store.
    pub fn trouble(&self) -> Option<&StoreError> {
        self.trouble.as_ref()
    }

    /// Whether it hasn't been noted yet. What is tried again and again is told once for as long as it is so.
    pub fn is_new(&self, error: &StoreError) -> bool {
        self.trouble.as_ref().is_none_or(|before| before.code() != error.code())
    }

    /// Notes what is wrong with the store, or that nothing is, and lets others see it.
    pub fn note_trouble(&mut self, error: Option<StoreError>) {
        if self.trouble.is_some() != error.is_some() {
            self.condition.send_replace(match &error {
                Some(error) => Condition::Trouble { error: error.clone(), owning: true },
                None => Condition::Owning { token: self.token },
            });
        }
        self.trouble = error;
    }

    /// As [`UnderWay::answer`]; [`Driven::take_answer`] takes it.
    pub async fn answer(&mut self) -> StoreAnswer<R> {
        self.call.answer().await
    }
}

type Commit<D> = <<D as Driven>::Writer as Writer>::Commit;
type Record<D> = <<D as Driven>::Writer as Writer>::Record;
type Call<T> = BoxFuture<'static, Result<T, StoreError>>;

/// An actor whose commits are driven.
pub(crate) trait Driven: Sized {
    type Writer: Writer<Commit: Send + 'static, Record: Send + 'static>;
    /// What is committed, for logs.
    const OF: &'static str;

    fn flight(&mut self) -> &mut Flight<Record<Self>>;
    /// The store's call that commits.
    fn commit(&self, commit: Commit<Self>) -> Call<()>;
    /// The store's call that reads the shard record.
    fn record(&self) -> Call<Record<Self>>;
    /// What follows an answer by the writer's rules.
    fn follow(&mut self, answer: StoreAnswer<Record<Self>>) -> Step<Self::Writer>;

    /// Begins the spans of a commit that is about to go out: its own, and those of what stands for itself in it.
    fn spans(&self, commit: &Commit<Self>) -> Vec<Box<dyn Span>>;
    /// A commit is about to go out.
    fn begins(&mut self, commit: &Commit<Self>);
    /// Something under way was answered. When it failed it may have gone in all the same: who has to look at what it left, looks.
    fn answered(&mut self);
    fn count_commit(&self, took: Duration);
    fn count_failure(&self, error: &StoreError);

    /// A commit went in: who waits for it is told.
    fn applied(&mut self, applied: <Self::Writer as Writer>::Applied);
    /// A commit never went in.
    fn not_applied(&mut self, again: <Self::Writer as Writer>::NotApplied);
    /// The store takes no commit as large.
    fn too_large(&mut self, cut: <Self::Writer as Writer>::TooLarge);
    /// Who can't be told what became of what they asked for is told so.
    fn abandon(&mut self, error: &StoreError);

    fn send(&mut self, commit: Commit<Self>) {
        let spans = self.spans(&commit);
        self.begins(&commit);
        let call = self.commit(commit);
        let flight = self.flight();
        flight.spans = spans;
        flight.outstanding = Some(flight.commits.begin());
        flight.call.begin(call.map(StoreAnswer::Committed));
    }

    /// Does what follows an answer of the store.
    fn take_answer(&mut self, answer: StoreAnswer<Record<Self>>) -> Option<End> {
        let outstanding = self.flight().outstanding.take();
        let spans = std::mem::take(&mut self.flight().spans);
        self.answered();
        match &answer {
            StoreAnswer::Committed(Ok(())) => {
                finish(spans, None);
                self.count_commit(outstanding.map_or(Duration::ZERO, |out| out.began.elapsed()))
            }
            StoreAnswer::Committed(Err(error)) => {
                finish(spans, Some(error.code().as_str()));
                self.count_failure(error);
                if is_refusal(error) {
                    tracing::debug!(of = Self::OF, code = error.code().as_str(), %error, "a commit was refused");
                } else {
                    tracing::warn!(of = Self::OF, code = error.code().as_str(), %error, "the outcome of a commit isn't known");
                }
            }
            StoreAnswer::Barrier(Err(error)) => {
                tracing::debug!(of = Self::OF, code = error.code().as_str(), %error, "a barrier failed");
            }
            StoreAnswer::Barrier(Ok(())) | StoreAnswer::Record(_) => {}
        }
        match self.follow(answer) {
            Step::Applied(applied) => {
                self.flight().note_trouble(None);
                self.applied(applied);
            }
            Step::NotApplied(again) => {
                self.flight().note_trouble(None);
                self.not_applied(again);
            }
            Step::TooLarge(cut) => {
                self.too_large(cut);
                self.flight().rest(TROUBLE_PAUSE);
            }
            Step::Read(Read { trouble, abandon, pause }) => {
                if let Some(error) = trouble {
                    if abandon {
                        self.abandon(&error);
                    }
                    self.flight().note_trouble(Some(error));
                }
                let record = self.record();
                self.flight().call.begin(async move {
                    if pause {
                        sleep(TROUBLE_PAUSE).await;
                    }
                    StoreAnswer::Record(record.await)
                });
            }
            Step::Barrier(barrier) => {
                let call = self.commit(*barrier);
                self.flight().call.begin(call.map(StoreAnswer::Barrier));
            }
            Step::Lost => return Some(End::Lost),
            Step::WentBack(error) => {
                self.abandon(&error);
                return Some(End::WentBack(error));
            }
        }
        None
    }
}

fn finish(spans: Vec<Box<dyn Span>>, failed: Option<&str>) {
    spans.into_iter().for_each(|span| trace::finish(Some(span), failed));
}
