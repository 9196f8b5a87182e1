//! The command `callsign`.

/// Messages are made by one thread and freed by another, which the system's allocator does slowly.
#[cfg(all(feature = "mimalloc", not(target_env = "musl")))]
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> std::process::ExitCode {
    callsign_cli::main()
}
