//! libFuzzer on the target that `WAYBILL_FUZZ_TARGET` names. With `WAYBILL_FUZZ_SEEDS` it writes the seeds of every target into a
//! folder a target, below the folder that the variable names, and names the targets instead. That is no program of its own, because
//! what is compiled with coverage links only with libFuzzer.
#![no_main]
#![allow(clippy::panic, clippy::expect_used)]

use std::path::Path;
use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;

static READ: LazyLock<fn(&[u8])> = LazyLock::new(|| {
    let name = std::env::var("WAYBILL_FUZZ_TARGET").unwrap_or_default();
    let found = waybill_fuzz::targets().find(|target| target.name == name);
    found.map_or_else(|| panic!("WAYBILL_FUZZ_TARGET: there is no target {name:?}"), |target| target.read)
});

fn write_seeds(place: &Path) -> std::io::Result<()> {
    for target in waybill_fuzz::targets() {
        let folder = place.join(target.name);
        std::fs::create_dir_all(&folder)?;
        for (number, seed) in target.seeds().iter().enumerate() {
            std::fs::write(folder.join(format!("seed-{number}")), seed)?;
        }
        println!("{}", target.name);
    }
    Ok(())
}

fuzz_target!(
    init: {
        if let Some(place) = std::env::var_os("WAYBILL_FUZZ_SEEDS") {
            write_seeds(Path::new(&place)).expect("a folder for the seeds");
            std::process::exit(0);
        }
    },
    |bytes: &[u8]| READ(bytes)
);
