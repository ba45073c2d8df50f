//! `larder access`: who may use a server, with which keys, and what they may do.
//!
//! The access file is what `larder serve --access` reads, and reads again when it changes. It holds secrets, so it is its
//! owner's alone; `file.rs` reads and writes it.

mod explain;
pub(crate) mod file;
mod record;
mod session;

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Args, Subcommand};
use larder_auth::{Access, AccessKey, KEYS_MAX, Policy, Principal, Secret};
use larder_model::Arn;

use crate::terminal;
use explain::Explain;
use record::Record;
use session::SessionCommand;

/// Say who may use a server, with which keys, and what they may do
///
/// `larder serve --access FILE` then answers only requests that one of them has signed, within their policies.
#[derive(Debug, Args)]
pub(crate) struct AccessCommand {
    /// The access file
    #[arg(long, global = true, value_name = "FILE", default_value = "access.json")]
    access: PathBuf,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Add(Add),
    List(List),
    Rotate(Rotate),
    Remove(Remove),
    Allow(Allow),
    Explain(Explain),
    Record(Record),
    Session(SessionCommand),
}

/// Let somebody in: a program or a person, with a key of their own
///
/// Its secret is shown this once.
#[derive(Debug, Args)]
struct Add {
    /// Letters, digits and _ + = , . @ -
    name: String,
    /// What they may do: a file with a policy of IAM, such as `larder export iam` writes; may be repeated. `all` is a policy that
    /// allows everything. Without one they may do nothing
    #[arg(long, value_name = "FILE|all")]
    policy: Vec<String>,
    /// The account that they are of, as it is in ARNs: twelve digits
    #[arg(long, value_name = "DIGITS", default_value = Arn::ACCOUNT)]
    account: String,
    /// A tag, for policies that ask for one; may be repeated
    #[arg(long, value_name = "NAME=VALUE", value_parser = tag)]
    tag: Vec<(String, String)>,
    /// Where the server is, for the profile that is printed: with TLS, https://HOST:PORT
    #[arg(long, value_name = "URL", default_value = ENDPOINT, value_parser = endpoint)]
    endpoint: String,
}

/// Change what somebody may do: these policies take the place of those they have
#[derive(Debug, Args)]
struct Allow {
    name: String,
    /// A file with a policy of IAM, such as `larder access record` writes; may be repeated. `all` allows everything. Without one
    /// they may do nothing
    #[arg(long, value_name = "FILE|all")]
    policy: Vec<String>,
    /// The account, where several have somebody of that name
    #[arg(long, value_name = "DIGITS")]
    account: Option<String>,
}

/// Show who there is, with their keys and policies; no secrets
#[derive(Debug, Args)]
struct List {
    /// As JSON
    #[arg(long)]
    json: bool,
}

/// Give somebody a second key, so that programs can change to it; once they have, remove the old one
#[derive(Debug, Args)]
struct Rotate {
    name: String,
    /// The account, where several have somebody of that name
    #[arg(long, value_name = "DIGITS")]
    account: Option<String>,
    /// Where the server is, for the profile that is printed: with TLS, https://HOST:PORT
    #[arg(long, value_name = "URL", default_value = ENDPOINT, value_parser = endpoint)]
    endpoint: String,
}

/// Remove somebody, or one key of theirs
#[derive(Debug, Args)]
struct Remove {
    /// A name, or the id of a key
    what: String,
    /// The account, where several have somebody of that name
    #[arg(long, value_name = "DIGITS")]
    account: Option<String>,
}

impl AccessCommand {
    pub(crate) fn run(self) -> Result<ExitCode, String> {
        let path = self.access;
        match self.command {
            Command::Add(add) => add.run(&path),
            Command::List(list) => list.run(&path),
            Command::Rotate(rotate) => rotate.run(&path),
            Command::Remove(remove) => remove.run(&path),
            Command::Allow(allow) => allow.run(&path),
            Command::Explain(explain) => explain.run(&path),
            Command::Record(record) => record.run(&path),
            Command::Session(session) => session.run(&path),
        }
    }
}

impl Add {
    fn run(self, path: &Path) -> Result<ExitCode, String> {
        let policies = policies(&self.policy)?;
        let mut principals = file::changed(path)?;
        if principals.now.iter().any(|other| other.name == self.name && other.account == self.account) {
            let name = &self.name;
            return Err(format!(
                "{name} is in {} already; give them another key with `larder access rotate {name}`",
                path.display()
            ));
        }
        let key = new_key()?;
        let may = may(&self.name, &policies);
        principals.now.push(Principal {
            name: self.name.clone(),
            account: self.account,
            keys: vec![key.clone()],
            tags: self.tag.into_iter().collect(),
            policies,
        });
        principals.write()?;
        terminal::print(&format!(
            "{} can sign in to servers with --access {}, and {may}.\n{}",
            self.name,
            path.display(),
            credentials(&self.name, &key, &self.endpoint)
        ))?;
        Ok(ExitCode::SUCCESS)
    }
}

