//! Attributes of Larder's own, which an item has beside those of its schema.

/// What they all begin with.
pub const MARK: &str = "larder_";
/// What an item holds that is part of a larger one. Its key may look like a key of an entity.
pub const CHUNK: &str = "larder_chunk";
/// Stands in the key of such a part, before its version and its number.
pub const CHUNK_KEY: &str = "#larder#";
/// Says how the rest of an item is kept.
pub const PARTS: &str = "larder_parts";
/// What of an item is kept compressed.
pub const PACKED: &str = "larder_packed";
/// No head says truly that it has more parts than this.
pub const CHUNKS_MAX: i64 = 4096;
/// An item with it stands for there being none.
pub const ABSENT: &str = "larder_absent";
/// The end of an item's freshness in Unix seconds, where the item outlives it.
pub const FRESH_UNTIL: &str = "larder_fresh_until";
/// Why work under a lease of a lifecycle failed last.
pub fn error_mark(lifecycle: &str) -> String {
    format!("{MARK}{lifecycle}_error")
}

/// The version of an item, where the schema says `versions on`.
pub const VERSION: &str = "larder_version";
