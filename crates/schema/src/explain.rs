//! Every rule: its code, one line about it, and the longer text of `larder explain CODE`.
//!
//! Codes are stable: one that is no longer used is not given to another rule.

use crate::diagnostic::Severity;

#[derive(Clone, Copy, Debug)]
pub struct Rule {
    pub code: &'static str,
    pub severity: Severity,
    /// One line.
    pub title: &'static str,
    /// Why it is wrong and what to do.
    pub text: &'static str,
}

/// The rule of a code, `L0107` or `l0107`.
pub fn rule(code: &str) -> Option<&'static Rule> {
    RULES.iter().find(|rule| rule.code.eq_ignore_ascii_case(code))
}

/// The longer text of a code, as `larder explain` prints it.
pub fn explain(code: &str) -> Option<String> {
    let rule = rule(code)?;
    let kind = match rule.severity {
        Severity::Error => "error",
        Severity::Warning => "warning",
    };
    Some(format!("{}: {} ({kind})\n\n{}\n", rule.code, rule.title, rule.text))
}

const fn error(code: &'static str, title: &'static str, text: &'static str) -> Rule {
    Rule { code, severity: Severity::Error, title, text }
}

const fn warning(code: &'static str, title: &'static str, text: &'static str) -> Rule {
    Rule { code, severity: Severity::Warning, title, text }
}

