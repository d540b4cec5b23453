//! Messages of one key in a batch: each goes when the one before it is acknowledged, and none when it isn't. Others don't wait for them.

use std::collections::HashMap;

use waybill_plugin::transport::Message;

/// Which message of a batch follows which, by places.
#[derive(Debug)]
pub(crate) struct Runs {
    behind: Vec<Option<usize>>,
    /// Nothing of its key is before it, or that is acknowledged.
    free: Vec<bool>,
}

impl Runs {
    pub(crate) fn of(batch: &[Message]) -> Self {
        let (mut behind, mut free) = (vec![None; batch.len()], Vec::with_capacity(batch.len()));
        let mut last: HashMap<(&str, &str), usize> = HashMap::new();
        for (place, message) in batch.iter().enumerate() {
            let key = message.key.as_deref().map(|key| (message.tenant.as_str(), key));
            let earlier = key.and_then(|key| last.insert(key, place));
            if let Some(slot) = earlier.and_then(|earlier| behind.get_mut(earlier)) {
                *slot = Some(place);
            }
            free.push(earlier.is_none());
        }
        Self { behind, free }
    }

    /// Whether one may be written.
    pub(crate) fn may_go(&self, place: usize) -> bool {
        self.free.get(place).copied().unwrap_or(false)
    }

    /// The next of the same key.
    pub(crate) fn behind(&self, place: usize) -> Option<usize> {
        self.behind.get(place).copied().flatten()
    }

    /// The one before it is acknowledged.
    pub(crate) fn free(&mut self, place: usize) {
        if let Some(slot) = self.free.get_mut(place) {
            *slot = true;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::encode::tests::message;

    fn of(tenant: &str, key: Option<&str>) -> Message {
        Message { tenant: tenant.to_owned(), key: key.map(str::to_owned), ..message() }
    }

    #[test]
    fn a_message_waits_for_the_one_of_its_key_before_it() {
        let batch =
            [of("a", Some("x")), of("a", Some("y")), of("a", Some("x")), of("b", Some("x")), of("a", Some("x"))];
        let mut runs = Runs::of(&batch);
        let may_go = |runs: &Runs| (0..batch.len()).filter(|place| runs.may_go(*place)).collect::<Vec<_>>();
        assert_eq!((may_go(&runs), runs.behind(0), runs.behind(1)), (vec![0, 1, 3], Some(2), None));
        runs.free(2);
        assert_eq!((may_go(&runs), runs.behind(2)), (vec![0, 1, 2, 3], Some(4)));
    }

    #[test]
    fn messages_without_a_key_wait_for_nobody() {
        let runs = Runs::of(&[of("a", None), of("a", None)]);
        assert!(runs.may_go(0) && runs.may_go(1) && !runs.may_go(2));
    }
}
