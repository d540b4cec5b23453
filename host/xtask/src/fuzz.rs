//! `cargo xtask fuzz`: libFuzzer on every target of `tests/fuzz`.
//!
//! Our own crates are compiled again with coverage, so that the fuzzer sees which way an input took; the dependencies are those
//! that are there. The compiler is this program (`RUSTC_WORKSPACE_WRAPPER`), which adds the flags: flags in the environment would
//! count for the dependencies too, and SurrealDB would be compiled a second time.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use anyhow::{Context, Result, bail};
use clap::Args;

use crate::cargo::{Repository, TRIALS, run as run_command, shown};

/// Tells this program that cargo calls it as a compiler.
const AS_COMPILER: &str = "WAYBILL_FUZZ_COMPILER";
/// Names the folder into which the fuzzer writes its seeds instead of fuzzing.
const SEEDS: &str = "WAYBILL_FUZZ_SEEDS";
/// Coverage as libFuzzer reads it, and checks that the release profile leaves out.
const FLAGS: [&str; 7] = [
    "-Cpasses=sancov-module",
    "-Cllvm-args=-sanitizer-coverage-level=4",
    "-Cllvm-args=-sanitizer-coverage-inline-8bit-counters",
    "-Cllvm-args=-sanitizer-coverage-pc-table",
    "-Cllvm-args=-sanitizer-coverage-trace-compares",
    "-Cdebug-assertions=on",
    "-Coverflow-checks=on",
];
/// Largest input, in bytes.
const INPUT_BYTES_MAX: u32 = 16 * 1024;
/// Memory that one input may make the process take, in MiB.
const MEMORY_MIB_MAX: u32 = 1024;
/// Time that one input may take, in seconds.
const INPUT_SECONDS_MAX: u32 = 10;

#[derive(Debug, Args)]
pub struct Arguments {
    /// Only these targets; without one, all
    targets: Vec<String>,
    /// Seconds for each target
    #[arg(long, default_value_t = 60, value_parser = clap::value_parser!(u32).range(1..))]
    seconds: u32,
}

/// Compiles as cargo asks, if that is what this program was started for.
pub fn as_compiler() -> Option<ExitCode> {
    std::env::var_os(AS_COMPILER)?;
    let mut arguments = std::env::args_os().skip(1);
    let mut compiler = Command::new(arguments.next()?);
    let arguments: Vec<OsString> = arguments.collect();
    let has = |text: &str| arguments.iter().any(|argument| argument.to_string_lossy().starts_with(text));
    // What runs while compiling isn't linked with the fuzzer. Without a crate's name it is a question to the compiler.
    if has("--crate-name") && !has("build_script_") && !has("proc-macro") {
        compiler.args(FLAGS);
    }
    let status = compiler.args(&arguments).status();
    Some(match status {
        Ok(status) if status.success() => ExitCode::SUCCESS,
        Ok(_) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("{}: {error}", shown(&compiler));
            ExitCode::FAILURE
        }
    })
}

pub fn run(arguments: &Arguments) -> Result<ExitCode> {
    let repository = Repository::find()?;
    build(&repository)?;
    let place = repository.target.join("fuzz");
    let mut seeds = fuzzer(&repository);
    let output = seeds.env(SEEDS, place.join("corpus")).output().context("starting the fuzzer")?;
    if !output.status.success() {
        bail!("writing the seeds ended with {}: {}", output.status, String::from_utf8_lossy(&output.stderr));
    }
    let all = String::from_utf8(output.stdout).context("names of targets")?;
    let all: Vec<&str> = all.lines().collect();
    if let Some(unknown) = arguments.targets.iter().find(|name| !all.contains(&name.as_str())) {
        bail!("there is no target {unknown:?}; there are {}", all.join(", "));
    }
    let wanted = |name: &&str| arguments.targets.is_empty() || arguments.targets.iter().any(|target| target == name);
    let mut broken = Vec::new();
    for (number, name) in all.iter().copied().filter(wanted).enumerate() {
        eprintln!("\n[{}] {name}, {} s", number + 1, arguments.seconds);
        if !fuzz(&repository, &place, name, arguments.seconds)? {
            broken.push(name);
        }
    }
    if broken.is_empty() {
        println!("fuzz: nothing broke");
        return Ok(ExitCode::SUCCESS);
    }
    println!("fuzz: FAILED: {}", broken.join(", "));
    println!("the inputs lie in {}: copy them into tests/fuzz/corpus/TARGET/", place.join("found").display());
    Ok(ExitCode::FAILURE)
}

fn build(repository: &Repository) -> Result<()> {
    let myself = std::env::current_exe().context("finding this program")?;
    let mut build = repository.cargo(["build", "--release", "--locked", "--features", "waybill-fuzz/libfuzzer"]);
    // With the packages of the binary, so that the dependencies get the features which they have there.
    build.args(["waybill", TRIALS, "waybill-fuzz"].map(|package| format!("--package={package}")));
    run_command(build.arg("--bin=fuzz").env("RUSTC_WORKSPACE_WRAPPER", myself).env(AS_COMPILER, "1"))
}

fn fuzzer(repository: &Repository) -> Command {
    Command::new(repository.target.join("release").join("fuzz"))
}

fn fuzz(repository: &Repository, place: &Path, name: &str, seconds: u32) -> Result<bool> {
    let corpus = place.join("corpus").join(name);
    let found: PathBuf = place.join("found").join(name);
    std::fs::create_dir_all(&found).with_context(|| format!("making {}", found.display()))?;
    let mut command = fuzzer(repository);
    command
        .env("WAYBILL_FUZZ_TARGET", name)
        .env_remove(SEEDS)
        .arg(corpus)
        .arg(format!("-max_total_time={seconds}"))
        .arg(format!("-max_len={INPUT_BYTES_MAX}"))
        .arg(format!("-rss_limit_mb={MEMORY_MIB_MAX}"))
        .arg(format!("-timeout={INPUT_SECONDS_MAX}"))
        .arg(format!("-artifact_prefix={}/", found.display()))
        .args(["-print_final_stats=1", "-verbosity=0"]);
    let status = command.status().with_context(|| format!("starting {}", shown(&command)))?;
    Ok(status.success())
}
