//! The console of a server that asks for keys: who is let in, and what they may do there.

#![allow(clippy::unwrap_used, reason = "what fails here fails the test")]

mod browser;
mod process;

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use browser::{Answer, Browser, free_address, until};
use larder_server::TlsFiles;
use process::{Larder, command};
use tempfile::TempDir;

/// What somebody signs in with.
struct Key {
    id: String,
    secret: String,
}

const READS: &str = r#"{"Version": "2012-10-17", "Statement": {"Effect": "Allow", "Resource": "*", "Action":
    ["dynamodb:BatchGetItem", "dynamodb:Describe*", "dynamodb:GetItem", "dynamodb:List*", "dynamodb:Query", "dynamodb:Scan"]}}"#;

fn larder(place: &Path, arguments: &[&str]) -> String {
    let output =
        Command::new(env!("CARGO_BIN_EXE_larder")).args(arguments).current_dir(place).output().unwrap();
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn key(place: &Path, name: &str, policy: &str) -> Key {
    let text = larder(place, &["access", "add", name, "--policy", policy]);
    let after = |label: &str| text.lines().find_map(|line| line.strip_prefix(label)).unwrap().to_owned();
    Key { id: after("aws_access_key_id = "), secret: after("aws_secret_access_key = ") }
}

/// Asks for the page that asks for a key, and shows it one.
fn sign_in(browser: &mut Browser, id: &str, secret: &str, to: &str) -> Answer {
    sign_in_at(browser, "us-east-1", id, secret, to)
}

fn sign_in_at(browser: &mut Browser, region: &str, id: &str, secret: &str, to: &str) -> Answer {
    let page = browser.get("/sign-in");
    let encoded =
        |text: &str| text.replace('%', "%25").replace('+', "%2B").replace('/', "%2F").replace('=', "%3D");
    let form = format!("region={region}&key={id}&secret={}&to={}", encoded(secret), encoded(to));
    browser.post("/sign-in", page.token(), &form)
}

/// A server with keys, an administrator's and one that reads; a table with an item; and its console.
struct Asking {
    place: TempDir,
    console: String,
    admin: Key,
    reader: Key,
    server: Larder,
}

impl Asking {
    fn new() -> Self {
        let place = tempfile::tempdir().unwrap();
        fs::write(place.path().join("reads.json"), READS).unwrap();
        let (admin, reader) = (key(place.path(), "admin", "all"), key(place.path(), "reader", "reads.json"));
        let console = free_address();
        let mut command = command(&["--memory", "--dynamodb", "127.0.0.1:0", "--console", &console]);
        command.args(["--access", "access.json", "--audit", "audit.jsonl"]).current_dir(place.path());
        let asking = Self { admin, reader, server: Larder::start(command), console, place };
        let (mut browser, token) = asking.browser(&asking.admin);
        let form = "name=carts&partition=id&partition-type=S&billing=on-demand&view=NEW_IMAGE";
        let made = browser.post("/create", &token, form);
        assert_eq!(made.status, 303, "{}", made.body);
        let made = browser.post("/items/carts/new", &token, "item={\"id\":{\"S\":\"seven\"}}");
        assert_eq!(made.status, 303, "{}", made.body);
        asking
    }

    /// Somebody who is signed in, and the token of their forms.
    fn browser(&self, key: &Key) -> (Browser, String) {
        let mut browser = Browser::new(&self.console, None);
        let inside = sign_in(&mut browser, &key.id, &key.secret, "/");
        assert_eq!((inside.status, inside.header("location")), (303, Some("/")), "{}", inside.body);
        let token = browser.get("/find").token().to_owned();
        (browser, token)
    }

    /// Reads a cart as a program does, in a region.
    fn get(&self, region: &str, id: &str) {
        let store = format!("dynamodb:{}", self.server.url);
        let statement = format!("SELECT * FROM carts WHERE id = '{id}'");
        let output = Command::new(env!("CARGO_BIN_EXE_larder"))
            .args(["sql", "--store", &store, &statement])
            .current_dir(self.place.path())
            .env("AWS_ACCESS_KEY_ID", &self.admin.id)
            .env("AWS_SECRET_ACCESS_KEY", &self.admin.secret)
            .env("AWS_REGION", region)
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(text.contains(id), "{text}{}", String::from_utf8_lossy(&output.stderr));
    }

    fn audit(&self) -> Vec<serde_json::Value> {
        let text = fs::read_to_string(self.place.path().join("audit.jsonl")).unwrap();
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }
}

#[test]
fn where_keys_are_asked_for_a_stranger_gets_nothing_but_the_page_that_asks() {
    let asking = Asking::new();
    let mut stranger = Browser::new(&asking.console, None);
    for path in ["/", "/items/carts?by=all", "/requests", "/traffic", "/schema/lunch", "/nowhere"] {
        let answer = stranger.get(path);
        assert_eq!(answer.status, 303, "{path}: {}", answer.body);
        assert!(answer.header("location").unwrap().starts_with("/sign-in?to=%2F"), "{}", answer.head);
        assert!(!answer.body.contains("carts"), "{path}");
    }
    assert_eq!(stranger.get("/assets/console.css").status, 200);
    let page = stranger.get("/sign-in");
    assert!(page.status == 200 && !page.body.contains("carts"), "{}", page.body);
    // Its token is for signing in alone.
    let token = page.token().to_owned();
    let forged = stranger.post("/tables/carts/delete", &token, "name=carts");
    assert_eq!(forged.status, 403, "{}", forged.body);
    let large = stranger.post("/sign-in", &token, &format!("secret={}", "s".repeat(20_000)));
    assert_eq!(large.status, 413, "a stranger sends little");
    for (id, secret) in [
        (asking.admin.id.as_str(), asking.reader.secret.as_str()),
        ("LKIAAAAAAAAAAAAAAAAA", asking.admin.secret.as_str()),
        (asking.admin.id.as_str(), ""),
    ] {
        let wrong = sign_in(&mut stranger, id, secret, "/");
        assert_eq!(wrong.status, 403);
        assert!(wrong.body.contains("Nobody has this key, or its secret is another"), "{}", wrong.body);
        assert!(secret.is_empty() || !wrong.body.contains(secret), "the secret is on no page");
        assert_eq!(stranger.get("/").status, 303);
    }
    let (mut browser, _) = asking.browser(&asking.admin);
    assert!(browser.get("/items/carts?by=all").body.contains("seven"));
    // Where somebody wanted to go, on this console.
    let mut other = Browser::new(&asking.console, None);
    let inside = sign_in(&mut other, &asking.admin.id, &asking.admin.secret, "//evil.example/");
    assert_eq!(inside.header("location"), Some("/evil.example"));
    let cookie = inside.head.lines().find(|line| line.contains("larder_session_")).unwrap();
    assert!(cookie.ends_with("; Path=/; HttpOnly; SameSite=Strict"), "{cookie}");
}

#[test]
fn who_is_signed_in_does_what_their_policy_allows_and_nothing_else() {
    let asking = Asking::new();
    let (mut reader, token) = asking.browser(&asking.reader);
    let (mut admin, admins) = asking.browser(&asking.admin);
    let shown = reader.get("/items/carts?by=all");
    assert!(shown.body.contains("seven") && !shown.body.contains("New item"), "{}", shown.body);
    let offered = ["id=\"edit\"", "Delete…", "Duplicate", "New table", "Change it", "Back it up now"];
    let own = ["href=\"/requests\"", "id=\"traffic\"", ">History<", ">Changes<"];
    let pages = ["/items/carts", "/item/carts?pk=seven", "/tables/carts", "/tables", "/backups", "/"];
    for path in pages {
        let page = reader.get(path);
        assert_eq!(page.status, 200, "{path}: {}", page.body);
        for word in offered.iter().chain(&own) {
            assert!(!page.body.contains(word), "{path} offers {word}: {}", page.body);
        }
    }
    let all: String = pages.iter().map(|path| admin.get(path).body).collect();
    for word in offered.iter().chain(&own) {
        assert!(all.contains(word), "the administrator is offered {word}");
    }

    // A form is shown to who may send it, also by its address.
    for path in [
        "/items/carts/new",
        "/item/carts/edit?pk=seven",
        "/item/carts/delete?pk=seven",
        "/tables/carts/delete",
        "/create",
        "/statement?statement=DELETE+FROM+carts+WHERE+id+%3D+%27seven%27",
    ] {
        let forms = |page: &Answer| page.body.matches("method=\"post\"").count();
        let (page, theirs) = (reader.get(path), admin.get(path));
        assert_eq!(forms(&page), 1, "{path}: signing out alone: {}", page.body);
        assert!(page.body.contains("Your key may not do this"), "{path}: {}", page.body);
        assert_eq!((theirs.status, forms(&theirs)), (200, 2), "{path}: {}", theirs.body);
    }

    // What is not offered is refused all the same, by the endpoint's own decision and in its words.
    for (path, form, action) in [
        ("/items/carts/new", "item={\"id\":{\"S\":\"forged-item\"}}", "dynamodb:PutItem"),
        ("/items/carts/delete", "key={\"id\":{\"S\":\"seven\"}}", "dynamodb:DeleteItem"),
        ("/tables/carts/change", "what=protection&on=1", "dynamodb:UpdateTable"),
        ("/tables/carts/change", "what=tag&key=a&value=b", "dynamodb:TagResource"),
        ("/tables/carts/delete", "name=carts", "dynamodb:DeleteTable"),
        ("/backups", "do=make&table=carts&name=kept", "dynamodb:CreateBackup"),
        ("/statement", "statement=INSERT INTO carts VALUE {'id': 'forged-item'}", "dynamodb:PartiQLInsert"),
        (
            "/create",
            "name=forged-table&partition=id&partition-type=S&billing=on-demand",
            "dynamodb:CreateTable",
        ),
    ] {
        let form = if path == "/items/carts/delete" {
            // It is deleted if it is still what was shown.
            let chosen = admin.post(path, &admins, form).body;
            let seen = chosen.split("name=\"seen\" value=\"").nth(1).unwrap().split('"').next().unwrap();
            format!("{form}&confirm=1&seen={seen}")
        } else {
            form.to_owned()
        };
        let forged = reader.post(path, &token, &form);
        assert!(matches!(forged.status, 403 | 422), "{path}: {} {}", forged.status, forged.body);
        let told = format!("user/reader is not authorized to perform: {action}");
        assert!(forged.body.contains(&told), "{path}: {}", forged.body);
        let others = reader.post(path, &admins, &form);
        assert!(
            others.status == 403 && !others.body.contains("authorized"),
            "by the token of another: {}",
            others.body
        );
    }
    for (path, action) in [
        ("/requests", "larder:ReadRequests"),
        ("/traffic", "larder:ReadMetrics"),
        ("/changes/carts", "larder:ReadChanges"),
        ("/item/carts/history?pk=seven", "larder:ReadHistory"),
    ] {
        let page = reader.get(path);
        assert!(page.status == 403 && page.body.contains(action), "{path}: {}", page.body);
        let page = admin.get(path);
        assert_eq!(page.status, 200, "{path}: {}", page.body);
    }
    let left = admin.get("/items/carts?by=all").body;
    assert!(
        left.contains("seven")
            && !left.contains("forged-item")
            && !admin.get("/tables").body.contains("forged-table")
    );

    let lines = asking.audit();
    let has = |who: &str, action: &str, allowed: bool| {
        let who = format!("arn:aws:iam::000000000000:user/{who}");
        lines.iter().any(|line| {
            line["who"] == who.as_str() && line["did"][0]["action"] == action && line["allowed"] == allowed
        })
    };
    assert!(has("reader", "larder:SignIn", true) && has("reader", "dynamodb:Scan", true));
    assert!(has("reader", "dynamodb:DeleteItem", false) && has("reader", "larder:ReadHistory", false));
    assert!(has("admin", "dynamodb:PutItem", true) && has("admin", "larder:ReadChanges", true));
    assert!(!has("reader", "dynamodb:UpdateTimeToLive", false), "what is only not offered is not noted");
}

#[test]
fn another_region_has_tables_of_its_own_in_the_console_too() {
    let asking = Asking::new();
    let mut abroad = Browser::new(&asking.console, None);
    let Key { id, secret } = &asking.admin;
    assert_eq!(sign_in_at(&mut abroad, "eu-west-1", id, secret, "/").status, 303);
    assert!(!abroad.get("/tables").body.contains("carts"));
    assert!(!abroad.get("/items/carts?by=all").body.contains("seven"));
    let token = abroad.get("/find").token().to_owned();
    let form = "name=carts&partition=id&partition-type=S&billing=on-demand&view=NEW_IMAGE";
    assert_eq!(abroad.post("/create", &token, form).status, 303);
    assert_eq!(abroad.post("/items/carts/new", &token, "item={\"id\":{\"S\":\"octopus\"}}").status, 303);
    let shown = abroad.get("/items/carts?by=all").body;
    assert!(shown.contains("octopus") && !shown.contains("seven"), "{shown}");
    let past = abroad.get("/item/carts/history?pk=octopus");
    assert!(past.status == 200 && past.body.contains("octopus"), "{}", past.body);
    let (mut here, _) = asking.browser(&asking.admin);
    let shown = here.get("/items/carts?by=all").body;
    assert!(shown.contains("seven") && !shown.contains("octopus"), "{shown}");

    // The figures are those of the tables here: one abroad of the same name has none.
    until(|| here.get("/tables/carts").body.contains("Size of the table"));
    assert!(!abroad.get("/tables/carts").body.contains("Size of the table"));

    // Of what programs asked, everybody's own tables have their names, and others where they are.
    asking.get("us-east-1", "seven");
    asking.get("eu-west-1", "octopus");
    let (shown, theirs) = (here.get("/requests").body, abroad.get("/requests").body);
    assert!(shown.contains("<td class=\"mono\">carts</td>"), "{shown}");
    assert!(shown.contains("<td class=\"mono\">eu-west-1/000000000000/carts</td>"), "{shown}");
    assert!(theirs.contains("<td class=\"mono\">us-east-1/000000000000/carts</td>"), "{theirs}");

    for region in ["no%20region", "EU-WEST-1", "us-east-1%3A000000000000%3Atable%2Fpublic"] {
        let wrong = sign_in_at(&mut Browser::new(&asking.console, None), region, id, secret, "/");
        assert_eq!(wrong.status, 403, "{region}: {}", wrong.body);
    }
}

#[test]
fn a_region_is_no_part_of_an_arn_where_tables_are_shared_either() {
    let place = tempfile::tempdir().unwrap();
    let Key { id, secret } = key(place.path(), "admin", "all");
    let console = free_address();
    let mut command = command(&["--memory", "--dynamodb", "127.0.0.1:0", "--console", &console]);
    command.args(["--access", "access.json", "--shared"]).current_dir(place.path());
    let _server = Larder::start(command);
    let mut browser = Browser::new(&console, None);
    let region = "us-east-1%3A000000000000%3Atable%2Fpublic";
    assert_eq!(sign_in_at(&mut browser, region, &id, &secret, "/").status, 403);
    assert_eq!(sign_in_at(&mut browser, "eu-west-1", &id, &secret, "/").status, 303);
}

#[test]
fn a_session_ends_when_somebody_signs_out_and_with_its_key() {
    let asking = Asking::new();
    let (mut admin, token) = asking.browser(&asking.admin);
    let cookies = admin.cookies.clone();
    assert_eq!(admin.post("/sign-out", "0", "").status, 403, "another page cannot sign out");
    assert_eq!(admin.post("/sign-out", &token, "").header("location"), Some("/sign-in"));
    assert_eq!(admin.get("/").status, 303);
    admin.cookies = cookies;
    assert_eq!(admin.get("/").status, 303, "the cookie is worth nothing any more");

    let (mut reader, _) = asking.browser(&asking.reader);
    let (mut admin, _) = asking.browser(&asking.admin);
    larder(asking.place.path(), &["access", "remove", "reader"]);
    until(|| reader.get("/").status == 303);
    assert_eq!(admin.get("/").status, 200);
}

#[test]
fn wrong_keys_are_answered_later_and_later() {
    let asking = Asking::new();
    let mut browser = Browser::new(&asking.console, None);
    let mut attempt = || {
        let begun = Instant::now();
        assert_eq!(sign_in(&mut browser, &asking.admin.id, "wrong", "/").status, 403);
        begun.elapsed()
    };
    for _ in 0..5 {
        attempt();
    }
    for late in [100, 200, 300] {
        assert!(attempt() >= Duration::from_millis(late), "{late}");
    }
    let lines = asking.audit();
    let noted = lines.iter().filter(|line| line["claimed_key"] == asking.admin.id.as_str());
    assert_eq!(noted.filter(|line| line["allowed"] == false).count(), 8);
    assert_eq!(asking.browser(&asking.admin).0.get("/").status, 200, "who has the key is let in");
}

#[test]
fn with_keys_and_tls_the_console_is_for_other_machines_too() {
    let place = tempfile::tempdir().unwrap();
    let admin = key(place.path(), "admin", "all");
    let files = TlsFiles::self_signed(&place.path().join("tls"), &["127.0.0.1".to_owned()]).unwrap();
    let console = free_address();
    let everywhere = console.replace("127.0.0.1", "0.0.0.0");
    let mut command = command(&["--memory", "--dynamodb", "127.0.0.1:0", "--console", &everywhere]);
    command.args(["--access", "access.json", "--allow-host", "db.example.com"]).current_dir(place.path());
    command.arg("--tls-cert").arg(&files.certificate).arg("--tls-key").arg(&files.key);
    let _server = Larder::start(command);
    let mut browser = Browser::new(&console, Some(&files.certificate));
    let inside = sign_in(&mut browser, &admin.id, &admin.secret, "/");
    let cookie = inside.head.lines().find(|line| line.contains("larder_session_")).expect("a session");
    assert!(cookie.contains("__Host-larder_session_") && cookie.ends_with("; Secure"), "{cookie}");
    assert!(browser.get("/").body.contains("Sign out"));
}

#[test]
fn the_past_of_an_item_is_for_who_may_read_it_by_its_key() {
    let asking = Asking::new();
    let policy = r#"{"Version": "2012-10-17", "Statement": [
        {"Effect": "Allow", "Action": ["dynamodb:Describe*", "dynamodb:GetItem", "dynamodb:List*"], "Resource": "*"},
        {"Effect": "Allow", "Action": "larder:ReadHistory", "Resource": "arn:aws:dynamodb:us-east-1:000000000000:table/carts",
         "Condition": {"ForAllValues:StringEquals": {"dynamodb:LeadingKeys": "seven"}}}]}"#;
    fs::write(asking.place.path().join("own.json"), policy).unwrap();
    let own = key(asking.place.path(), "own", "own.json");
    let mut browser = Browser::new(&asking.console, None);
    until(|| sign_in(&mut browser, &own.id, &own.secret, "/").status == 303);
    let past = browser.get("/item/carts/history?pk=seven");
    assert!(past.status == 200 && past.body.contains("As it was from"), "{}", past.body);
    let other = browser.get("/item/carts/history?pk=eleven");
    assert!(other.status == 403 && other.body.contains("larder:ReadHistory"), "{}", other.body);
    assert_eq!(browser.get("/changes/carts").status, 403, "one item is not all of them");
}

