//! The host's log. Entries are tagged with endpoint, generation and instance by the host, rate-limited and bounded; off the
//! sandbox (in a plain `cargo test`) they go to stderr.
//!
//! ```ignore
//! waybill_plugin::info!("connected to {peer}");
//! waybill_plugin::warn!([("peer", peer), ("tries", 3)], "slow answer");
//! ```

use std::fmt::{Arguments, Display};

pub use crate::transport::bindings::waybill::plugin::log::Level;

/// Writes one entry, unless the host drops its level. The macros call this.
pub fn write(level: Level, fields: &[(&str, &dyn Display)], message: Arguments<'_>) {
    #[cfg(target_family = "wasm")]
    {
        use crate::transport::bindings::waybill::plugin::log;
        if log::enabled(level) {
            let fields: Vec<(String, String)> =
                fields.iter().map(|(name, value)| ((*name).to_owned(), value.to_string())).collect();
            log::log(level, &message.to_string(), &fields);
        }
    }
    #[cfg(not(target_family = "wasm"))]
    {
        let fields: String = fields.iter().map(|(name, value)| format!(" {name}={value}")).collect();
        eprintln!("{level:?}: {message}{fields}");
    }
}

/// Writes an entry of a level given first: `log!(Level::Info, [("peer", peer)], "text {x}")`; the fields may be left out.
#[macro_export]
macro_rules! log {
    ($level:expr, [$(($name:expr, $value:expr)),* $(,)?], $($text:tt)+) => {
        $crate::log::write($level, &[$(($name, &$value)),*], ::core::format_args!($($text)+))
    };
    ($level:expr, $($text:tt)+) => {
        $crate::log::write($level, &[], ::core::format_args!($($text)+))
    };
}

/// Logs a single step of the work, for tracing one call.
#[macro_export]
macro_rules! trace { ($($entry:tt)+) => { $crate::log!($crate::log::Level::Trace, $($entry)+) }; }
/// Logs what only the author of the plugin needs.
#[macro_export]
macro_rules! debug { ($($entry:tt)+) => { $crate::log!($crate::log::Level::Debug, $($entry)+) }; }
/// Logs a normal event that an operator may want to know of.
#[macro_export]
macro_rules! info { ($($entry:tt)+) => { $crate::log!($crate::log::Level::Info, $($entry)+) }; }
/// Should be looked at.
#[macro_export]
macro_rules! warn { ($($entry:tt)+) => { $crate::log!($crate::log::Level::Warn, $($entry)+) }; }
/// Logs a failure that an operator has to know of.
#[macro_export]
macro_rules! error { ($($entry:tt)+) => { $crate::log!($crate::log::Level::Error, $($entry)+) }; }
