//! The `larder` binary.

use std::process::ExitCode;

use larder_heap::Heap;

#[global_allocator]
static HEAP: Heap = Heap::new();

fn main() -> ExitCode {
    larder_cli::main()
}
