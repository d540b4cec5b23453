//! Says of itself that it takes no batch, no payload, and all calls at once.
guests::on_open!(_config => {
    Ok(guests::Opened {
        max_batch: Some(0),
        max_payload_bytes: Some(u32::MAX),
        max_concurrent_calls: u32::MAX,
        tick_every: Some(0),
        ..guests::opened()
    })
});
