//! Prints the known differences as Markdown, for COMPATIBILITY.md.

use larder_conformance::differences;

fn main() {
    print!("{}", differences::markdown());
}
