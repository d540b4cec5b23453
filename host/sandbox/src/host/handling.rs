//! `handling`: early verdicts of a handler, handed on at once, so that they survive a trap.

use waybill_bindings::inbound::handling::Host;
use waybill_bindings::inbound::inbound_types::Verdict;

use super::state::{ContractBreach, EarlySink, InstanceState};

impl Host for InstanceState {
    fn settled(&mut self, call: u32, index: u32, verdict: Verdict) -> wasmtime::Result<()> {
        let Some(record) = self.calls.get_mut(&call) else {
            // The call has ended: its verdicts were told.
            self.context.meters.late_progress.increment(1);
            return Ok(());
        };
        let Some(EarlySink::Verdicts(sink)) = record.sink.clone() else {
            return Err(wasmtime::Error::new(ContractBreach("handling.settled outside handle".to_owned())));
        };
        if record.first_told("handling.settled", index)? {
            let verdict = crate::convert::handler::verdict(&self.context, verdict);
            self.context.meters.tally.judged_early(&verdict);
            sink.settled(index as usize, verdict);
        }
        Ok(())
    }
}
