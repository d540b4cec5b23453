//! libFuzzer on the target that `WAYBILL_FUZZ_TARGET` names.
#![no_main]
#![allow(clippy::panic)]

use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;

static READ: LazyLock<fn(&[u8])> = LazyLock::new(|| {
    let name = std::env::var("WAYBILL_FUZZ_TARGET").unwrap_or_default();
    let found = waybill_fuzz::targets().find(|target| target.name == name);
    found.map_or_else(|| panic!("WAYBILL_FUZZ_TARGET: there is no target {name:?}"), |target| target.read)
});

fuzz_target!(|bytes: &[u8]| READ(bytes));
