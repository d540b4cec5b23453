//! Messages that were under way when the server closed the channel, and may be why: each goes alone the next time, so that
//! the one that is to blame is found and its neighbours pay once.

use std::cell::RefCell;
use std::collections::HashSet;

use waybill_plugin::transport::Message;

/// Most that are remembered; of more, the rest isn't suspected.
const SUSPECTS_MAX: usize = 4_096;

/// By tenant and id.
#[derive(Debug, Default)]
pub(crate) struct Suspects(RefCell<HashSet<(String, String)>>);

impl Suspects {
    /// Whether nobody is, which is nearly always.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.borrow().is_empty()
    }

    /// Whether this one is.
    pub(crate) fn has(&self, message: &Message) -> bool {
        !self.is_empty() && self.0.borrow().contains(&key(message))
    }

    pub(crate) fn add(&self, message: &Message) {
        let mut suspects = self.0.borrow_mut();
        if suspects.len() < SUSPECTS_MAX {
            suspects.insert(key(message));
        }
    }

    /// Its fate is known.
    pub(crate) fn clear(&self, message: &Message) {
        if !self.is_empty() {
            self.0.borrow_mut().remove(&key(message));
        }
    }
}

fn key(message: &Message) -> (String, String) {
    (message.tenant.clone(), message.id.clone())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::encode::tests::message;

    #[test]
    fn a_suspect_is_known_by_tenant_and_id_until_its_fate_is() {
        let (suspects, one) = (Suspects::default(), message());
        let other = Message { tenant: "other".to_owned(), ..message() };
        suspects.add(&one);
        assert!(suspects.has(&one) && !suspects.has(&other));
        suspects.clear(&other);
        assert!(suspects.has(&one));
        suspects.clear(&one);
        assert!(suspects.is_empty());
    }

    #[test]
    fn their_number_is_bounded() {
        let suspects = Suspects::default();
        for number in 0..SUSPECTS_MAX + 10 {
            suspects.add(&Message { id: number.to_string(), ..message() });
        }
        assert_eq!(suspects.0.borrow().len(), SUSPECTS_MAX);
    }
}
