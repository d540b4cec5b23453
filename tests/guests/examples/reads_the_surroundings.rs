//! Looks for environment variables, arguments, files and input, and reports what it found.
use std::io::Read as _;

guests::on_send!(_config, _call, batch => {
    let mut input = Vec::new();
    // What can't be read is not found; what was read before is counted.
    let _ = std::io::stdin().read_to_end(&mut input);
    let found = [
        format!("environment: {}", std::env::vars_os().count()),
        format!("arguments: {}", std::env::args_os().count()),
        format!("root: {}", std::fs::read_dir("/").map_or(0, Iterator::count)),
        format!("here: {}", std::fs::read_dir(".").map_or(0, Iterator::count)),
        format!("passwd: {}", std::fs::read("/etc/passwd").map_or(0, |text| text.len())),
        format!("written: {}", std::fs::write("/tmp/waybill-guest", "x").is_ok()),
        format!("input: {}", input.len()),
    ];
    Ok(guests::reports(&batch, &found.join(", ")))
});
