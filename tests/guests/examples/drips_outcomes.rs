//! Tells the fate of one message every `amount` milliseconds, however long the call may take.
guests::on_send!(config, call, batch => {
    for (index, outcome) in guests::acks(&batch).iter().enumerate() {
        std::thread::sleep(std::time::Duration::from_millis(config.amount as u64));
        call.settled(index, outcome);
    }
    Ok(guests::acks(&batch))
});
