//! What can go wrong while programs run: its names, why it happens, what to do.
//!
//! The names are those that a program sees: the code of an answer of the endpoint, the variant of an error in Rust, the class of an exception in
//! Python and TypeScript. One cause stands here once, under all its names.

/// Something that goes wrong at run time.
#[derive(Debug)]
pub(super) struct Fault {
    /// The first is the one that lists show.
    pub(super) names: &'static [&'static str],
    /// One line.
    pub(super) title: &'static str,
    pub(super) cause: &'static str,
    pub(super) next: &'static str,
}

impl Fault {
    /// What `larder explain NAME` prints.
    pub(super) fn text(&self) -> String {
        let Self { names, title, cause, next } = self;
        let also = match names {
            [_, others @ ..] if !others.is_empty() => format!("Also: {}\n\n", others.join(", ")),
            _ => String::new(),
        };
        format!("{}: {title}\n\n{also}{cause}\n\nNext: {next}\n", names[0])
    }
}

/// The fault of a name, however a language writes it: `LeaseLostError`, `Error::LeaseLost` and `lease_lost` are one.
pub(super) fn fault(name: &str) -> Option<&'static Fault> {
    FAULTS.iter().find(|fault| fault.names.iter().any(|known| plain(known) == plain(name)))
}

/// A name without what languages put around it.
fn plain(name: &str) -> String {
    let last = name.rsplit(['#', ':', '.']).next().unwrap_or(name);
    let word: String = last.chars().filter(char::is_ascii_alphanumeric).collect();
    let word = word.to_ascii_lowercase();
    let bare = word.strip_suffix("exception").or_else(|| word.strip_suffix("error")).unwrap_or(&word);
    bare.to_owned()
}

