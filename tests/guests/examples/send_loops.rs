//! Never comes back from `send-batch`, and never yields.
guests::on_send!(_config, _call, batch => {
    let mut turns = 0_u64;
    while std::hint::black_box(turns) < u64::MAX {
        turns = turns.wrapping_add(1) % 1_000;
    }
    Ok(guests::acks(&batch))
});
