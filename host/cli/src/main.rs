//! The `waybill` binary: a shell over its library.

#![recursion_limit = "512"]

#[cfg(not(target_env = "msvc"))]
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

fn main() -> std::process::ExitCode {
    waybill_cli::main()
}
