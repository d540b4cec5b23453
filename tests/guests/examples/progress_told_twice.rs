//! Tells a delivery of each message, then a dead letter, and returns a block: the first counts.
use guests::{Fault, Outcome};

guests::on_send!(_config, call, batch => {
    for (index, outcome) in guests::acks(&batch).iter().enumerate() {
        call.settled(index, outcome);
        call.settled(index, &Outcome::Permanent(Fault::new("FIXTURE.SECOND", "told second")));
    }
    Ok(batch.iter().map(|_| Fault::new("FIXTURE.THIRD", "returned").blocking("")).collect())
});
