//! Messages of one key in a batch. A message goes in the entry of the one before it, or when that one is acknowledged; it doesn't go when
//! that one isn't.

use std::collections::HashMap;

use waybill_plugin::transport::Message;

/// Which message of a batch follows which, by their places.
#[derive(Debug)]
pub(crate) struct Runs {
    before: Vec<Option<usize>>,
    behind: Vec<Option<usize>>,
    /// What is before it is acknowledged, or there is nothing.
    free: Vec<bool>,
}

impl Runs {
    pub(crate) fn of(batch: &[Message]) -> Self {
        let (mut before, mut behind) = (Vec::with_capacity(batch.len()), vec![None; batch.len()]);
        let mut last: HashMap<(&str, &str), usize> = HashMap::new();
        for (place, message) in batch.iter().enumerate() {
            let key = message.key.as_deref().map(|key| (message.tenant.as_str(), key));
            let earlier = key.and_then(|key| last.insert(key, place));
            if let Some(slot) = earlier.and_then(|earlier| behind.get_mut(earlier)) {
                *slot = Some(place);
            }
            before.push(earlier);
        }
        let free = before.iter().map(Option::is_none).collect();
        Self { before, behind, free }
    }

    /// Whether one may be written by itself.
    pub(crate) fn is_free(&self, place: usize) -> bool {
        self.free.get(place).copied().unwrap_or_default()
    }

    /// The one of its key before it.
    pub(crate) fn before(&self, place: usize) -> Option<usize> {
        self.before.get(place).copied().flatten()
    }

    /// The next one of its key.
    pub(crate) fn behind(&self, place: usize) -> Option<usize> {
        self.behind.get(place).copied().flatten()
    }

    /// The one before it is acknowledged.
    pub(crate) fn set_free(&mut self, place: usize) {
        if let Some(slot) = self.free.get_mut(place) {
            *slot = true;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::encode::tests::message;

    #[test]
    fn a_message_follows_the_last_one_of_its_key_and_tenant() {
        let of = |tenant: &str, key: Option<&str>| Message {
            tenant: tenant.to_owned(),
            key: key.map(str::to_owned),
            ..message()
        };
        let batch = [of("a", Some("x")), of("a", None), of("a", Some("x")), of("b", Some("x")), of("a", None)];
        let mut runs = Runs::of(&batch);
        let free = |runs: &Runs| (0..6).filter(|place| runs.is_free(*place)).collect::<Vec<_>>();
        assert_eq!(free(&runs), [0, 1, 3, 4]);
        assert_eq!((runs.behind(0), runs.before(2), runs.before(3)), (Some(2), Some(0), None));
        runs.set_free(2);
        assert_eq!(free(&runs), [0, 1, 2, 3, 4]);
    }
}
