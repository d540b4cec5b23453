//! `progress`: early outcomes, handed on at once, so that they survive a trap.

use waybill_bindings::api::progress::Host;
use waybill_bindings::api::types::Outcome;

use super::state::{ContractBreach, EarlySink, InstanceState};

impl Host for InstanceState {
    fn settled(&mut self, call: u32, index: u32, outcome: Outcome) -> wasmtime::Result<()> {
        let Some(record) = self.calls.get_mut(&call) else {
            // The call has ended: its outcomes were told.
            self.context.meters.late_progress.increment(1);
            return Ok(());
        };
        let Some(EarlySink::Outcomes(sink)) = record.sink.clone() else {
            return Err(wasmtime::Error::new(ContractBreach("progress.settled outside send-batch".to_owned())));
        };
        if record.first_told("progress.settled", index)? {
            let outcome = crate::convert::outcome(&self.context, outcome);
            self.context.meters.tally.told_early(&outcome);
            sink.settled(index as usize, outcome);
        }
        Ok(())
    }
}
