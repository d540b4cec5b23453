//! Compiles a component for the tests of the sandbox, as the `waybill` binary does for a host.

fn main() -> std::process::ExitCode {
    waybill_sandbox::compile_component(std::env::args_os().skip(1))
}
