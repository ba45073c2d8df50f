//! `larder access record`: the least policy that a program needs, from what a server noted of it.
//!
//! A statement has the resources that the same was done to, so that the policy is short, and all is in order, so that the
//! same program makes the same policy. What was refused is left out, and counted.
//!
//! Streams and backups have names that are new each time; those are written as `*`. What is about no one resource is allowed
//! on `*`, as IAM has it.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::fs::File;
use std::io::{BufRead, BufReader, ErrorKind};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{SystemTime, UNIX_EPOCH};

use clap::Args;
use larder_auth::Policy;
use larder_auth::actions::kinds_of;
use larder_model::UnixTime;
use serde_json::{Value, json};

use super::file;
use crate::terminal;

/// Write the least policy that a program needs, from what a server with `--audit` noted of it
///
/// Let the program in with `--policy all`, have it do all that it does, and give it what this writes. Conditions are not made.
#[derive(Debug, Args)]
pub(super) struct Record {
    /// Whom the program signs as: a name, or the id of a key
    who: String,
    /// The account, where several have somebody of that name
    #[arg(long, value_name = "DIGITS")]
    account: Option<String>,
    /// The audit log of the server; what it was before, FILE.1 and so on, is read too
    #[arg(long, value_name = "FILE")]
    audit: PathBuf,
    /// Only what was done at this time or later, as in 2026-01-31T14:05:00Z
    #[arg(long, value_name = "TIME", value_parser = moment)]
    from: Option<UnixTime>,
    /// Where to write the policy; otherwise it is printed
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
}

fn moment(text: &str) -> Result<UnixTime, String> {
    let told = || "give it as 2026-01-31T14:05:00Z, in UTC".to_owned();
    let time: SystemTime = humantime::parse_rfc3339_weak(text).map_err(|_| told())?;
    let millis = time.duration_since(UNIX_EPOCH).map_err(|_| told())?.as_millis();
    Ok(UnixTime::from_millis(i64::try_from(millis).map_err(|_| told())?))
}

impl Record {
    pub(super) fn run(self, path: &Path) -> Result<ExitCode, String> {
        let access = file::read(path)?;
        let principal = super::whoever(&access, &self.who, self.account.as_deref(), path)?;
        let mut recorded = Recorded::default();
        for path in logs(&self.audit) {
            let failed = |error: std::io::Error| format!("{}: {error}", path.display());
            let file = match File::open(&path) {
                // It may be called otherwise by now, and is read under that name.
                Err(error) if error.kind() == ErrorKind::NotFound && path != self.audit => continue,
                opened => opened.map_err(failed)?,
            };
            for line in BufReader::new(file).lines() {
                recorded.take(&line.map_err(failed)?, &principal.arn(), self.from);
            }
        }
        if recorded.done.is_empty() {
            return Err(format!(
                "{}: nothing in it was done by {}; `larder serve --access … --audit {}` notes it",
                self.audit.display(),
                principal.arn(),
                self.audit.display()
            ));
        }
        let text = format!("{:#}\n", recorded.policy());
        // What cannot be given to anybody is told now.
        Policy::identity(&text).map_err(|error| error.to_string())?;
        let Recorded { requests, refused, unread, .. } = recorded;
        let mut told = format!("{} of {}", terminal::count(requests, "request"), self.who);
        if refused > 0 {
            told += &format!("; {refused} that were refused are left out");
        }
        if unread > 0 {
            told += &format!("; {} cannot be read", terminal::count(unread, "line"));
        }
        eprintln!("{told}");
        match &self.out {
            None => terminal::print(&text)?,
            Some(out) => std::fs::write(out, text).map_err(|error| format!("{}: {error}", out.display()))?,
        }
        Ok(ExitCode::SUCCESS)
    }
}

/// The files of a log, the oldest first.
fn logs(audit: &Path) -> impl Iterator<Item = PathBuf> + use<> {
    let name: OsString = audit.into();
    let before = (1..=larder_server::AUDIT_FILES_KEPT).rev().map(move |number| {
        let mut name = name.clone();
        name.push(format!(".{number}"));
        PathBuf::from(name)
    });
    before.chain([audit.to_owned()])
}

/// What somebody did: actions, by what they were done to.
#[derive(Debug, Default)]
struct Recorded {
    done: BTreeMap<String, BTreeSet<String>>,
    requests: usize,
    refused: usize,
    unread: usize,
}

