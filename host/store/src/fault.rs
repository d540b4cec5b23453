//! Faults of the engine as errors of the port.

use waybill_core::port::store::StoreError;
use waybill_surreal::Fault;

pub fn store_error(fault: Fault) -> StoreError {
    match fault {
        Fault::Conflict(text) => StoreError::Conflict(text),
        Fault::Exists(text) => StoreError::Exists(text),
        Fault::DiskFull(text) => StoreError::DiskFull(text),
        Fault::Unavailable(text) | Fault::Unknown(text) => StoreError::Unavailable(text),
        Fault::Corrupt(text) => StoreError::Corrupt(text),
        Fault::TooLarge => StoreError::TooLarge,
        Fault::Statement(text) => StoreError::Statement(text),
        Fault::Closed(table) => StoreError::OwnTable { table },
        Fault::Shared => StoreError::Shared,
        Fault::Other(text) => StoreError::Other(text),
    }
}

#[cfg(test)]
mod tests {
    //! Of `waybill-surreal`, which is compiled once and has no tests of its own.

    use waybill_surreal::QueryError;

    use super::*;

    /// Texts that mean something when they are the database's own.
    const TELLING: [&str; 5] = [
        "No space left on device",
        "checksum verification failed",
        "Transaction write conflict",
        "The transaction is too large",
        "commit outcome is unknown",
    ];

    #[test]
    fn what_a_statement_throws_is_a_fault_of_the_statement_whatever_its_text_says() {
        for text in TELLING {
            assert_eq!(Fault::of_query(&QueryError::thrown(text.to_owned())), Fault::Statement(text.to_owned()));
            // The same text from the database means what it says.
            let of_store = Fault::of_query(&QueryError::internal(text.to_owned()));
            assert!(!matches!(of_store, Fault::Statement(_)), "{text}: {of_store:?}");
        }
    }

    #[test]
    fn a_commit_whose_error_is_not_known_is_of_unknown_outcome() {
        let text = || "the server said something that nobody has seen before".to_owned();
        assert_eq!(Fault::Statement(text()).at_commit(), Fault::Unknown(text()));
        assert_eq!(Fault::Other(text()).at_commit(), Fault::Unknown(text()));
        for proved in [Fault::Conflict(text()), Fault::Exists(text()), Fault::Unavailable(text())] {
            assert_eq!(proved.clone().at_commit(), proved);
        }
    }
}
