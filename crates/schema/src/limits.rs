//! What one schema may cost to read. Past a limit there is a diagnostic, never a crash.

/// Text of one file.
pub const FILE_BYTES_MAX: usize = 1024 * 1024;
/// Files of one schema, the first included.
pub const FILES_MAX: usize = 64;
/// Includes of includes.
pub const INCLUDE_DEPTH_MAX: usize = 16;
/// Brackets within brackets, in types and expressions.
pub const DEPTH_MAX: usize = 32;
/// Fields of one entity or type.
pub const FIELDS_MAX: usize = 1000;
/// Entities of one table.
pub const ENTITIES_MAX: usize = 300;
/// States of one lifecycle.
pub const STATES_MAX: usize = 100;
/// Diagnostics of one run; a file that is not a schema says so soon enough.
pub const DIAGNOSTICS_MAX: usize = 200;
/// Possible values of a partition key below which it is called hot.
pub const HOT_KEY_VALUES: u64 = 16;
