use insta::assert_snapshot;

use super::*;

pub(crate) fn alice() -> Principal {
    Principal {
        name: "alice".to_owned(),
        account: "123456789012".to_owned(),
        keys: vec![AccessKey::generate(&[1; 40])],
        tags: BTreeMap::new(),
        policies: Vec::new(),
    }
}

#[test]
fn a_secret_is_known_whole_and_by_nothing_else() {
    let secret = Secret::new("first/secret");
    assert!(secret.is("first/secret"));
    for other in ["", "first/secre", "first/secret2", "First/secret"] {
        assert!(!secret.is(other), "{other}");
    }
}

const FILE: &str = r#"{
  "version": 1,
  "principals": [
    {
      "name": "alice",
      "account": "123456789012",
      "keys": [
        {
          "id": "LKIAAAAAAAAAAAAAAAAA",
          "secret": "first/secret"
        },
        {
          "id": "LKIABBBBBBBBBBBBBBBB",
          "secret": "second/secret"
        }
      ],
      "tags": {
        "team": "kitchen"
      },
      "policies": {
        "app": {
          "Version": "2012-10-17",
          "Statement": [
            {
              "Sid": "Read",
              "Effect": "Allow",
              "Resource": "*",
              "Action": "dynamodb:Get*"
            }
          ]
        }
      }
    },
    {
      "name": "bob",
      "account": "123456789012",
      "keys": [],
      "policies": {}
    }
  ]
}
"#;

#[test]
fn a_file_is_written_as_it_was_read() {
    let access = Access::read(FILE).unwrap();
    assert_eq!(access.write(), FILE);
    assert_eq!(Access::read(&access.write()).unwrap(), access);
    assert_eq!(Access::read(&Access::default().write()).unwrap(), Access::default());
}

#[test]
fn a_key_leads_to_its_principal() {
    let access = Access::read(FILE).unwrap();
    for (id, secret) in [("LKIAAAAAAAAAAAAAAAAA", "first/secret"), ("LKIABBBBBBBBBBBBBBBB", "second/secret")]
    {
        let (principal, key) = access.find(id).unwrap();
        assert_eq!(
            (principal.arn().as_str(), key.secret.reveal()),
            ("arn:aws:iam::123456789012:user/alice", secret)
        );
    }
    assert_eq!(access.find("LKIACCCCCCCCCCCCCCCC"), None);
    assert_eq!(access.find(""), None);
}

#[test]
fn no_debug_shows_a_secret() {
    let shown = format!("{:?}", Access::read(FILE).unwrap());
    assert!(shown.contains("LKIAAAAAAAAAAAAAAAAA") && !shown.contains("/secret"), "{shown}");
}

#[test]
fn a_policy_may_be_a_string() {
    let text = r#"{"version": 1, "principals": [{"name": "a", "account": "123456789012",
        "policies": {"p": "{\"Version\": \"2012-10-17\", \"Statement\": []}"}}]}"#;
    assert_eq!(Access::read(text).unwrap().principals()[0].policies[0].0, "p");
}

#[test]
fn keys_are_made_of_random_bytes() {
    let random: [u8; 40] = std::array::from_fn(|at| at as u8);
    let key = AccessKey::generate(&random);
    assert_snapshot!(key.id, @"LKIAAAAQEAYEAUDAOCAJ");
    assert_snapshot!(key.secret.reveal(), @"CgsMDQ4PEBESExQVFhcYGRobHB0eHyAhIiMkJSYn");
    assert_ne!(AccessKey::generate(&[0; 40]), AccessKey::generate(&[1; 40]));
    // What is made can be read.
    let access = Access::new(vec![Principal { keys: vec![key], ..alice() }]).unwrap();
    assert_eq!(Access::read(&access.write()).unwrap(), access);
}

/// A file with one principal that has these members.
fn fault_of(principal: &str) -> String {
    Access::read(&format!(r#"{{"version": 1, "principals": [{principal}]}}"#)).unwrap_err().to_string()
}

#[test]
fn what_is_wrong_is_named_with_its_cause_and_what_to_do() {
    assert_snapshot!(Access::read("{").unwrap_err(), @"the access file cannot be read: EOF while parsing an object at line 1 column 1. Restore it from a copy, or make a new one with `larder access add`.");
    assert_snapshot!(Access::read(r#"{"version": 2, "principals": []}"#).unwrap_err(), @"the access file has version 2, and this Larder reads version 1. Use the Larder that wrote it.");
    assert_snapshot!(Access::read("{}").unwrap_err(), @"the access file: `version` is missing. Write `\"version\": 1`.");
    assert_snapshot!(Access::read(r#"{"version": 1, "users": []}"#).unwrap_err(), @"the access file: `users` is not known. It has `version` and `principals`.");
    assert_snapshot!(Access::read(r#"{"version": 1, "version": 1}"#).unwrap_err(), @"the access file cannot be read: `version` is there twice at line 1 column 24. Restore it from a copy, or make a new one with `larder access add`.");
    assert_snapshot!(fault_of("5"), @"principal 1: it is a number, not an object. A principal has `name`, `account`, `keys`, `tags` and `policies`.");
    assert_snapshot!(fault_of("{}"), @"principal 1: `name` is missing. Add it, or remove the entry.");
    assert_snapshot!(fault_of(r#"{"name": "a b"}"#), @"principal 1: `a b` is not a name for a principal. Use 1 to 64 letters, digits and _ + = , . @ -, as IAM does.");
    assert_snapshot!(fault_of(r#"{"name": "alice", "account": "12"}"#), @"principal `alice`: `12` is not an account. Write twelve digits, such as 123456789012.");
    let with = |rest: &str| fault_of(&format!(r#"{{"name": "alice", "account": "123456789012", {rest}}}"#));
    assert_snapshot!(with(r#""keys": {}"#), @r#"principal `alice`: `keys` is not a list. Write a list of `{"id": …, "secret": …}`."#);
    assert_snapshot!(with(r#""keys": [{"id": "short", "secret": "s"}]"#), @"principal `alice`, key 1: `short` is not an access key id. Use 16 to 128 letters, digits and _, or make one with `larder access add`.");
    assert_snapshot!(with(r#""keys": [{"id": "LKIAAAAAAAAAAAAAAAAA"}]"#), @"principal `alice`, key 1: `secret` is missing. Add it, or remove the entry.");
    let key = r#"{"id": "LKIAAAAAAAAAAAAAAAAA", "secret": "s"}"#;
    assert_snapshot!(with(&format!(r#""keys": [{key}, {key}]"#)), @"principal `alice`: access key LKIAAAAAAAAAAAAAAAAA is there twice. Make a new one with `larder access rotate`.");
    assert_snapshot!(with(&format!(r#""keys": [{key}, {key}, {key}]"#)), @"principal `alice`: it has 3 access keys, and 2 is the most. Remove those that no program uses any more.");
    assert_snapshot!(with(r#""tags": {"team": 5}"#), @"principal `alice`: the tag `team` is a number. A tag's value is a string.");
    assert_snapshot!(with(r#""policies": []"#), @"principal `alice`: `policies` is a list. Write an object, with a member for each.");
    assert_snapshot!(with(r#""policies": {"app": {"Statement": {"Effect": "allow"}}}"#), @"principal `alice`, policy `app`: statement 1: Effect is allow. Write \"Allow\" or \"Deny\".");
    let twice = r#"{"name": "alice", "account": "123456789012"}"#;
    assert_snapshot!(fault_of(&format!("{twice}, {twice}")), @"principal `alice`: account 123456789012 has two principals of that name. Give one of them another name, or another account.");
}
