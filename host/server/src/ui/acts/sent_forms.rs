//! Forms that were sent: a second press with the same key does nothing anew, and hears what the first came to.
//!
//! They are in memory, as the sessions whose forms they are: a host that starts again takes no form that it gave out before. They are
//! bounded, and where there are as many as may be, one of the tenant that has most gives way: no press of another tenant makes a form be
//! forgotten as long as there are fewer of its own. What is done
//! goes on when its browser has gone, in a task of its own; a browser that sends a form twice drops the first request.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use parking_lot::Mutex;
use sha2::{Digest, Sha256};
use tokio::sync::OnceCell;
use waybill_page::address;
use waybill_page::views::Answer;

use crate::limits::FORMS_SENT_MAX;
use crate::places::Sharer;
use crate::problem::Problem;

/// What a form came to.
#[derive(Clone)]
pub(super) enum Done {
    /// An operation was begun.
    Operation(String),
    /// Something was made, which is shown at this address.
    Made(String),
    Said(Arc<Answer>),
}

impl Done {
    /// Where it is shown what the form with this key came to.
    pub(super) fn address(self, key: &str) -> String {
        match self {
            Self::Operation(id) => waybill_page::acts::operation(&id),
            Self::Made(at) => at,
            Self::Said(_) => address::with(address::ANSWER, &[("key", key)]),
        }
    }
}

/// A form that is sent.
pub(super) struct SentForm {
    /// The form token of its session.
    pub owner: String,
    pub key: String,
    /// The address of its plan.
    pub address: String,
    /// Whose share it counts against.
    pub sharers: Vec<Sharer>,
}

/// Of a session and a name in it.
pub(super) type Key = [u8; 32];
/// What a form came to, for the press that did it and all that came meanwhile.
type Ended = OnceCell<Result<Done, Problem>>;

/// What became of the latest forms.
#[derive(Default)]
pub(crate) struct SentForms(Arc<Mutex<Kept>>);

#[derive(Default)]
struct Kept {
    forms: HashMap<Key, Form>,
    /// The first to go comes first.
    order: VecDeque<Key>,
}

struct Form {
    address: String,
    sharers: Vec<Sharer>,
    done: Arc<Ended>,
}

impl SentForms {
    /// Does the work, unless it was done or is being done with this key. Who comes while it is done hears what it came to, also that it
    /// failed. What was refused may be asked for again; of what may have been done all the same, the key stays used up.
    pub(super) async fn run(
        &self,
        sent: &SentForm,
        work: impl Future<Output = Result<Done, Problem>> + Send + 'static,
    ) -> Result<Done, Problem> {
        let (cell, kept, key) = (self.cell(sent)?, Arc::clone(&self.0), hash(&sent.owner, &sent.key));
        let task = tokio::spawn(async move {
            // In a task of its own, so that a panic, too, is what it came to.
            let ended = async { tokio::spawn(work).await.unwrap_or_else(|ended| Err(Problem::internal(ended))) };
            let ended = cell.get_or_init(|| ended).await.clone();
            if ended.as_ref().is_err_and(was_refused) {
                kept.lock().forget(&key, &cell);
            }
            ended
        });
        task.await.unwrap_or_else(|ended| Err(Problem::internal(ended)))
    }

    /// What a form came to that was done, as far as it is remembered.
    pub(super) fn came_to(&self, owner: &str, key: &str) -> Option<Done> {
        let kept = self.0.lock();
        kept.forms.get(&hash(owner, key))?.done.get()?.as_ref().ok().cloned()
    }

    /// What an act on one came to.
    pub(super) fn said(&self, owner: &str, key: &str) -> Option<Arc<Answer>> {
        match self.came_to(owner, key)? {
            Done::Said(answer) => Some(answer),
            Done::Operation(_) | Done::Made(_) => None,
        }
    }

    fn cell(&self, sent: &SentForm) -> Result<Arc<Ended>, Problem> {
        let key = hash(&sent.owner, &sent.key);
        let mut kept = self.0.lock();
        if let Some(form) = kept.forms.get(&key) {
            if form.address != sent.address {
                return Err(
                    Problem::invalid("the form was sent for something else: open the plan anew").at(super::PRESS)
                );
            }
            return Ok(Arc::clone(&form.done));
        }
        if kept.order.len() >= FORMS_SENT_MAX {
            kept.drop_one();
        }
        let done = Arc::new(OnceCell::new());
        kept.order.push_back(key);
        let (address, sharers) = (sent.address.clone(), sent.sharers.clone());
        kept.forms.insert(key, Form { address, sharers, done: Arc::clone(&done) });
        Ok(done)
    }
}

impl Kept {
    /// Drops the oldest that is over of the tenant that has most; while all of those are worked on, the oldest of them.
    fn drop_one(&mut self) {
        let most = self.most();
        let of_most = |key: &Key| {
            let form = self.forms.get(key)?;
            most.as_ref().is_none_or(|most| form.sharers.contains(most)).then(|| form.done.initialized())
        };
        let found: Vec<(Key, bool)> = self.order.iter().filter_map(|key| Some((*key, of_most(key)?))).collect();
        let over = found.iter().find(|(_, is_over)| *is_over).or(found.first());
        if let Some((key, _)) = over {
            self.order.retain(|other| other != key);
            self.forms.remove(key);
        }
    }

