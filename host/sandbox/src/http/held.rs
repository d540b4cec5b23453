//! What the host holds of answers until their guest has them, and of requests until they are answered, against the endpoint's
//! bounds.

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Bytes that one endpoint's answers, or its requests, may take, a permit each.
#[derive(Clone, Debug)]
pub(super) struct Budget(Arc<Semaphore>);

impl Budget {
    pub(super) fn new(bytes: usize) -> Self {
        Self(Arc::new(Semaphore::new(bytes.min(Semaphore::MAX_PERMITS))))
    }

    /// Nothing more could be taken in.
    pub(super) fn is_used_up(&self) -> bool {
        self.0.available_permits() == 0
    }

    #[cfg(test)]
    pub(super) fn bytes_left(&self) -> usize {
        self.0.available_permits()
    }

    /// For one answer or request, nothing held yet.
    pub(super) fn begin(&self) -> Held {
        Held { budget: Arc::clone(&self.0), permits: None }
    }
}

/// What one answer or request takes of the bound, given back when this is dropped.
#[derive(Debug)]
pub(crate) struct Held {
    budget: Arc<Semaphore>,
    permits: Option<OwnedSemaphorePermit>,
}

impl Held {
    pub(crate) fn bytes(&self) -> usize {
        self.permits.as_ref().map_or(0, OwnedSemaphorePermit::num_permits)
    }

    /// Takes so many bytes more; false, and none, if there aren't as many left. Nobody waits here: two answers that wait for each
    /// other's rest would wait for ever.
    pub(super) fn take(&mut self, bytes: usize) -> bool {
        let Ok(count) = u32::try_from(bytes) else { return false };
        let Ok(more) = Arc::clone(&self.budget).try_acquire_many_owned(count) else { return false };
        match &mut self.permits {
            Some(permits) => permits.merge(more),
            none => *none = Some(more),
        }
        true
    }

    /// Makes room for all of a body whose length is known, if as much may be held: growing bit by bit leaves as much behind again.
    pub(super) fn room_for(&mut self, body: &mut Vec<u8>, bytes: usize) {
        if bytes > body.capacity() && self.take(bytes - body.capacity()) {
            body.reserve_exact(bytes - body.len());
        }
    }

    /// Appends as much of `data` as may be held; false if that isn't all.
    pub(super) fn append(&mut self, body: &mut Vec<u8>, data: &[u8], bytes_max: usize) -> bool {
        let fits = data.get(..data.len().min(bytes_max.saturating_sub(body.len()))).unwrap_or_default();
        let needed = body.len() + fits.len();
        if needed > body.capacity() {
            // What is allocated counts, not what is used of it.
            let grown = body.capacity().saturating_mul(2).clamp(needed, bytes_max.max(needed));
            if !self.take(grown - body.capacity()) {
                return false;
            }
            body.reserve_exact(grown - body.len());
        }
        body.extend_from_slice(fits);
        fits.len() == data.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bodies_grow_within_the_budget_and_give_it_back() {
        let budget = Budget::new(10_000);
        let (mut one, mut other) = (budget.begin(), budget.begin());
        let (mut first, mut second) = (Vec::new(), Vec::new());
        for _ in 0..100 {
            assert!(one.append(&mut first, &[1; 64], 8_000));
        }
        assert!(first.len() == 6_400 && first.capacity() <= 8_000);
        assert!(other.append(&mut second, &[2; 1_000], 8_000));
        assert!(!other.append(&mut second, &[2; 4_000], 8_000), "past the budget");
        assert_eq!(second.len(), 1_000);
        drop(one);
        assert!(other.append(&mut second, &[2; 4_000], 8_000));
        assert!(!other.append(&mut second, &[2; 4_000], 8_000), "past the size of one answer");
        assert_eq!(second.len(), 8_000);
        drop(other);
        assert_eq!(budget.0.available_permits(), 10_000);
        assert!(!budget.is_used_up() && !budget.begin().take(10_001));

        let (mut known, mut body) = (budget.begin(), Vec::new());
        known.room_for(&mut body, 6_000);
        assert!(body.capacity() >= 6_000 && known.append(&mut body, &[3; 6_000], 8_000));
        assert_eq!(known.bytes(), 6_000, "taken once");
        known.room_for(&mut body, 20_000);
        assert_eq!((known.bytes(), body.len()), (6_000, 6_000), "more than there is: as far as it goes");
    }
}
