//! Whatever is said of a signature, who does not know the secret is refused, with one of AWS's errors.
#![no_main]

use std::collections::BTreeMap;

use larder_auth::{Access, AccessKey, HttpRequest, Principal, Secret, authenticate};
use larder_model::UnixTime;
use libfuzzer_sys::fuzz_target;

/// The key that the seeds name, with another secret than they are signed with.
fn access() -> Access {
    let key = AccessKey { id: "LKIAEXAMPLEEXAMPLE22".to_owned(), secret: Secret::new("nobody knows") };
    let principal = Principal {
        name: "alice".to_owned(),
        account: "123456789012".to_owned(),
        keys: vec![key],
        tags: BTreeMap::new(),
        policies: Vec::new(),
    };
    Access::new(vec![principal]).expect("the one key is there once")
}

// A request in HTTP's own form: a line with method and target, headers, an empty line, a body.
fuzz_target!(|text: &str| {
    let (head, body) = text.split_once("\n\n").unwrap_or((text, ""));
    let mut lines = head.lines();
    let (method, target) = lines.next().unwrap_or_default().split_once(' ').unwrap_or_default();
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let headers: Vec<(&str, &[u8])> =
        lines.filter_map(|line| line.split_once(':')).map(|(name, value)| (name, value.as_bytes())).collect();
    let http = HttpRequest { method, path, query, headers: &headers, body: body.as_bytes() };
    let now = UnixTime::from_label("2026-10-09T12:34:56.000").expect("a label");
    let access = access();
    let error = authenticate(&http, &access, now).expect_err("nobody knows the secret");
    assert!(!error.to_string().is_empty() && !error.to_string().contains("nobody knows"));
    assert_eq!(error.status(), 400);
});
