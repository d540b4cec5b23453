//! Traps in a `send-batch` whose batch holds a message with payload `poison`; acknowledges any other.
guests::on_send!(_config, _call, batch => {
    assert!(batch.iter().all(|message| message.payload != b"poison"), "poisoned");
    Ok(guests::acks(&batch))
});
