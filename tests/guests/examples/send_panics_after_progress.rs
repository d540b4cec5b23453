//! Tells the fate of the first half of the batch (rounded up), then traps.
guests::on_send!(_config, call, batch => {
    for (index, outcome) in guests::acks(&batch).iter().enumerate().take(batch.len().div_ceil(2)) {
        call.settled(index, outcome);
    }
    panic!("after progress")
});
