//! Answers one outcome too many.
guests::on_send!(_config, _call, batch => {
    let mut outcomes = guests::acks(&batch);
    outcomes.push(guests::report("nobody's"));
    Ok(outcomes)
});
