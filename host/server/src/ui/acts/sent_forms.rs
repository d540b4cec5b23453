//! Forms that were sent: a second press with the same key does nothing anew, and hears what the first came to.
//!
//! They are in memory, as the sessions whose forms they are: a host that starts again takes no form that it gave out before. What is done
//! goes on when its browser has gone, in a task of its own; a browser that sends a form twice drops the first request.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use parking_lot::Mutex;
use sha2::{Digest, Sha256};
use tokio::sync::OnceCell;
use waybill_page::views::Answer;

use crate::limits::FORMS_SENT_MAX;
use crate::problem::Problem;

/// What a form came to.
#[derive(Clone)]
pub(super) enum Done {
    /// An operation was begun.
    Operation(String),
    Said(Arc<Answer>),
}

/// A form that is sent.
pub(super) struct SentForm {
    /// The form token of its session.
    pub owner: String,
    pub key: String,
    /// The address of its plan.
    pub address: String,
}

type Key = [u8; 32];

/// What became of the latest forms.
#[derive(Default)]
pub(crate) struct SentForms(Mutex<Kept>);

#[derive(Default)]
struct Kept {
    forms: HashMap<Key, Form>,
    /// The first to go comes first.
    order: VecDeque<Key>,
}

struct Form {
    address: String,
    done: Arc<OnceCell<Done>>,
}

impl SentForms {
    /// Does the work, unless it was done or is being done with this key. Work that fails may be asked for again.
    pub(super) async fn run(
        &self,
        sent: &SentForm,
        work: impl Future<Output = Result<Done, Problem>> + Send + 'static,
    ) -> Result<Done, Problem> {
        let cell = self.cell(sent)?;
        let task = tokio::spawn(async move { cell.get_or_try_init(|| work).await.cloned() });
        task.await.unwrap_or_else(|ended| Err(Problem::internal(ended)))
    }

    /// What an act on one came to.
    pub(super) fn said(&self, owner: &str, key: &str) -> Option<Arc<Answer>> {
        let kept = self.0.lock();
        match kept.forms.get(&hash(owner, key))?.done.get()? {
            Done::Said(answer) => Some(Arc::clone(answer)),
            Done::Operation(_) => None,
        }
    }

    fn cell(&self, sent: &SentForm) -> Result<Arc<OnceCell<Done>>, Problem> {
        let key = hash(&sent.owner, &sent.key);
        let mut kept = self.0.lock();
        if let Some(form) = kept.forms.get(&key) {
            if form.address != sent.address {
                return Err(Problem::invalid("the form was sent for something else: open the plan anew").at("key"));
            }
            return Ok(Arc::clone(&form.done));
        }
        if kept.order.len() >= FORMS_SENT_MAX
            && let Some(oldest) = kept.order.pop_front()
        {
            kept.forms.remove(&oldest);
        }
        let done = Arc::new(OnceCell::new());
        kept.order.push_back(key);
        kept.forms.insert(key, Form { address: sent.address.clone(), done: Arc::clone(&done) });
        Ok(done)
    }
}

fn hash(owner: &str, key: &str) -> Key {
    Sha256::new().chain_update(owner).chain_update([0_u8]).chain_update(key).finalize().into()
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;

    fn sent(owner: &str, key: &str) -> SentForm {
        SentForm { owner: owner.into(), key: key.into(), address: "/ui/plan".into() }
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
        assert!(once.run(&other, work(false)).await.is_ok());
        assert_eq!(count.load(Ordering::Relaxed), 3, "another session's key is another");
        let elsewhere = SentForm { address: "/ui/plan?act=saga-kill".into(), ..sent("a", "1") };
        assert!(once.run(&elsewhere, work(false)).await.is_err());
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
