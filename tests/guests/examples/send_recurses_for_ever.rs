//! Calls itself until the stack ends.
#![allow(unconditional_recursion, reason = "that is the point")]
fn deeper(depth: u64) -> u64 {
    let here = std::hint::black_box([depth; 16]);
    deeper(std::hint::black_box(depth) + 1).wrapping_add(here.iter().sum::<u64>())
}

guests::on_send!(_config, _call, batch => {
    Ok(guests::reports(&batch, &deeper(0).to_string()))
});
