//! Hostile guests: one behaviour each, with the counter that shows that the host met it.
//!
//! The table is used twice: a test lets each loose on a real engine beside a good transport and looks that nothing is lost;
//! `cargo xtask bench hostile` measures what the good transport notices of it.

pub mod component;
mod stage;

use std::sync::Arc;
use std::time::Duration;

use waybill_sandbox::PluginSource;

use crate::guests;

pub use stage::{Load, Stage, Stored};

#[derive(Clone, Copy, Debug)]
pub struct Behaviour {
    /// What it does, in two or three words.
    pub name: &'static str,
    pub guest: Guest,
    /// Its configuration, as JSON.
    pub config: &'static str,
    /// Series that counts that the host met it: a name, and a label it has.
    pub counted: (&'static str, &'static str),
    /// Whether its messages are delivered all the same.
    pub delivers: bool,
}

/// Where a hostile component comes from.
#[derive(Clone, Copy, Debug)]
pub enum Guest {
    /// A fixture of `tests/guests`.
    Fixture(&'static str),
    /// A fixture with a core module put beside it, as a hostile toolchain could.
    With(&'static str, fn() -> Vec<u8>),
}

impl Guest {
    pub fn source(self) -> std::io::Result<PluginSource> {
        match self {
            Self::Fixture(path) => Ok(PluginSource::File(path.into())),
            Self::With(path, module) => {
                let component = component::with_core_module(&std::fs::read(path)?, &module());
                Ok(PluginSource::Bytes(Arc::from(component)))
            }
        }
    }
}

const LIMIT: &str = "waybill_plugin_limit_hits_total";
const TRAP: &str = "waybill_plugin_traps_total";

const fn waits(
    name: &'static str,
    guest: &'static str,
    config: &'static str,
    counted: (&'static str, &'static str),
) -> Behaviour {
    Behaviour { name, guest: Guest::Fixture(guest), config, counted, delivers: false }
}

const fn delivers(
    name: &'static str,
    guest: &'static str,
    config: &'static str,
    counted: (&'static str, &'static str),
) -> Behaviour {
    Behaviour { name, guest: Guest::Fixture(guest), config, counted, delivers: true }
}

/// CPU time of one call of a hostile guest: little, so that a run is short.
pub const CPU_PER_CALL: Duration = Duration::from_millis(300);
/// Time of one call of a hostile guest: far more than its CPU time takes on a busy machine.
pub const SEND_TIMEOUT: Duration = Duration::from_secs(4);

pub const BEHAVIOURS: [Behaviour; 20] = [
    waits("spin", guests::SEND_LOOPS, "{}", (LIMIT, "limit=\"cpu\"")),
    waits("memory bomb", guests::SEND_ALLOCATES_FOR_EVER, "{}", (LIMIT, "limit=\"memory\"")),
    Behaviour {
        name: "table bomb",
        guest: Guest::With(guests::MIRRORS, component::table_bomb),
        config: "{}",
        counted: (LIMIT, "limit=\"tables\""),
        delivers: false,
    },
    waits("recursion", guests::SEND_RECURSES_FOR_EVER, "{}", (LIMIT, "limit=\"stack\"")),
    waits("huge string", guests::HUGE_STRING, r#"{"amount":8000000}"#, (LIMIT, "limit=\"hostcall-bytes\"")),
    waits("handle flood", guests::HOARDS_HANDLES, r#"{"amount":5000}"#, (LIMIT, "limit=\"handles\"")),
    delivers(
        "header flood",
        guests::FLOODS_HEADERS,
        r#"{"address":"127.0.0.1:9","amount":200}"#,
        (LIMIT, "limit=\"http-headers\""),
    ),
    delivers("log flood", guests::FLOODS_THE_LOG, r#"{"amount":2000}"#, (LIMIT, "limit=\"log\"")),
    delivers("output flood", guests::FLOODS_STDOUT, r#"{"amount":2000}"#, (LIMIT, "limit=\"log\"")),
    delivers("metric flood", guests::FLOODS_METRICS, r#"{"amount":2000}"#, (LIMIT, "limit=\"metrics\"")),
    waits("trap in open", guests::OPEN_PANICS, "{}", (TRAP, "kind=\"trapped\"")),
    delivers("trap in the middle of a batch", guests::SEND_PANICS_AFTER_PROGRESS, "{}", (TRAP, "kind=\"trapped\"")),
    waits("too few outcomes", guests::SEND_TOO_FEW_OUTCOMES, "{}", (TRAP, "kind=\"contract\"")),
    waits("outcomes of others", guests::PROGRESS_OF_OTHERS, "{}", (TRAP, "kind=\"contract\"")),
    waits("never-ready future", guests::NEVER_READY, "{}", (TRAP, "")),
    waits("sleeps for an hour", guests::SLEEPS_PAST_THE_DEADLINE, "{}", (LIMIT, "limit=\"call-time\"")),
    delivers("slow drip", guests::DRIPS_OUTCOMES, r#"{"amount":1500}"#, (LIMIT, "limit=\"call-time\"")),
    delivers("dial-out", guests::REACHES_BY_NET, r#"{"address":"127.0.0.1:9"}"#, ("waybill_plugin_denied_total", "")),
    delivers("oversized receipt", guests::HUGE_RECEIPT, r#"{"amount":20000}"#, (LIMIT, "limit=\"outcome\"")),
    waits("panic in drop", guests::PANICS_IN_DROP, "{}", (TRAP, "kind=\"trapped\"")),
];
