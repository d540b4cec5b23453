//! `progress`: early outcomes, handed on at once, so that they survive a trap.

use waybill_bindings::api::progress::Host;
use waybill_bindings::api::types::Outcome;

use super::state::{ContractBreach, InstanceState};

impl Host for InstanceState {
    fn settled(&mut self, call: u32, index: u32, outcome: Outcome) -> wasmtime::Result<()> {
        let Some(record) = self.calls.get_mut(&call) else {
            // The call has ended: its outcomes were told.
            self.context.meters.late_progress.increment(1);
            return Ok(());
        };
        let Some(sink) = &record.sink else {
            return Err(wasmtime::Error::new(ContractBreach("progress.settled outside send-batch".to_owned())));
        };
        let place = index as usize;
        let size = record.told.len();
        let Some(told) = record.told.get_mut(place) else {
            let why = format!("progress.settled names message {index} of a batch of {size}");
            return Err(wasmtime::Error::new(ContractBreach(why)));
        };
        if !std::mem::replace(told, true) {
            sink.settled(place, crate::convert::outcome(&self.context, outcome));
        }
        Ok(())
    }
}
