//! DynamoDB's limits, named once.

/// Significant digits of a number.
pub const NUMBER_DIGITS_MAX: u32 = 38;
/// Names and values of one item.
pub const ITEM_BYTES_MAX: usize = 400 * 1024;
pub const PARTITION_KEY_BYTES_MAX: usize = 2048;
pub const SORT_KEY_BYTES_MAX: usize = 1024;
/// Levels of lists and maps in a value, counting the scalar within.
pub const NESTING_DEPTH_MAX: usize = 32;
pub const ATTRIBUTE_NAME_BYTES_MAX: usize = 65535;
/// The name of a key attribute.
pub const KEY_NAME_BYTES_MAX: usize = 255;

/// Text of one expression.
pub const EXPRESSION_BYTES_MAX: usize = 4096;
/// Operators and functions in one expression.
pub const EXPRESSION_OPERATORS_MAX: usize = 300;
/// Operands of `IN`.
pub const IN_OPERANDS_MAX: usize = 100;
/// Text of one PartiQL statement, in characters.
pub const STATEMENT_CHARS_MAX: usize = 8192;
/// Brackets within brackets in one statement. What DynamoDB allows is not documented.
pub const STATEMENT_DEPTH_MAX: usize = 100;
/// Values of the partition key that one statement reads.
pub const IN_PARTITIONS_MAX: usize = 50;
pub const BATCH_STATEMENTS_MAX: usize = 25;
pub const NEXT_TOKEN_CHARS_MAX: usize = 32768;
/// Placeholder names such as `#name` and `:value`.
pub const PLACEHOLDER_BYTES_MAX: usize = 255;
/// All substitution values of a request.
pub const EXPRESSION_VALUES_BYTES_MAX: usize = 2 * 1024 * 1024;

/// What one page of a query or scan reads.
pub const PAGE_BYTES_MAX: usize = 1024 * 1024;
pub const SEGMENTS_MAX: u32 = 1_000_000;

pub const BATCH_GET_KEYS_MAX: usize = 100;
pub const BATCH_WRITE_ITEMS_MAX: usize = 25;
pub const BATCH_BYTES_MAX: usize = 16 * 1024 * 1024;
pub const TRANSACTION_ITEMS_MAX: usize = 100;
pub const TRANSACTION_BYTES_MAX: usize = 4 * 1024 * 1024;
/// How long nobody else can switch a table's expiry after somebody did.
pub const EXPIRY_SWITCH_SECONDS: i64 = 60 * 60;
/// How long a transaction's token is remembered.
pub const IDEMPOTENCY_SECONDS: i64 = 10 * 60;

/// What one page of a stream holds.
pub const STREAM_PAGE_RECORDS_MAX: usize = 1000;
pub const STREAM_PAGE_BYTES_MAX: usize = 1024 * 1024;

pub const REQUEST_BODY_BYTES_MAX: usize = 16 * 1024 * 1024;
/// What the values of a request may take in memory once they are read. DynamoDB has no such limit: a body of sixteen
/// megabytes can hold a million lists of one value each.
pub const REQUEST_MEMORY_BYTES_MAX: usize = 64 * 1024 * 1024;

/// The name of a region.
pub const REGION_MAX: usize = 64;
pub const TABLE_NAME_MIN: usize = 3;
pub const TABLE_NAME_MAX: usize = 255;
pub const LOCAL_INDEXES_MAX: usize = 5;
pub const GLOBAL_INDEXES_MAX: usize = 20;
/// Partition attributes, or sort attributes, of a global index key.
pub const INDEX_KEY_ATTRIBUTES_MAX: usize = 4;
/// Non-key attributes projected into all indexes of a table by name.
pub const PROJECTED_NAMES_MAX: usize = 100;
pub const TAGS_MAX: usize = 50;

/// A TTL further back than this is taken for a mistake.
pub const TTL_PAST_SECONDS_MAX: i64 = 5 * 365 * 24 * 60 * 60;

/// What one read unit reads, strongly consistent.
pub const READ_UNIT_BYTES: usize = 4096;
/// What one write unit writes.
pub const WRITE_UNIT_BYTES: usize = 1024;
