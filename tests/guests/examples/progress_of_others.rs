//! Tells the fate of messages that aren't in its batch and of calls that aren't its own, then asks for a retry of its own.
use guests::{CallInfo, Fault, Outcome};

guests::on_send!(_config, call, batch => {
    for index in [batch.len(), batch.len() + 7, u32::MAX as usize] {
        call.settled(index, &guests::report("beyond the batch"));
    }
    for id in [call.id.wrapping_add(1), call.id.wrapping_sub(1), 0, u32::MAX] {
        if id != call.id {
            CallInfo { id, ..call.clone() }.settled(0, &guests::report("of another call"));
        }
    }
    Ok(batch.iter().map(|_| Outcome::Retryable(Fault::new("FIXTURE.OWN", "its own"))).collect())
});
