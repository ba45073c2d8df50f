//! What operators use rather than programs: on other schedules, through the `larder` command and the console.

pub mod census;
pub mod export;
pub mod migrate;
pub(crate) mod moving;
pub mod probe;
pub mod statement;
pub mod text;
