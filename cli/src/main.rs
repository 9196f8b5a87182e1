//! The command `callsign`.

fn main() -> std::process::ExitCode {
    callsign_cli::main()
}