/// All of them, each cause once.
pub(super) static FAULTS: &[Fault] = &[
    // What the endpoint answers, by its code.
    Fault {
        names: &["ValidationException", "ValidationError"],
        title: "a request that is not allowed to be what it is",
        cause: "The message says which part: an expression, a key, a limit. `The item is not what the schema allows in …` is the guard of\n`larder serve --schema`: the item breaks the schema of its table, and the message lists every fault with its field, its rule and the\nline of the schema. In a transaction it is the reason of the item. Nothing was written.",
        next: "repair what writes the item. `larder serve --schema-mode report` lets it through and counts it meanwhile; `larder check --data`\nfinds what is stored already. The rules are in docs/guides/guard.md.",
    },
    Fault {
        names: &["ConditionalCheckFailedException", "Condition"],
        title: "the condition of a write does not hold",
        cause: "The item is not as the condition wants it: it is there already, it is gone, or somebody has changed it. That is an answer, not a\nfailure. Nothing was written.",
        next: "read the item again and decide. `ReturnValuesOnConditionCheckFailure: ALL_OLD` returns what is there.",
    },
    Fault {
        names: &["ThrottlingException", "ThrottlingError", "Throttled", "Busy"],
        title: "more is asked than can be done at once",
        cause: "From `larder serve`: requests in flight take all the memory they may (`--memory-limit`), or over 256 MiB of writes wait for the disk; or, with\n`--throttle`, a table, an index or one partition key has no units left, and `ThrottlingReasons` says which. From AWS: the last. The SDK has\ntried again several times before it told you.",
        next: "wait and try again. If it stays: the log of the server and `larder_requests_turned_away_total` say which limit it is; raise that one, or spread\na key that is hot. In the layer `is_transient()` is true, and an entity with `on_error open` asks its source.",
    },
    Fault {
        names: &["ProvisionedThroughputExceededException", "RequestLimitExceeded"],
        title: "a table, an index or a key has no capacity left",
        cause: "Throughput is enforced, by AWS or by `larder serve --throttle`, and what is provisioned, or what a partition serves (3000 reads and 1000\nwrites a second), is used up.",
        next: "`larder cost SYSTEM` compares on demand with provisioned. A single hot key needs another key: begin it with something that varies\n(`larder explain L0504`).",
    },
    Fault {
        names: &["ResourceNotFoundException", "TableNotFoundException", "NoTable"],
        title: "there is no such table, index or stream",
        cause: "The table is not in this store, in this region or in this account. On DynamoDB a program does not make its tables. A schema of `version 2`\nhas tables of other names (`…-v2`). With `--access`, each region of each account has tables of its own.",
        next: "`larder plan --store STORE` shows what is missing, `larder apply` makes it; `larder doctor` compares names and regions.",
    },
    Fault {
        names: &["ResourceInUseException", "TableAlreadyExistsException", "TableInUseException"],
        title: "the table is there already, or something is being done with it",
        cause: "A table of that name exists, or is being created, changed or deleted.",
        next: "`larder apply` takes over a table that fits its schema and waits for one that is busy. Otherwise wait until DescribeTable says `ACTIVE`.",
    },
    Fault {
        names: &["LimitExceededException"],
        title: "more than DynamoDB allows at a time",
        cause: "Two changes of indexes in one UpdateTable, a second change of TTL within the hour, too many tables being made at once.",
        next: "do one after the other. `larder apply` makes such changes in steps.",
    },
    Fault {
        names: &["TransactionCanceledException"],
        title: "a transaction did not happen",
        cause: "One of its items could not be written, so none was. `CancellationReasons` has one entry for each item, in order; those with `None` were not in\nthe way. ConditionalCheckFailed, ValidationError, DuplicateItem, ThrottlingError and ProvisionedThroughputExceeded are the others.",
        next: "look at the first reason that is not `None`: `larder explain` knows its code.",
    },
    Fault {
        names: &["TransactionConflictException", "TransactionInProgressException", "TransactionConflict"],
        title: "another transaction has an item at this moment",
        cause: "AWS lets one of two transactions fail that meet at an item. Larder's store lets them wait for each other and never answers so.",
        next: "try again. The layer does by itself.",
    },
    Fault {
        names: &["IdempotentParameterMismatchException"],
        title: "one token, two different transactions",
        cause: "A `ClientRequestToken` was used again within ten minutes for another request.",
        next: "give each transaction a token of its own, and repeat one only as it was.",
    },
    Fault {
        names: &["DuplicateItemException", "DuplicateItem"],
        title: "an INSERT met an item",
        cause: "PartiQL's INSERT never overwrites, and the key is taken.",
        next: "UPDATE it, or put it with `PutItem`.",
    },
    Fault {
        names: &["SerializationException"],
        title: "the body is not the JSON that the operation takes",
        cause: "A member has another type: a number where a text belongs (numbers are `{\"N\": \"7\"}`), a list where a map belongs. SDKs do not do this;\nrequests written by hand do.",
        next: "compare the body with what an SDK sends.",
    },
    Fault {
        names: &["UnknownOperationException"],
        title: "no such operation here",
        cause: "The `X-Amz-Target` names an operation that is not DynamoDB's, or one that Larder does not have, such as those of global tables.",
        next: "COMPATIBILITY.md has the list, and what to use instead.",
    },
    Fault {
        names: &["ExpiredIteratorException", "TrimmedDataAccessException"],
        title: "a place in a stream that is over",
        cause: "A shard iterator lasts 15 minutes, a record of a stream 24 hours.",
        next: "ask for a new iterator: after the last sequence number that was read, or `TRIM_HORIZON` where that is gone.",
    },
    Fault {
        names: &[
            "ContinuousBackupsUnavailableException",
            "PointInTimeRecoveryUnavailableException",
            "InvalidRestoreTimeException",
        ],
        title: "a moment that a table cannot be restored to",
        cause: "Recovery is not switched on, or the moment is before its window, after now, or one at which the clock of the store was set.",
        next: "DescribeContinuousBackups says the window; `pitr on` in the schema and `larder apply` switch recovery on. Before the window, a backup helps:\ndocs/guides/backups.md.",
    },
    Fault {
        names: &["BackupNotFoundException", "BackupInUseException"],
        title: "a backup that is not there, or not done",
        cause: "No backup has that ARN, or it is being made or restored.",
        next: "`larder backup --list` shows those of a store.",
    },
    Fault {
        names: &["ExportNotFoundException", "ImportNotFoundException"],
        title: "an export or import that is not there",
        cause: "None has that ARN, or it ended more than 90 days ago.",
        next: "ListExports and ListImports name those that are remembered.",
    },
    Fault {
        names: &["ExportConflictException", "InvalidExportTimeException"],
        title: "an export that cannot be made as it was asked for",
        cause: "The token was used for another export, or the moment is before the window of recovery, after now, or not in order.",
        next: "Ask with a token of its own; DescribeContinuousBackups says the window, and an incremental export covers 15 minutes to 24 hours.",
    },
    Fault {
        names: &["AccessDeniedException", "AccessDenied"],
        title: "known, and not allowed to",
        cause: "The server looks at keys (`--access`), or it is AWS, and no policy allows this action on this resource, or one denies it. A request whose host\nor web page was not declared (`--allow-host`, `--allow-origin`) is refused with the same code and status 403.",
        next: "`larder access explain NAME ACTION TABLE` names the statement that decides; `larder export iam SYSTEM` writes the policy that a program of the\nschema needs. docs/network.md has the rest.",
    },
    Fault {
        names: &["UnrecognizedClientException", "ExpiredTokenException"],
        title: "nobody has this access key",
        cause: "The key is not in the access file of the server, or the session that was made of it is over. Or the program signs with a key for AWS.",
        next: "`larder access list` shows who there is, `larder access add NAME` makes a key and prints the profile to paste. `larder doctor` says which\ncredentials a program sees.",
    },
    Fault {
        names: &[
            "InvalidSignatureException",
            "IncompleteSignatureException",
            "MissingAuthenticationTokenException",
        ],
        title: "a signature that is missing or wrong",
        cause: "The secret is not that of the key, the clock of the client is more than fifteen minutes off, something between client and server changed the\nrequest, or nothing was signed.",
        next: "compare the secret and the clock: `larder doctor` looks at both. A proxy has to leave the `Host` header as it is.",
    },
    Fault {
        names: &["PolicyNotFoundException"],
        title: "the table has no such policy",
        cause: "There is no resource policy, or none of the revision that was expected.",
        next: "read it with GetResourcePolicy first.",
    },
    Fault {
        names: &["InternalServerError", "ServiceUnavailable"],
        title: "the server failed, not the request",
        cause: "The disk failed or is full, or what was asked for is damaged. The cause is in the log of the server, never in the answer. A write may or may not\nhave happened.",
        next: "read the log. `GET /readyz` says whether the store works, `larder explain Damaged` and `larder explain Full` what to do then.",
    },
    // The store and its files.
    Fault {
        names: &["InUse"],
        title: "the store is in use",
        cause: "One process at a time has the directory of a store, and another has it now; the message names it. Commands wait ten seconds for it, and go\nthrough `larder serve` where that has it.",
        next: "stop the other, let both go through one `larder serve` (`--store dynamodb:http://127.0.0.1:8000`), or choose another directory.",
    },
    Fault {
        names: &["Newer"],
        title: "a file of a newer Larder",
        cause: "The store, backup or archive has a format that this version does not know. It was not touched.",
        next: "open it with the Larder that the message names; `larder upgrade --check` says it of a store and its backups. There is no way back to an older\nformat but `larder dump` there and `larder load` here. docs/stability.md has the formats.",
    },
    Fault {
        names: &["Early"],
        title: "a file of an earlier format, opened for reading",
        cause: "It becomes one of today's format when it is opened for writing, and this was to read it alone.",
        next: "take a copy, then open it once for writing, as `larder serve` does. An older Larder cannot open it after that.",
    },
    Fault {
        names: &["Damaged", "Unreadable"],
        title: "the file of the store is damaged",
        cause: "Bytes that came from the disk are not those that were written; the message names what they were. Everything else goes on.",
        next: "`larder verify --store DIR` says what is affected, `larder salvage DIR --to NEW` brings out all that is whole, `larder restore --from BACKUPS`\nthe rest. docs/guides/damage.md has the order of things.",
    },
    Fault {
        names: &["Gone"],
        title: "nothing of the file can be read",
        cause: "Its header and the copy of it are lost, it is empty, or it was cut short.",
        next: "`larder restore --from BACKUPS --to NEW` makes a store of a backup or an archive.",
    },
    Fault {
        names: &["Foreign"],
        title: "a directory that is none of Larder's",
        cause: "There is a file called `larder.redb` in it that Larder did not write.",
        next: "name another directory with `--store` or LARDER_STORE.",
    },
    Fault {
        names: &["Full"],
        title: "the disk is full",
        cause: "Only deletes are taken, from a reserve that is held back for them. Reads go on.",
        next: "make room on the disk, or delete items; writes go on by themselves.",
    },
    Fault {
        names: &["Io"],
        title: "the disk failed",
        cause: "A read or write of the file ended with an error of the operating system, which the message has.",
        next: "look at the disk and its log. The store goes on by itself once the disk does; `GET /readyz` says when.",
    },
    Fault {
        names: &["Unknown", "Failed", "Lost", "Unanswered"],
        title: "a write that may not have happened",
        cause: "`Failed` and `Lost` were not made. With `Unknown` and `Unanswered` nobody knows: the disk or the connection failed between the write and its\nanswer.",
        next: "read again, and repeat it if it is not there. Writes with a condition or a `ClientRequestToken` can be repeated safely.",
    },
    Fault {
        names: &["Sealed", "NoKey", "OpenKey", "WrongKey", "NotSealed"],
        title: "the key of an encrypted store",
        cause: "The store is encrypted and no key was given, or another one, or one that others may read; or a key was given for a store that is not encrypted.",
        next: "name its file: `--key-file` or LARDER_KEY_FILE, with `chmod 600`. A store that is not encrypted becomes one by `larder dump` and `larder load`\ninto a new directory. Without the key nothing can be read.",
    },
    Fault {
        names: &["Expired", "Closed", "ReadOnly"],
        title: "a store that was closed, or opened for reading",
        cause: "A snapshot ends when its store recovers from a failure of the disk or is closed; a store that was opened to look at takes no writes.",
        next: "open the store again, and read again.",
    },
    Fault {
        names: &["Backup"],
        title: "a backup or archive that cannot be used",
        cause: "A file in the directory is missing, damaged, of another key or of a later format; the message names it.",
        next: "`larder backup --to DIR --verify` reads all of it and says which backups are whole.",
    },
    Fault {
        names: &["Unreachable"],
        title: "nobody answers at the address",
        cause: "The server is not running, listens elsewhere, speaks TLS where `http:` was said, or has a certificate that this machine does not trust. For\n`dynamodb:` no region may be set.",
        next: "`larder doctor --store STORE` goes from the address to a write and says where it stops. The request was not carried out.",
    },
    Fault {
        names: &["Address"],
        title: "a text that names no store",
        cause: "A store is a directory, `memory:`, `dynamodb:` or `dynamodb:http://HOST:PORT`.",
        next: "correct `--store` or LARDER_STORE.",
    },
    Fault {
        names: &["Unsupported", "Refused", "Description", "Stuck", "Store", "Engine"],
        title: "the store refused",
        cause: "It answered, and would answer the same again: an operation that it does not have, a request that it does not allow, a table in a state that does\nnot pass. The message holds what it said, in brackets its code.",
        next: "`larder explain CODE` for that code; `larder doctor` looks at the tables. docs/guides/to-aws.md lists what differs from store to store.",
    },
    // The layer.
    Fault {
        names: &["Invalid"],
        title: "a record that breaks its schema",
        cause: "Every fault is listed: the field, what must hold, what it is. Nothing was written.",
        next: "correct the fields, or the schema. In code, `violations` has path, rule and value of each.",
    },
    Fault {
        names: &["Exists"],
        title: "the key is taken",
        cause: "`create` never overwrites.",
        next: "`put` overwrites, `update` changes; for numbers that count up declare a `sequence`.",
    },
    Fault {
        names: &["Missing"],
        title: "there is nothing to change, or no store",
        cause: "Of a record: `update` or a transition found none. Of a directory: it holds no store, and this command does not make one.",
        next: "`create` or `put` the record first; `larder apply` makes a store, `--store` names another.",
    },
    Fault {
        names: &["Conflict"],
        title: "somebody else was faster",
        cause: "The record was changed between reading and writing it, or it has a newer version (`versions on`). Nothing was written.",
        next: "read it again, make the change again, write it. `update` does so by itself where it can.",
    },
    Fault {
        names: &["State"],
        title: "a transition that does not start here",
        cause: "The record is in another state than the transition starts from; the message has both.",
        next: "read the state first; `larder due` and `larder stuck` list who is where.",
    },
    Fault {
        names: &["LeaseLost"],
        title: "the lease is somebody else's now",
        cause: "It was not renewed in time: the process was stopped, or cut off from the store. Another worker may have the record.",
        next: "drop the work; it is taken up again. If it happens to workers that are well, make the `lease` longer than the longest pause.",
    },
    Fault {
        names: &["Absent"],
        title: "the source has no such thing",
        cause: "The loader said so (`Ok(None)`, `None`, `undefined`), or it did within the time of `negative`.",
        next: "that is an answer. `forget` the key, or `larder invalidate` it, to ask again at once.",
    },
    Fault {
        names: &["Source"],
        title: "the source failed, and nothing was kept",
        cause: "The loader failed, was too slow (`timeout`), or is left alone after failing too often (`breaker`); no value is kept whose `grace` lasts.",
        next: "the cause is the loader's own error (`loader_error`). `grace 1d` in the entity gives the old value next time.",
    },
    Fault {
        names: &["Down"],
        title: "neither the store nor the source answered",
        cause: "Both failed, and the error names both causes.",
        next: "look at each: the one of the store is an error of this list.",
    },
    Fault {
        names: &["TooLarge"],
        title: "larger than an item may be",
        cause: "An item has 400 KB at most, and the schema says `oversize refuse`, or nothing. A batch has a limit, too.",
        next: "`oversize split` keeps it in several items, `compress over 10KB` packs it, `oversize skip` gives it without keeping it.",
    },
    Fault {
        names: &["QueueFull"],
        title: "too much waits to be written behind",
        cause: "The store is slower than what is put, or away.",
        next: "`drain` before going on, a larger `queue`, or `writes through`.",
    },
    Fault {
        names: &["Corrupt"],
        title: "what is stored cannot be read",
        cause: "Of a record: the item is not what the schema says, because another program wrote it or the schema has changed. Of a value at a key: its bytes\nare damaged, see `larder explain Damaged`.",
        next: "`larder check --data` finds all such items, `--fix` repairs what can be derived; `larder serve --schema` keeps new ones out.",
    },
    Fault {
        names: &["Key", "KeyField", "Record"],
        title: "a key or record that cannot be made of what was given",
        cause: "A field that the key needs is missing or breaks its format, or something that is not in the record has to be there to write it.",
        next: "give the field that the message names; `larder docs SYSTEM` shows how each key is made.",
    },
    Fault {
        names: &["Environment", "EnvironmentVariable"],
        title: "a variable that does not fit its param",
        cause: "A `param … from NAME` of the schema reads NAME, and its value is not of the param's type.",
        next: "correct the variable, or unset it to use the default.",
    },
    Fault {
        names: &["Cursor"],
        title: "not a cursor of this query",
        cause: "A cursor belongs to the query, its index and its direction; this one is another's or was changed on its way.",
        next: "start without one.",
    },
    Fault {
        names: &["Cancelled"],
        title: "a transaction of the layer did not happen",
        cause: "Something was in its way, and nothing was written. The error lists what: the step, the entity, the key, the cause.",
        next: "remove what was in the way, and run it again.",
    },
    Fault {
        names: &["NotAllowed"],
        title: "the schema does not allow it",
        cause: "Such as a scan where the entity says `scan deny`.",
        next: "the message names the word that would allow it. Think of the price first: `larder explain L0507`.",
    },
    Fault {
        names: &["Schema"],
        title: "a schema with errors",
        cause: "`larder.open` in Python or `open` in TypeScript was given a file that does not pass its checks.",
        next: "`larder check FILE` shows each with its place; `larder explain CODE` tells more.",
    },
    Fault {
        names: &["Many"],
        title: "several records of one call failed",
        cause: "Of `put_many` and its like in Python, each record has an outcome of its own; the error holds all that failed.",
        next: "look at each; the others are written.",
    },
    Fault {
        names: &["Forked"],
        title: "a store that was opened before a fork",
        cause: "Its threads are not in the child (Python).",
        next: "open it in the child: in the worker of a server that forks; `multiprocessing` with `spawn`.",
    },
];