impl Recorded {
    fn take(&mut self, line: &str, who: &str, from: Option<UnixTime>) {
        // A server that was killed may have left half a line.
        let Ok(line) = serde_json::from_str::<Value>(line) else {
            self.unread += usize::from(!line.is_empty());
            return;
        };
        let time = line["time"].as_str().and_then(|time| UnixTime::from_label(time.trim_end_matches('Z')));
        if line["who"] != who || from.is_some_and(|from| time.is_none_or(|time| time < from)) {
            return;
        }
        if line["allowed"] != true {
            self.refused += 1;
            return;
        }
        self.requests += 1;
        for one in line["did"].as_array().into_iter().flatten() {
            if let (Some(action), Some(resource)) = (one["action"].as_str(), one["resource"].as_str()) {
                let actions = self.done.entry(lasting(action, resource)).or_default();
                actions.insert(action.to_owned());
            }
        }
    }

    fn policy(&self) -> Value {
        let mut alike: BTreeMap<&BTreeSet<String>, Vec<&str>> = BTreeMap::new();
        for (resource, actions) in &self.done {
            alike.entry(actions).or_default().push(resource);
        }
        let mut statements: Vec<_> = alike.into_iter().collect();
        statements.sort_by(|(_, one), (_, other)| one.cmp(other));
        let statements = statements
            .into_iter()
            .map(|(actions, resources)| json!({"Effect": "Allow", "Action": actions, "Resource": resources}));
        json!({"Version": "2012-10-17", "Statement": statements.collect::<Vec<_>>()})
    }
}

/// A resource as a policy names it, which is good for the next time too.
fn lasting(action: &str, resource: &str) -> String {
    if kinds_of(action).is_some_and(<[_]>::is_empty) {
        return "*".to_owned();
    }
    for part in ["/stream/", "/backup/"] {
        if let Some((table, _)) = resource.split_once(part) {
            return format!("{table}{part}*");
        }
    }
    resource.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    const WHO: &str = "arn:aws:iam::000000000000:user/app";

    fn line(at: i64, who: &str, allowed: bool, did: &[(&str, &str)]) -> String {
        let did = did.iter().map(|(action, resource)| {
            let resource = match *resource {
                "*" => "*".to_owned(),
                table => format!("arn:aws:dynamodb:us-east-1:000000000000:table/{table}"),
            };
            json!({"action": format!("dynamodb:{action}"), "resource": resource})
        });
        let time = format!("{}Z", UnixTime::from_seconds(at).to_label());
        json!({"time": time, "who": who, "allowed": allowed, "did": did.collect::<Vec<_>>()}).to_string()
    }

    #[test]
    fn what_was_done_is_grouped_and_in_order() {
        let lines = [
            line(2, WHO, true, &[("PutItem", "b"), ("GetItem", "a"), ("PutItem", "a")]),
            line(1, WHO, true, &[("GetItem", "b"), ("ListTables", "*"), ("GetItem", "b")]),
            line(3, WHO, true, &[("GetRecords", "b/stream/2026-01-01T00:00:00.000"), ("Query", "b/index/c")]),
            line(3, WHO, true, &[("DescribeBackup", "b/backup/01-ab"), ("ListTables", "*")]),
            line(3, WHO, false, &[("DeleteTable", "a")]),
            line(3, "arn:aws:iam::000000000000:user/other", true, &[("DeleteTable", "a")]),
            String::from("half a li"),
        ];
        let mut recorded = Recorded::default();
        lines.iter().for_each(|line| recorded.take(line, WHO, None));
        assert_eq!((recorded.requests, recorded.refused, recorded.unread), (4, 1, 1));
        let arn = |table: &str| format!("arn:aws:dynamodb:us-east-1:000000000000:table/{table}");
        let allow = |actions: &[&str], resources: &[String]| {
            let actions: Vec<String> = actions.iter().map(|action| format!("dynamodb:{action}")).collect();
            json!({"Effect": "Allow", "Action": actions, "Resource": resources})
        };
        let expected = json!({"Version": "2012-10-17", "Statement": [
            allow(&["ListTables"], &["*".to_owned()]),
            allow(&["GetItem", "PutItem"], &[arn("a"), arn("b")]),
            allow(&["DescribeBackup"], &[arn("b/backup/*")]),
            allow(&["Query"], &[arn("b/index/c")]),
            allow(&["GetRecords"], &[arn("b/stream/*")]),
        ]});
        assert_eq!(recorded.policy(), expected);
        let mut backwards = Recorded::default();
        lines.iter().rev().for_each(|line| backwards.take(line, WHO, None));
        assert_eq!(backwards.policy(), expected);

        let mut later = Recorded::default();
        lines.iter().for_each(|line| later.take(line, WHO, moment("1970-01-01T00:00:03Z").ok()));
        assert_eq!((later.requests, later.refused), (2, 1));
        assert!(moment("yesterday").is_err());
    }
}
