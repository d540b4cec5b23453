//! Answers one outcome too few.
guests::on_send!(_config, _call, batch => {
    let mut outcomes = guests::acks(&batch);
    outcomes.pop();
    Ok(outcomes)
});