/// All rules, by code.
pub const RULES: &[Rule] = &[
    error(
        "L0001",
        "a character that means nothing here",
        "The language is made of names, numbers, texts in straight double quotes and a few marks. A character outside\nof them, such as `;`, `#` or a curly quote, is refused rather than skipped, because it is usually a sign that\nsomething else was meant. A statement ends with its line, and comments begin with `//`.",
    ),
    error(
        "L0002",
        "a text that has no end",
        "A text begins and ends with `\"` on one line. To have a quote inside, write `\\\"`; for a line break, `\\n`.",
    ),
    error(
        "L0003",
        "something else was expected here",
        "The statement does not read. The message says what could stand at this place and what was found. A statement\nends with its line, unless the line ends in `,` `|` `{` or `[`.",
    ),
    error(
        "L0004",
        "a block is not closed, or closed twice",
        "Every `{` needs its `}`. The place shown is the brace without a partner; the missing one is often earlier than\nthe end of the file, where the indentation stops to fit.",
    ),
    error(
        "L0005",
        "the schema is too large or too deep",
        "A file has at most 1 MB, a schema at most 64 files, an expression at most 32 levels. Split a file with\n`include`; name a part of an expression with `let`.",
    ),
    error(
        "L0006",
        "not a number, duration, size or amount",
        "Durations are written `500ms`, `30s`, `5m`, `3h`, `7d`, `2w`; sizes `300B`, `2KB`, `15MB`, `1GB`, where a KB has\n1024 bytes as DynamoDB counts; shares `80%`; money `$0.0001`. Digits may be grouped: `1_000_000`.",
    ),
    error(
        "L0007",
        "a text or template that cannot be read",
        "In a text, `\\\" \\\\ \\{ \\} \\n \\t` are the escapes, and `{name}` or `{name:format}` is a hole. A hole holds the name\nof one field; for anything computed, give it a name with `let` first.",
    ),
    error(
        "L0008",
        "a file that cannot be included",
        "`include \"path\"` takes the statements of another file as if they stood here. The path is read relative to the\nschema. A file included twice is read once.",
    ),
    warning(
        "L0009",
        "a doc comment that documents nothing",
        "`///` documents the item below it: a table, an entity, a field, a state. At the end of a line or before a `}`\nit is lost; write `//` for a comment.",
    ),
    error(
        "L0101",
        "a key of the wrong shape",
        "A table's key names one attribute, or two parted by `/`. An entity gives a template or a field for each of\nthem. An index names attributes that are stored; to index something computed, write an equation and name it.",
    ),
    error(
        "L0102",
        "a table or entity without a key",
        "Every item needs a key. An entity either has `key \"…\"`, or fields called like the table's key attributes.",
    ),
    error(
        "L0103",
        "a key made of something that may be missing",
        "A key cannot be left out, so the fields in it must be required. An index key may be missing: then the item is\nnot in the index.",
    ),
    error(
        "L0104",
        "a format that does not fit its field",
        "`{n:02}` pads an int with zeros, `{x:.4f}` fixes the decimals of a number, `{d:%Y%m%d}` writes a date or an\ninstant with fields of fixed width, `{t:unix}` an instant in Unix seconds, `{u:fit}` shortens a text to the key\nlimit. Floats and decimals need a format because 1, 1.0 and 1e0 are the same number and must be the same key.",
    ),
    error(
        "L0105",
        "two entities whose keys could be the same",
        "Entities of one table are told apart by their keys alone. If some value of a field could make the key of one\nlook like the key of the other, one would overwrite the other. Begin the templates with different words, or\ndiffer in the sort key.",
    ),
    error(
        "L0106",
        "a secret in a key",
        "Keys are logged, shown in errors, sent to metrics and seen in consoles. A field marked `secret` therefore cannot\nstand in the key of a table or index, nor flow into one through an equation. `sha256(secret)` may.",
    ),
    error(
        "L0107",
        "a key that cannot be read back",
        "Larder reads the fields of an item out of its key: for the console, for invalidating families of keys, for\ninputs that are stored nowhere else. That needs one reading per key. Two holes must be parted by a character\nthat the first cannot contain, or one of them must have a fixed length: `{week:02}` of an `int in 1..=53`, a\n`match /[0-9]{4}/`, an instant, a date. At most one hole of a template may hold anything.",
    ),
    warning(
        "L0108",
        "a key that can be longer than a key may be",
        "A sort key has at most 1024 bytes, a partition key 2048. A URL can be longer, and then the write fails. A hole\n`{url:fit}` at the end of a template keeps keys within the limit: what is too long ends in a digest, and the\nvalue itself is read from the item. A plain `string` is not warned about; a value that is too long is refused\nwhen it is written. Bound it with `len` to be told earlier.",
    ),
    error(
        "L0109",
        "a misplaced `fit`",
        "`fit` ends a key in a digest when it would be too long. The hole must be the last part of its template, the\ntemplate must be a key, and the field must be stored, because a digest does not give it back.",
    ),
    error(
        "L0110",
        "a key that can be empty",
        "DynamoDB refuses an empty string as a key. Add `nonempty` or `len 1..` to the field, or text to the template.",
    ),
    error(
        "L0111",
        "a key of a type that keys cannot have",
        "Keys are strings, numbers or bytes, and one attribute has one type in all items of a table. Lists, maps,\nbooleans and documents cannot be keys; write a template that makes a text of them.",
    ),
    error(
        "L0201",
        "a name nobody has",
        "The name is not declared: a type, source, param, field, state, entity or table. Often it is a slip of the pen;\nthe closest known name is then suggested.",
    ),
    error(
        "L0202",
        "the same thing twice",
        "Names are unique: entities, types and collections within the schema, fields and lifecycles within an entity,\nstates within a lifecycle. A setting is said once.",
    ),
    error(
        "L0203",
        "an attribute with two meanings",
        "An item has one value per attribute. The key, the TTL, a lifecycle's state and its lease (`crawl_owner`,\n`crawl_until`, `crawl_fence`, `crawl_attempts`) are written by Larder, as is everything that begins with\n`larder_`. A field stored under such a name would overwrite it. Rename it, or store it elsewhere with `as`.",
    ),
    error(
        "L0204",
        "no system, or two",
        "A schema describes one system: `system NAME` stands once, usually in the first line.",
    ),
    error(
        "L0205",
        "a setting, check or block that does not exist here",
        "Each place has its own settings; docs/language.md lists them. A word without a value may also be a field whose\n`:` was forgotten.",
    ),
    error(
        "L0206",
        "a setting that cannot have this value",
        "The help shows what may follow the word. Words in capitals stand for values: DURATION is `7d`, SIZE is `2KB`,\nPERCENT is `80%`, MONEY is `$5`, N a whole number; what stands in square brackets may be left out.",
    ),
    error(
        "L0301",
        "types that do not fit together",
        "An equation must have the type its field declares, comparisons are between values of one kind, and each function\nis for certain types. Numbers compare with numbers, texts with texts, moments with moments.",
    ),
    error(
        "L0302",
        "a default that is not a value of its field",
        "A default is written into new items, so it must have the field's type and pass the field's checks.",
    ),
    error(
        "L0303",
        "a range that holds nothing or does not fit",
        "A range goes from the smaller number to the larger: `1..=53` with its end, `0..100` without, `0..` open. Its ends\nhave the type of the field.",
    ),
    error(
        "L0304",
        "a check that is not for this type",
        "`match`, `lower`, `upper` are for strings; `len`, `nonempty` for strings, lists and bytes; `in`, `positive` for\nnumbers.",
    ),
    error(
        "L0305",
        "not a regular expression",
        "A pattern stands between slashes after `match` and is matched against the whole value, so `^` and `$` are not\nneeded. A slash inside is written `\\/`.",
    ),
    error(
        "L0306",
        "a type that contains itself",
        "A required field that leads back to its own type would make a value without end. Through `?` or a list it can\nend.",
    ),
    error(
        "L0307",
        "a param of the wrong type",
        "Params are `string`, `int`, `bool` or `duration`; the default has that type; `in hours` says what a bare number in\nthe environment counts, and is for durations.",
    ),
    error(
        "L0308",
        "an environment value that does not fit",
        "The variable is set to something its param cannot be. Change it, or unset it to use the default.",
    ),
    error(
        "L0309",
        "a function that does not exist, or is called differently",
        "The functions are `floor(1h)`, `in(\"Asia/Tokyo\")`, `len()`, `lower()`, `host()`, `psl_core()`, `sha256(…)`,\n`iso_week()`, `iso_year()`. They are few on purpose: a schema says what is kept, programs say the rest.",
    ),
    error(
        "L0310",
        "an unknown time zone",
        "Zones are named as in the IANA database, `Asia/Tokyo`. The database is built in; nothing is read from the machine.",
    ),
    error(
        "L0401",
        "an equation that needs itself",
        "Equations are worked out in the order of what they need. Where the need goes round there is no first.",
    ),
    error(
        "L0402",
        "an equation that a partial update could break",
        "Equations hold after every write. When an update changes one source of an equation, the others are read from the\nitem. An `input` is not in the item unless a stored template or the key gives it back, so an equation over a\nstored field and such an input could not be worked out again. Store the input, or put it in a template.\nAn equation over inputs alone is fine: they are given together or not at all.",
    ),
    error(
        "L0403",
        "a field that is given and computed, or has no place here",
        "A field is given (`a: int`, `input a: int`) or computed (`a = …`, `let a = …`). Types hold plain values only. A\nstored name is for what is stored.",
    ),
    error(
        "L0404",
        "a validity that cannot be counted",
        "`valid 7d from completed_at` hides a field from readers once that moment is so long ago. The field must be\noptional, which a set never is, and the other a stored instant.",
    ),
    error(
        "L0501",
        "a TTL without an attribute to keep it",
        "An entity with a `ttl` needs a table with `ttl ATTRIBUTE`: the attribute that says, in Unix seconds, when the item\nends.",
    ),
    warning(
        "L0502",
        "a TTL attribute that nothing fills",
        "The table declares a TTL attribute, and no entity has a `ttl`, so nothing ever expires.",
    ),
    error(
        "L0503",
        "an index key that is not always of its type",
        "DynamoDB refuses an item whose index key has another type than declared, or is empty. An attribute that may be\nmissing is fine: the item then stays out of the index. Two entities may fill the same index only with the same\ntype.",
    ),
    warning(
        "L0504",
        "a hot index key",
        "All items with one partition value are in one partition, which serves about 1000 writes and 3000 reads a second.\nA key with four states has four partitions, however large the table grows. Begin the key with something that\nvaries, or end the index line with `hot` to say that it is known and enough.",
    ),
    warning(
        "L0505",
        "an index that nothing is in",
        "No entity of the table has all attributes of the index key, so the index stays empty and costs its upkeep.",
    ),
    warning(
        "L0506",
        "an index that repeats another",
        "Two indexes with one key answer the same questions, and each costs a write for every write.",
    ),
    warning(
        "L0507",
        "a scan on a hot path",
        "`scan allow` lets a program read the whole table to find a few items. On an entity that is read on every request,\nor in a system with millions of reads, that is slow and dear. `scan ask` shows items, capacity and price first.",
    ),
    warning(
        "L0508",
        "a secret in a cached value",
        "What is cached is copied: into the store, into the memory of processes. A field marked `secret` is better kept out\nof values that come from a source or are kept in L1.",
    ),
    warning(
        "L0509",
        "a field that sounds like a secret",
        "Fields called `password`, `api_key`, `token` and the like are logged and shown unless they are marked `secret`.",
    ),
    error(
        "L0510",
        "more than DynamoDB allows",
        "A table has at most 20 indexes, an index key at most four attributes on each side.",
    ),
    error(
        "L0511",
        "a name DynamoDB does not allow",
        "Tables and indexes are called by 3 to 255 characters of a-z, A-Z, 0-9, `_`, `.` and `-`.",
    ),
    warning(
        "L0512",
        "a timeout shorter than the call",
        "`latency` says how long a call of the source takes, `timeout` when it is given up. With a timeout below the longest\ncall, calls fail that would have been answered. Make it longer, or correct what `latency` says.",
    ),
    warning(
        "L0513",
        "a table that holds nothing",
        "The table would be made, and no program could put anything into it.",
    ),
    error(
        "L0601",
        "a state nothing reaches",
        "Items begin in the first state. A state that no transition leads to from there is never seen.",
    ),
    error(
        "L0602",
        "a lease without an owner",
        "A lease belongs to whoever made the transition into its state. The first state has no such transition, so a lease\nthere would belong to nobody. An `owner` field is an optional, stored text.",
    ),
    error(
        "L0603",
        "a leased state with no way out",
        "Work that can never be finished runs out, is taken again, and so on. Add the transition that ends it.",
    ),
    error(
        "L0604",
        "two states that could be written the same",
        "The state is read from what is written, so two states need different words.",
    ),
    error(
        "L0605",
        "a transition that sets what cannot be set",
        "Computed fields follow from others, and a key never changes. Set what they are computed from.",
    ),
    error(
        "L0606",
        "a state that would be written incomplete",
        "A state kept in an index key is written with the fields of its template. If one could be missing when the state is\nentered, the attribute would be left out and the item would vanish from the index. Set it in the transition.",
    ),
    error(
        "L0607",
        "a due time without a moment to count from",
        "`due 2d` finds items by the moment in the state's index key. Give the state a template with an instant.",
    ),
    error(
        "L0701",
        "a collection that is not in one partition",
        "A collection is written in one transaction and read in one query, and a query reads one partition.",
    ),
    error(
        "L0702",
        "an action nobody can be granted",
        "Grants are made of `get put update delete query scan batch describe stream`.",
    ),
    warning(
        "L0703",
        "a grant that lacks what the layer calls",
        "The layer writes many records by BatchWriteItem, reads many by BatchGetItem and changes one by UpdateItem. A program that may\n`put` and not `update` or `batch` is refused by IAM when it does, and no test on another store shows it. `batch` allows only\nbatches of what may be done one by one. Keep the grant as it is if the program makes none of these calls.",
    ),
];
