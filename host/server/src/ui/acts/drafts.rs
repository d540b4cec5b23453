//! What is written into a form, kept while its plan is read: so the plan has an address of its own, and reload, back and forward around it
//! send nothing again.
//!
//! Drafts are in memory, as the sessions whose they are: nobody finds one without the form token of its session, and a host that starts
//! again has none. They are bounded in bytes and in number, of all, of a tenant and of a session; the oldest gives way, and where there are
//! as many as may be, that of the tenant that has most.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::time::Instant;
use waybill_page::acts::Act;
use waybill_page::views::Given;

use super::sent_forms::{Key, hash};
use crate::limits::{
    CALLER_SHARE, DRAFT_TIME, DRAFTS_BYTES_MAX, DRAFTS_MAX, DRAFTS_OF_SESSION_BYTES_MAX, DRAFTS_OF_SESSION_MAX,
};
use crate::places::Sharer;
use crate::secret::secret;

/// What is written and isn't done yet.
#[derive(Default)]
pub(crate) struct Drafts(Mutex<Kept>);

/// The first to go comes first.
#[derive(Default)]
struct Kept(Vec<Draft>);

struct Draft {
    /// Of its session and its name.
    key: Key,
    session: Key,
    /// Whose share it counts against.
    sharers: Vec<Sharer>,
    /// Of the form that it is written into.
    address: String,
    given: Arc<Given>,
    bytes: usize,
    since: Instant,
}

impl Drafts {
    /// Keeps what is written into the form of an address; the answer is its name.
    pub(super) fn keep(&self, session: &str, sharers: Vec<Sharer>, address: String, given: Given) -> String {
        let name = secret();
        let bytes = address.len() + given.0.iter().map(|(name, value)| name.len() + value.len()).sum::<usize>();
        let draft = Draft {
            key: hash(session, &name),
            session: hash(session, ""),
            sharers,
            address,
            given: Arc::new(given),
            bytes,
            since: Instant::now(),
        };
        let mut kept = self.0.lock();
        kept.drop_old();
        kept.add(draft);
        name
    }

    /// What is written into the form of an address, by its name.
    pub(super) fn of(&self, session: &str, name: &str, address: &str) -> Option<Arc<Given>> {
        let key = hash(session, name);
        let mut kept = self.0.lock();
        kept.drop_old();
        let found = kept.0.iter().find(|draft| draft.key == key && draft.address == address)?;
        Some(Arc::clone(&found.given))
    }

    /// It is done.
    pub(super) fn forget(&self, session: &str, name: &str) {
        let key = hash(session, name);
        self.0.lock().0.retain(|draft| draft.key != key);
    }
}

impl Kept {
    fn drop_old(&mut self) {
        let now = Instant::now();
        self.0.retain(|draft| now.duration_since(draft.since) < DRAFT_TIME);
    }

    fn add(&mut self, new: Draft) {
        let (session, sharers) = (new.session, new.sharers.clone());
        self.0.push(new);
        self.drop_past(DRAFTS_OF_SESSION_BYTES_MAX, DRAFTS_OF_SESSION_MAX, |draft| draft.session == session);
        for sharer in &sharers {
            let (bytes, count) = (DRAFTS_BYTES_MAX / CALLER_SHARE, DRAFTS_MAX / CALLER_SHARE);
            self.drop_past(bytes, count, |draft| draft.sharers.contains(sharer));
        }
        while self.size(|_| true).is_past(DRAFTS_BYTES_MAX, DRAFTS_MAX) && self.0.len() > 1 {
            let most = self.most();
            let is_of_most = |draft: &Draft| most.as_ref().is_none_or(|most| draft.sharers.contains(most));
            let victim = self.oldest(is_of_most).unwrap_or(0);
            self.0.remove(victim);
        }
    }

    /// Drops the oldest of some until they are no more than may be.
    fn drop_past(&mut self, bytes_max: usize, count_max: usize, is_of: impl Fn(&Draft) -> bool) {
        while self.size(&is_of).is_past(bytes_max, count_max) {
            let Some(oldest) = self.oldest(&is_of) else { return };
            self.0.remove(oldest);
        }
    }

    fn size(&self, is_of: impl Fn(&Draft) -> bool) -> Size {
        let of = self.0.iter().filter(|draft| is_of(draft));
        of.fold(Size::default(), |size, draft| Size { bytes: size.bytes + draft.bytes, count: size.count + 1 })
    }

    /// The oldest of some, but never the one that came last.
    fn oldest(&self, is_of: impl Fn(&Draft) -> bool) -> Option<usize> {
        let before = self.0.len().saturating_sub(1);
        self.0.iter().take(before).position(is_of)
    }

    /// Who has most bytes; none = nobody has a share.
    fn most(&self) -> Option<Sharer> {
        let mut sizes: HashMap<&Sharer, usize> = HashMap::new();
        for draft in &self.0 {
            for sharer in &draft.sharers {
                *sizes.entry(sharer).or_default() += draft.bytes;
            }
        }
        sizes.into_iter().max_by_key(|(_, bytes)| *bytes).map(|(sharer, _)| sharer.clone())
    }
}

#[derive(Default)]
struct Size {
    bytes: usize,
    count: usize,
}

