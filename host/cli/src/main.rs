//! The `waybill` binary: a shell over its library.

#![recursion_limit = "512"]

fn main() -> std::process::ExitCode {
    waybill_cli::main()
}
