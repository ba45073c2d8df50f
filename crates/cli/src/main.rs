//! The `larder` binary.

use std::process::ExitCode;

fn main() -> ExitCode {
    larder_cli::main()
}