impl Size {
    fn is_past(&self, bytes_max: usize, count_max: usize) -> bool {
        self.bytes > bytes_max || self.count > count_max
    }
}

/// The members of a form that are kept: those of the act, each once.
pub(super) fn members(act: Act, given: &Given) -> Given {
    let names = act.entries().iter().map(|entry| entry.name).chain([act.id_entry(), "reason"]);
    let mut kept = Given::default();
    for name in names.filter(|name| given.has(name)) {
        kept.set(name, given.text(name).to_owned());
    }
    kept
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use waybill_core::ids::Tenant;

    use super::*;
    use crate::limits::ACT_FORM_BYTES_MAX;

    const ADDRESS: &str = "/ui/plan?act=message-send";

    fn written(bytes: usize) -> Given {
        Given(vec![("payload".to_owned(), "x".repeat(bytes))])
    }

    fn tenant(name: &str) -> Vec<Sharer> {
        vec![Sharer::Tenant(Tenant::new(name).unwrap())]
    }

    fn keep(drafts: &Drafts, session: &str, of: &str, bytes: usize) -> String {
        drafts.keep(session, tenant(of), ADDRESS.to_owned(), written(bytes))
    }

    fn is_kept(drafts: &Drafts, session: &str, name: &str) -> bool {
        drafts.of(session, name, ADDRESS).is_some()
    }

    #[tokio::test(start_paused = true)]
    async fn a_draft_is_its_sessions_and_its_forms_for_half_an_hour() {
        let drafts = Drafts::default();
        let name = keep(&drafts, "a", "acme", 3);
        assert_eq!(drafts.of("a", &name, ADDRESS).as_deref(), Some(&written(3)));
        assert!(!is_kept(&drafts, "b", &name) && !is_kept(&drafts, "a", "guessed"));
        assert!(drafts.of("a", &name, "/ui/plan?act=saga-start").is_none());
        let done = keep(&drafts, "a", "acme", 3);
        drafts.forget("b", &done);
        assert!(is_kept(&drafts, "a", &done), "another session's is another");
        drafts.forget("a", &done);
        assert!(!is_kept(&drafts, "a", &done) && is_kept(&drafts, "a", &name));
        tokio::time::advance(DRAFT_TIME - Duration::from_secs(1)).await;
        assert!(is_kept(&drafts, "a", &name));
        tokio::time::advance(Duration::from_secs(1)).await;
        assert!(!is_kept(&drafts, "a", &name));
        assert!(drafts.0.lock().0.is_empty());
    }

    #[tokio::test]
    async fn the_oldest_of_a_session_gives_way_and_the_largest_form_has_room() {
        let drafts = Drafts::default();
        let other = keep(&drafts, "other", "acme", 1);
        let first = keep(&drafts, "a", "acme", ACT_FORM_BYTES_MAX);
        let second = keep(&drafts, "a", "acme", ACT_FORM_BYTES_MAX);
        assert!(is_kept(&drafts, "a", &first) && is_kept(&drafts, "a", &second));
        let third = keep(&drafts, "a", "acme", ACT_FORM_BYTES_MAX);
        assert!(!is_kept(&drafts, "a", &first) && is_kept(&drafts, "a", &second) && is_kept(&drafts, "a", &third));
        for _ in 0..DRAFTS_OF_SESSION_MAX {
            keep(&drafts, "a", "acme", 1);
        }
        assert!(!is_kept(&drafts, "a", &third) && is_kept(&drafts, "other", &other));
        assert_eq!(drafts.0.lock().0.len(), DRAFTS_OF_SESSION_MAX + 1);
    }

    #[tokio::test]
    async fn no_tenant_takes_the_drafts_of_another_away() {
        let drafts = Drafts::default();
        let quiet = keep(&drafts, "quiet", "quiet", 100);
        for number in 0..2 * DRAFTS_MAX {
            keep(&drafts, &format!("busy-{number}"), "busy", 1);
        }
        assert!(is_kept(&drafts, "quiet", &quiet));
        assert_eq!(drafts.0.lock().0.len(), DRAFTS_MAX / CALLER_SHARE + 1);
        for number in 0..20 {
            for of in ["busy", "loud", "noisy"] {
                let last = keep(&drafts, &format!("{of}-{number}"), of, ACT_FORM_BYTES_MAX);
                assert!(is_kept(&drafts, &format!("{of}-{number}"), &last), "what came last stays");
            }
        }
        assert!(is_kept(&drafts, "quiet", &quiet));
        assert!(drafts.0.lock().size(|_| true).bytes <= DRAFTS_BYTES_MAX);
    }

    #[test]
    fn what_no_entry_has_is_not_kept() {
        let text = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        let given = Given(vec![text("payload", "1"), text("a", ""), text("form", "token"), text("payload", "2")]);
        assert_eq!(members(Act::MessageSend, &given), Given(vec![text("payload", "1")]));
        let edit = Given(vec![text("id", "copy-1"), text("reason", "v2"), text("key", "")]);
        let kept = members(Act::DeadEdit, &edit);
        assert!(kept.text("id") == "copy-1" && kept.text("reason") == "v2" && kept.has("key"));
    }
}
