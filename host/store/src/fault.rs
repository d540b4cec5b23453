//! Faults of the engine as errors of the port.

use waybill_core::port::store::StoreError;
use waybill_surreal::Fault;

/// The port's error.
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