#[cfg(test)]
mod tests {
    use super::*;

    /// The codes and variants of every error that reaches a program.
    const SOURCES: [&str; 6] = [
        include_str!("../../../../model/src/error.rs"),
        include_str!("../../../../auth/src/error.rs"),
        include_str!("../../../../storage/src/error.rs"),
        include_str!("../../../../larder/src/error.rs"),
        include_str!("../../../../larder/src/store.rs"),
        include_str!("../../../../python/python/larder/_errors.py"),
    ];

    /// What stands between quotes and is a code of the wire.
    fn codes(source: &str) -> Vec<&str> {
        let quoted = source.split('"').skip(1).step_by(2);
        quoted.filter(|text| text.ends_with("Exception") || *text == "InternalServerError").collect()
    }

    /// The variants of the enums called `Error`.
    fn variants(source: &str) -> Vec<&str> {
        let body =
            source.split("pub enum Error {").nth(1).and_then(|rest| rest.split("\n}\n").next()).unwrap_or("");
        let lines = body.lines().filter(|line| {
            line.starts_with("    ") && line.as_bytes().get(4).is_some_and(u8::is_ascii_uppercase)
        });
        lines.filter_map(|line| line.trim().split([' ', '(', ',']).next()).collect()
    }

    /// The classes of a Python module, without the one that all are.
    fn classes(source: &str) -> Vec<&str> {
        let lines =
            source.lines().filter_map(|line| line.strip_prefix("class ")?.strip_suffix("(LarderError):"));
        lines.collect()
    }

