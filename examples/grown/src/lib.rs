//! The examples again, on schemas in which every entity and every type has one more field that may be missing.
//!
//! That they compile as they are is what is shown: a compatible change of a schema breaks no program.

#![expect(dead_code, reason = "it is compiled, not run")]

extern crate self as larder_examples;

#[path = "../../src/lib.rs"]
mod examples;
#[path = "../../src/bin/keiba.rs"]
mod keiba_program;
#[path = "../../src/bin/lunch.rs"]
mod lunch_program;
#[path = "../../src/bin/shops.rs"]
mod shops_program;
#[path = "../../src/bin/tdnet.rs"]
mod tdnet_program;
#[path = "../../src/bin/weather.rs"]
mod weather_program;

pub use examples::*;
