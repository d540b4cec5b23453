//! Messages of one key that go to several partitions: each goes when the one before it is acknowledged. In one partition the queue
//! keeps their order.

use std::collections::HashMap;

use waybill_plugin::transport::Message;

/// Which message of a batch waits for which, by places.
#[derive(Debug)]
pub(crate) struct Runs {
    /// The one of its key before it, where that goes elsewhere.
    before: Vec<Option<usize>>,
    acknowledged: Vec<bool>,
}

impl Runs {
    /// `routes`: the queue of each message; none = it goes nowhere.
    pub(crate) fn of(batch: &[Message], routes: &[Option<usize>]) -> Self {
        let mut last: HashMap<(&str, &str), usize> = HashMap::new();
        let before = batch.iter().enumerate().map(|(place, message)| {
            let key = key_of(message)?;
            let earlier = last.insert(key, place)?;
            let route = |place: usize| routes.get(place).copied().flatten();
            let is_elsewhere = route(place).is_none() || route(place) != route(earlier);
            is_elsewhere.then_some(earlier)
        });
        Self { before: before.collect(), acknowledged: vec![false; batch.len()] }
    }

    /// Whether nothing of its key elsewhere is open.
    pub(crate) fn may_go(&self, place: usize) -> bool {
        let before = self.before.get(place).copied().flatten();
        before.is_none_or(|earlier| self.acknowledged.get(earlier).copied().unwrap_or(true))
    }

    pub(crate) fn acknowledge(&mut self, place: usize) {
        if let Some(slot) = self.acknowledged.get_mut(place) {
            *slot = true;
        }
    }
}

/// What a message is ordered by.
pub(crate) fn key_of(message: &Message) -> Option<(&str, &str)> {
    message.key.as_deref().map(|key| (message.tenant.as_str(), key))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::encode::tests::message;

    #[test]
    fn a_message_waits_for_one_of_its_key_that_goes_elsewhere() {
        let of = |key: Option<&str>| Message { key: key.map(str::to_owned), ..message() };
        let batch = [of(Some("a")), of(Some("a")), of(Some("a")), of(None), of(Some("b")), of(Some("a"))];
        let mut runs = Runs::of(&batch, &[Some(0), Some(0), Some(1), Some(1), Some(1), None]);
        let may_go = |runs: &Runs| (0..batch.len()).filter(|place| runs.may_go(*place)).collect::<Vec<_>>();
        assert_eq!(may_go(&runs), [0, 1, 3, 4]);
        runs.acknowledge(1);
        assert_eq!(may_go(&runs), [0, 1, 2, 3, 4]);
        runs.acknowledge(2);
        assert_eq!(may_go(&runs), [0, 1, 2, 3, 4, 5]);
    }
}