    #[test]
    fn every_error_that_reaches_a_program_is_explained() {
        let [model, auth, storage, layer, store, python] = SOURCES;
        let codes: Vec<&str> = [model, auth].into_iter().flat_map(codes).collect();
        let variants: Vec<&str> = [storage, layer, store].into_iter().flat_map(variants).collect();
        let classes = classes(python);
        assert!(
            codes.len() > 25 && variants.len() > 50 && classes.len() > 20,
            "{codes:?} {variants:?} {classes:?}"
        );
        let named = codes.into_iter().chain(variants).chain(classes);
        let unknown: Vec<&str> = named.filter(|name| fault(name).is_none()).collect();
        assert!(unknown.is_empty(), "{unknown:?}");
    }

    #[test]
    fn a_name_belongs_to_one_fault() {
        for fault in FAULTS {
            for name in fault.names {
                assert!(std::ptr::eq(super::fault(name).expect("it is its own name"), fault), "{name} twice");
            }
        }
    }

    #[test]
    fn a_name_is_known_as_each_language_writes_it() {
        for written in
            ["LeaseLost", "LeaseLostError", "lease_lost", "Error::LeaseLost", "larder.LeaseLostError"]
        {
            assert_eq!(fault(written).map(|fault| fault.names[0]), Some("LeaseLost"), "{written}");
        }
        let code = "com.amazonaws.dynamodb.v20120810#ConditionalCheckFailedException";
        assert_eq!(fault(code).map(|fault| fault.names[0]), Some("ConditionalCheckFailedException"));
        assert!(fault("Error").is_none() && fault("").is_none());
    }

    #[test]
    fn the_page_has_every_name() {
        let page = include_str!("../../../../../docs/troubleshooting.md");
        for fault in FAULTS {
            for name in fault.names {
                assert!(page.contains(name), "{name} is not in docs/troubleshooting.md");
            }
        }
    }
}
