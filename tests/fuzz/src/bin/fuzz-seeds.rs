//! Writes the seeds of every target into a folder a target, below the folder that is given, and names the targets.
#![allow(clippy::expect_used)]

fn main() -> std::io::Result<()> {
    let place = std::path::PathBuf::from(std::env::args_os().nth(1).expect("a folder"));
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