#[test]
fn who_may_read_items_alone_reads_them_where_a_schema_says_what_they_are() {
    let place = process::place_with_schemas();
    let policy = r#"{"Version": "2012-10-17", "Statement": {"Effect": "Allow",
        "Action": ["dynamodb:GetItem", "dynamodb:Query", "dynamodb:Scan"], "Resource": "arn:aws:dynamodb:*:*:table/lunch-cache-dev*"}}"#;
    fs::write(place.path().join("items.json"), policy).unwrap();
    let (admin, items) = (key(place.path(), "admin", "all"), key(place.path(), "items", "items.json"));
    let console = free_address();
    let mut command = command(&["--memory", "--dynamodb", "127.0.0.1:0", "--console", &console]);
    command.args(["--access", "access.json"]).current_dir(place.path());
    let _server = Larder::start(command);
    let mut browser = Browser::new(&console, None);
    sign_in(&mut browser, &admin.id, &admin.secret, "/");
    let token = browser.get("/find").token().to_owned();
    let plan = browser.get("/tables/lunch-cache-dev/apply").body;
    let seen = plan.split("name=\"seen\" value=\"").nth(1).unwrap().split('"').next().unwrap();
    let applied = browser.post("/tables/lunch-cache-dev/apply", &token, &format!("seen={seen}"));
    assert!(applied.body.contains("create the table"), "{}", applied.body);
    let begun = browser.post("/seed/lunch/Menu", &token, "count=3&seed=1");
    let progress = begun.header("location").expect("it is under way").to_owned();
    until(|| browser.get(&progress).body.contains("3 records put"));

    let mut browser = Browser::new(&console, None);
    sign_in(&mut browser, &items.id, &items.secret, "/");
    let overview = browser.get("/");
    assert!(
        overview.status == 200 && overview.body.contains("not authorized to perform: dynamodb:ListTables")
    );
    let shown = browser.get("/browse/lunch/Menu?by=all&scan=1").body;
    assert!(shown.contains("3 rows") && !shown.contains("New record"), "{shown}");
    let record =
        shown.split("class=\"open\" href=\"").nth(1).or_else(|| shown.split("mono open\" href=\"").nth(1));
    let record = record.unwrap_or_else(|| panic!("{shown}")).split('"').next().unwrap().replace("&amp;", "&");
    let page = browser.get(&record);
    assert!(page.status == 200 && !page.body.contains("id=\"edit\""), "{}", page.body);
    assert_eq!(browser.get("/progress/1").status, 404, "what others have begun is theirs");
    let table = browser.get("/tables/lunch-cache-dev");
    assert!(table.status == 403 && table.body.contains("dynamodb:DescribeTable"), "{}", table.body);
}
