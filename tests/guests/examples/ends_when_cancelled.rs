//! Well-behaved: waits until the host wants the call to end, then gives the messages back untried.
use guests::{Fault, Outcome};

guests::on_send!(_config, call, batch => {
    while !call.cancelled() {
        std::thread::sleep(std::time::Duration::from_millis(2));
    }
    Ok(batch.iter().map(|_| Outcome::Release(Fault::new("FIXTURE.CANCELLED", "asked to stop"))).collect())
});