    /// Who has most forms; none = nobody has a share.
    fn most(&self) -> Option<Sharer> {
        let mut counts: HashMap<&Sharer, usize> = HashMap::new();
        for sharer in self.forms.values().flat_map(|form| &form.sharers) {
            *counts.entry(sharer).or_default() += 1;
        }
        counts.into_iter().max_by_key(|(_, count)| *count).map(|(sharer, _)| sharer.clone())
    }

    fn forget(&mut self, key: &Key, done: &Arc<Ended>) {
        if self.forms.get(key).is_some_and(|form| Arc::ptr_eq(&form.done, done)) {
            self.forms.remove(key);
            self.order.retain(|other| other != key);
        }
    }
}

/// Nothing was done, without a doubt.
fn was_refused(problem: &Problem) -> bool {
    problem.code.status() < 500 && !problem.code.retryable()
}

pub(super) fn hash(owner: &str, key: &str) -> Key {
    Sha256::new().chain_update(owner).chain_update([0_u8]).chain_update(key).finalize().into()
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use waybill_core::ids::Tenant;

    use super::*;

    fn sent(owner: &str, key: &str) -> SentForm {
        SentForm { owner: owner.into(), key: key.into(), address: "/ui/plan".into(), sharers: Vec::new() }
    }

    #[tokio::test]
    async fn one_key_is_worked_on_once_and_failed_work_again() {
        let (once, count) = (SentForms::default(), Arc::new(AtomicU32::new(0)));
        let work = |fails: bool| {
            let count = Arc::clone(&count);
            async move {
                tokio::task::yield_now().await;
                count.fetch_add(1, Ordering::Relaxed);
                if fails { Err(Problem::invalid("no")) } else { Ok(Done::Operation("op-1".into())) }
            }
        };
        let (form, other) = (sent("a", "1"), sent("b", "1"));
        assert!(once.run(&form, work(true)).await.is_err());
        let (first, second) = tokio::join!(once.run(&form, work(false)), once.run(&form, work(false)));
        assert!(matches!((first, second), (Ok(Done::Operation(_)), Ok(Done::Operation(_)))));
        assert_eq!(count.load(Ordering::Relaxed), 2);
        assert!(once.came_to("a", "1").is_some_and(|done| done.address("1") == "/ui/operation?id=op-1"));
        assert!(once.came_to("b", "1").is_none());
        assert!(once.run(&other, work(false)).await.is_ok());
        assert_eq!(count.load(Ordering::Relaxed), 3, "another session's key is another");
        let elsewhere = SentForm { address: "/ui/plan?act=saga-kill".into(), ..sent("a", "1") };
        assert!(once.run(&elsewhere, work(false)).await.is_err());
    }

    #[tokio::test]
    async fn a_second_press_hears_that_the_first_may_have_done_it_and_does_nothing() {
        let (once, count) = (SentForms::default(), Arc::new(AtomicU32::new(0)));
        let work = || {
            let count = Arc::clone(&count);
            async move {
                count.fetch_add(1, Ordering::Relaxed);
                tokio::task::yield_now().await;
                Err(Problem::internal("the store didn't answer"))
            }
        };
        let form = sent("a", "1");
        let (first, second) = tokio::join!(once.run(&form, work()), once.run(&form, work()));
        assert!(first.is_err() && second.is_err());
        assert!(once.run(&form, work()).await.is_err(), "a later press, too");
        assert_eq!(count.load(Ordering::Relaxed), 1);
        let other = sent("a", "2");
        let panics = once.run(&other, async { panic!("it broke") });
        assert!(panics.await.is_err_and(|problem| problem.code.status() == 500));
    }

    #[tokio::test]
    async fn a_form_that_is_worked_on_is_kept_for_those_that_are_over() {
        let once = SentForms::default();
        let at_work = once.cell(&sent("a", "first")).unwrap();
        for number in 0..FORMS_SENT_MAX {
            let over = once.cell(&sent("a", &number.to_string())).unwrap();
            over.set(Ok(Done::Operation("op".into()))).ok().unwrap();
        }
        assert!(Arc::ptr_eq(&at_work, &once.cell(&sent("a", "first")).unwrap()));
    }

    #[tokio::test]
    async fn presses_of_one_tenant_make_no_form_of_another_be_forgotten() {
        let once = SentForms::default();
        let pressed = |tenant: &str, key: &str| {
            let sharers = vec![Sharer::Tenant(Tenant::new(tenant).unwrap())];
            let cell = once.cell(&SentForm { sharers, ..sent(tenant, key) }).unwrap();
            cell.set(Ok(Done::Operation("op".into()))).ok();
            cell
        };
        let quiet = pressed("quiet", "1");
        let first = pressed("busy", "first");
        for number in 0..FORMS_SENT_MAX {
            pressed("busy", &number.to_string());
        }
        assert!(Arc::ptr_eq(&quiet, &pressed("quiet", "1")));
        assert!(!Arc::ptr_eq(&first, &pressed("busy", "first")), "its own gave way");
        assert_eq!(once.0.lock().order.len(), FORMS_SENT_MAX);
    }

    #[tokio::test]
    async fn forms_that_are_kept_are_bounded() {
        let once = SentForms::default();
        for number in 0..=FORMS_SENT_MAX {
            once.cell(&sent("a", &number.to_string())).unwrap();
        }
        let kept = once.0.lock();
        assert_eq!((kept.forms.len(), kept.order.len()), (FORMS_SENT_MAX, FORMS_SENT_MAX));
    }
}
