//! Makes `amount` timers, each a handle of the host, and holds them all.
use wasip2::clocks::monotonic_clock::subscribe_duration;

guests::on_send!(config, _call, batch => {
    let held: Vec<_> = (0..config.amount).map(|_| subscribe_duration(3_600_000_000_000)).collect();
    Ok(guests::reports(&batch, &format!("holds {}", held.len())))
});