impl Allow {
    fn run(self, path: &Path) -> Result<ExitCode, String> {
        let policies = policies(&self.policy)?;
        let mut principals = file::changed(path)?;
        let at = named(&principals.now, &self.name, self.account.as_deref(), path)?;
        let told = format!("{} {}\n", self.name, may(&self.name, &policies));
        principals.now[at].policies = policies;
        principals.write()?;
        terminal::print(&told)?;
        Ok(ExitCode::SUCCESS)
    }
}

impl List {
    fn run(self, path: &Path) -> Result<ExitCode, String> {
        let access = file::read(path)?;
        let mut text = String::new();
        if self.json {
            let all: Vec<_> = access
                .principals()
                .iter()
                .map(|principal| {
                    serde_json::json!({
                        "name": principal.name, "arn": principal.arn(), "account": principal.account,
                        "keys": principal.keys.iter().map(|key| &key.id).collect::<Vec<_>>(),
                        "tags": principal.tags,
                        "policies": principal.policies.iter().map(|(name, _)| name).collect::<Vec<_>>(),
                    })
                })
                .collect();
            text = format!("{:#}\n", serde_json::Value::from(all));
        } else if access.principals().is_empty() {
            text += "nobody; let somebody in with `larder access add NAME --policy FILE`\n";
        }
        for principal in access.principals().iter().filter(|_| !self.json) {
            text += &format!("{}  {}\n", principal.name, principal.arn());
            for key in &principal.keys {
                text += &format!("  key     {}\n", key.id);
            }
            for (name, _) in &principal.policies {
                text += &format!("  policy  {name}\n");
            }
            for (name, value) in &principal.tags {
                text += &format!("  tag     {name}={value}\n");
            }
        }
        terminal::print(&text)?;
        Ok(ExitCode::SUCCESS)
    }
}

impl Rotate {
    fn run(self, path: &Path) -> Result<ExitCode, String> {
        let mut principals = file::changed(path)?;
        let at = named(&principals.now, &self.name, self.account.as_deref(), path)?;
        let principal = &mut principals.now[at];
        if principal.keys.len() >= KEYS_MAX {
            let ids = listed(principal.keys.iter().map(|key| key.id.as_str()));
            return Err(format!(
                "{} has {KEYS_MAX} keys already, {ids}; remove the one that no program uses any more with `larder access \
                 remove KEY`",
                self.name
            ));
        }
        let key = new_key()?;
        let before = principal.keys.first().map(|key| key.id.clone());
        principal.keys.push(key.clone());
        principals.write()?;
        let next = before.map_or_else(String::new, |id| {
            format!(
                "\nThe key {id} is good as before. Once nothing uses it any more: larder access remove {id}\n"
            )
        });
        terminal::print(&format!(
            "{} has another key.\n{}{next}",
            self.name,
            credentials(&self.name, &key, &self.endpoint)
        ))?;
        Ok(ExitCode::SUCCESS)
    }
}

impl Remove {
    fn run(self, path: &Path) -> Result<ExitCode, String> {
        let mut principals = file::changed(path)?;
        let what = self.what;
        let mut of_key = None;
        for principal in &mut principals.now {
            let before = principal.keys.len();
            principal.keys.retain(|key| key.id != what);
            if principal.keys.len() < before {
                of_key = Some(principal.name.clone());
            }
        }
        let told = match of_key {
            Some(name) => {
                format!("the key {what} of {name} is gone, and every session that was made of it\n")
            }
            None => {
                principals.now.remove(named(&principals.now, &what, self.account.as_deref(), path)?);
                format!("{what} is gone, with all keys\n")
            }
        };
        principals.write()?;
        terminal::print(&told)?;
        Ok(ExitCode::SUCCESS)
    }
}

fn tag(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once('=').ok_or("give it as NAME=VALUE")?;
    Ok((name.to_owned(), value.to_owned()))
}

/// The policies of these files, each under a name of its own.
fn policies(files: &[String]) -> Result<Vec<(String, Policy)>, String> {
    let policies = files.iter().map(|named| policy(named)).collect::<Result<Vec<_>, _>>()?;
    for (at, (name, _)) in policies.iter().enumerate() {
        if policies[..at].iter().any(|(other, _)| other == name) {
            return Err(format!(
                "two policies are called {name}, after their files: rename one of the files"
            ));
        }
    }
    Ok(policies)
}

fn may(name: &str, policies: &[(String, Policy)]) -> String {
    match policies {
        [] => {
            format!("may do nothing yet: give them a policy with `larder access allow {name} --policy FILE`")
        }
        _ => format!("may do what {} allows", listed(policies.iter().map(|(name, _)| name.as_str()))),
    }
}

/// The name of a policy, and what it says.
fn policy(named: &str) -> Result<(String, Policy), String> {
    if named == "all" {
        let text = r#"{"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Action": "*", "Resource": "*"}]}"#;
        return Ok((named.to_owned(), Policy::identity(text).expect("a policy")));
    }
    let path = Path::new(named);
    let text = std::fs::read_to_string(path).map_err(|error| format!("{named}: {error}"))?;
    let policy = Policy::identity(&text).map_err(|error| format!("{named}: {error}"))?;
    let name = path.file_stem().map_or_else(|| named.to_owned(), |stem| stem.to_string_lossy().into_owned());
    Ok((name, policy))
}

fn new_key() -> Result<AccessKey, String> {
    let mut random = [0; 40];
    getrandom::fill(&mut random).map_err(|error| format!("there is no randomness for a key: {error}"))?;
    Ok(AccessKey::generate(&random))
}

/// What to paste, and where.
fn credentials(name: &str, key: &AccessKey, endpoint: &str) -> String {
    let AccessKey { id, secret } = key;
    let place = if endpoint == ENDPOINT {
        "where the server is, and https if it speaks TLS"
    } else {
        "where the server is"
    };
    format!(
        "Its secret is shown this once. In ~/.aws/credentials:\n\n[{name}]\naws_access_key_id = {id}\n\
         aws_secret_access_key = {}\n\nand in ~/.aws/config, with {place}:\n\n[profile {name}]\n\
         region = us-east-1\nendpoint_url = {endpoint}\n\nThen: aws dynamodb list-tables --profile {name}\n",
        Secret::reveal(secret)
    )
}

/// Where `larder serve` listens unless it is told otherwise.
const ENDPOINT: &str = "http://127.0.0.1:8000";

fn endpoint(text: &str) -> Result<String, String> {
    let host = text.strip_prefix("http://").or_else(|| text.strip_prefix("https://"));
    // A line of a profile is made of it.
    let is_one = host
        .is_some_and(|host| host.starts_with(|first: char| first.is_alphanumeric() || first == '['))
        && text.chars().all(|each| each.is_ascii_graphic());
    if is_one { Ok(text.to_owned()) } else { Err("give https://HOST:PORT or http://HOST:PORT".to_owned()) }
}

fn listed<'a>(names: impl Iterator<Item = &'a str>) -> String {
    let names: Vec<String> = names.map(|name| format!("`{name}`")).collect();
    names.join(" and ")
}

/// Somebody, by name or by the id of a key.
fn whoever<'a>(
    access: &'a Access,
    who: &str,
    account: Option<&str>,
    path: &Path,
) -> Result<&'a Principal, String> {
    match access.find(who) {
        Some((principal, _)) => Ok(principal),
        None => Ok(&access.principals()[named(access.principals(), who, account, path)?]),
    }
}

/// Where somebody is among all.
fn named(all: &[Principal], name: &str, account: Option<&str>, path: &Path) -> Result<usize, String> {
    let is_meant = |principal: &Principal| {
        principal.name == name && account.is_none_or(|account| principal.account == account)
    };
    let mut found = all.iter().enumerate().filter(|(_, principal)| is_meant(principal)).map(|(at, _)| at);
    match (found.next(), found.next()) {
        (Some(at), None) => Ok(at),
        (Some(_), Some(_)) => Err(format!("several accounts have a {name}: say which with --account")),
        (None, _) => {
            Err(format!("there is no {name} in {}; `larder access list` shows who there is", path.display()))
        }
    }
}

/// What somebody changes in an access file.
struct Changed {
    path: PathBuf,
    /// Held until it is written, so that two changes at once are both kept.
    _lock: File,
    now: Vec<Principal>,
}

impl Changed {
    fn write(self) -> Result<(), String> {
        let access = Access::new(self.now).map_err(|error| error.to_string())?;
        // As a server will read it, so that what is wrong is told now.
        let text = access.write();
        Access::read(&text).map_err(|error| error.to_string())?;
        file::write(&self.path, &text)
    }
}
