//! Who may come in, and what they may do: `larder access`, and a server that asks for signatures, over TLS, through the Rust SDK.

#![expect(clippy::unwrap_used, reason = "the helpers of a test fail with the test")]

mod process;

use std::fs;
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::{Duration, Instant};

use process::Larder;
use serde_json::Value;
use tempfile::TempDir;

const LIMIT: Duration = Duration::from_secs(20);

/// A directory with the five schemas, an access file and a certificate.
struct Place(TempDir);

/// What somebody signs with.
#[derive(Clone, Debug)]
struct Key {
    id: String,
    secret: String,
}

impl Place {
    fn new() -> Self {
        Self(process::place_with_schemas())
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn certificate(&self) -> PathBuf {
        self.path("share/larder/tls/certificate.pem")
    }

    /// A command as somebody in this directory types it.
    fn larder(&self, key: Option<&Key>, arguments: &[&str]) -> Output {
        self.command(key, arguments).output().expect("the binary was built with this test")
    }

    fn command(&self, key: Option<&Key>, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_larder"));
        command.args(arguments).current_dir(self.0.path());
        for name in
            ["AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_PROFILE", "LARDER_STORE"]
        {
            command.env_remove(name);
        }
        for name in ["LARDER_CLIENT_CERT", "LARDER_CLIENT_KEY", "AWS_DEFAULT_REGION"] {
            command.env_remove(name);
        }
        if let Some(key) = key {
            command.env("AWS_ACCESS_KEY_ID", &key.id).env("AWS_SECRET_ACCESS_KEY", &key.secret);
        }
        let certificate = self.certificate();
        command
            .env("SSL_CERT_FILE", certificate)
            .env("AWS_REGION", "eu-west-1")
            .env("AWS_EC2_METADATA_DISABLED", "true");
        command
    }

    fn ok(&self, key: Option<&Key>, arguments: &[&str]) -> String {
        let output = self.larder(key, arguments);
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(output.status.success(), "{arguments:?}: {text}{}", String::from_utf8_lossy(&output.stderr));
        text
    }

    fn refused(&self, key: Option<&Key>, arguments: &[&str]) -> String {
        let output = self.larder(key, arguments);
        assert!(!output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stdout));
        String::from_utf8_lossy(&output.stderr).into_owned()
    }

    /// The key that `access add` or `rotate` shows.
    fn key(&self, arguments: &[&str]) -> Key {
        let text = self.ok(None, arguments);
        let after = |label: &str| {
            let line = text.lines().find_map(|line| line.strip_prefix(label)).expect("it is shown");
            line.to_owned()
        };
        Key { id: after("aws_access_key_id = "), secret: after("aws_secret_access_key = ") }
    }

    fn serve(&self, more: &[&str]) -> Larder {
        let access = self.path("access.json");
        let mut all =
            vec!["--memory", "--dynamodb", "127.0.0.1:0", "--tls", "self-signed", "--access", text(&access)];
        all.extend_from_slice(more);
        let mut command = process::command(&all);
        command.env("XDG_DATA_HOME", self.path("share"));
        Larder::start(command)
    }
}

fn text(path: &Path) -> &str {
    path.to_str().expect("temporary paths are text")
}

#[test]
fn a2_a3_l8_a_server_with_keys_and_tls_is_used_within_policies() {
    let place = Place::new();
    let admin = place.key(&["access", "add", "admin", "--policy", "all"]);
    fs::write(place.path("lunch.json"), place.ok(None, &["export", "iam", "lunch"])).unwrap();
    let program = place.key(&["access", "add", "lunch", "--policy", "lunch.json", "--tag", "team=kitchen"]);
    let audit = place.path("audit.jsonl");
    // The policy is for tables of eu-west-1.
    let server = place.serve(&["--shared", "--audit", text(&audit)]);
    assert!(server.url.starts_with("https://127.0.0.1:"), "{}", server.url);
    let store = format!("dynamodb:{}", server.url);
    let at = ["--store", store.as_str()];

    // The administrator makes tables; the program keeps and reads what its policy allows.
    let apply = |key| place.larder(Some(key), &["apply", "--yes", at[0], at[1], "schemas/lunch.larder"]);
    let denied = apply(&program);
    assert!(!denied.status.success());
    let told = String::from_utf8_lossy(&denied.stderr).into_owned();
    assert!(told.contains("user/lunch is not authorized to perform: dynamodb:"), "{told}");
    assert!(apply(&admin).status.success());
    place.ok(Some(&program), &["seed", "lunch", "--count", "5", at[0], at[1]]);
    let listed = place.ok(Some(&program), &["scan", "lunch.Menu", "--json", at[0], at[1]]);
    assert!(listed.lines().count() >= 5, "{listed}");

    // Nobody else is let in.
    let nobody = place.refused(None, &["scan", "lunch.Menu", at[0], at[1]]);
    assert!(nobody.contains("security token included in the request is invalid"), "{nobody}");
    let wrong = Key { secret: "wrong".to_owned(), ..admin.clone() };
    let wrong = place.refused(Some(&wrong), &["scan", "lunch.Menu", at[0], at[1]]);
    assert!(wrong.contains("signature we calculated does not match"), "{wrong}");

    // What is not DynamoDB's asks for the same: a backup is the whole store.
    place.ok(Some(&admin), &["backup", "--to", "copies", at[0], at[1]]);
    let told = place.refused(Some(&program), &["backup", "--to", "copies", at[0], at[1]]);
    assert!(told.contains("not authorized to perform: larder:Backup"), "{told}");
    let told = place.refused(None, &["backup", "--to", "copies", at[0], at[1]]);
    assert!(told.contains("MissingAuthenticationToken"), "{told}");
    let health = place.ok(Some(&admin), &["doctor", "lunch", at[0], at[1]]);
    assert!(health.contains("server") && health.contains("ready"), "{health}");

    // The log has who and what, and no secret, key or value of an item.
    let audit = fs::read_to_string(audit).unwrap();
    let lines: Vec<Value> = audit.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let has = |who: &str, action: &str, allowed: bool| {
        lines.iter().any(|line| {
            line["who"] == format!("arn:aws:iam::000000000000:user/{who}")
                && line["did"][0]["action"] == action
                && line["allowed"] == allowed
                && line["tls"] == true
        })
    };
    assert!(has("admin", "dynamodb:CreateTable", true) && has("lunch", "dynamodb:Scan", true), "{audit}");
    assert!(has("lunch", "larder:Backup", false), "{audit}");
    assert!(lines.iter().any(|line| line["code"] == "InvalidSignatureException"), "{audit}");
    assert!(!audit.contains(&admin.secret) && !audit.contains(&program.secret) && !audit.contains("niagara"));
    assert_eq!(fs::metadata(place.path("audit.jsonl")).unwrap().permissions().mode() & 0o777, 0o600);
}

#[test]
fn keys_come_and_go_while_it_runs() {
    let place = Place::new();
    let first = place.key(&["access", "add", "admin", "--policy", "all"]);
    let server = place.serve(&["--shared"]);
    let store = format!("dynamodb:{}", server.url);
    let plan = ["plan", "--store", store.as_str(), "schemas/lunch.larder"];
    place.ok(Some(&first), &plan);
    let second = place.key(&["access", "rotate", "admin"]);
    until(|| place.larder(Some(&second), &plan).status.success());
    place.ok(Some(&first), &plan);
    place.ok(None, &["access", "remove", &first.id]);
    until(|| !place.larder(Some(&first), &plan).status.success());
    place.ok(Some(&second), &plan);
    // A file that is wrong changes nothing.
    fs::write(place.path("access.json"), "{").unwrap();
    let third = place.refused(None, &["access", "rotate", "admin"]);
    assert!(third.contains("the access file cannot be read"), "{third}");
    place.ok(Some(&second), &plan);
}

#[test]
fn the_file_is_its_owner_s_and_says_what_is_wrong_with_it() {
    let place = Place::new();
    let key = place.key(&["access", "add", "alice"]);
    let path = place.path("access.json");
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    let listed = place.ok(None, &["access", "list", "--json"]);
    assert!(listed.contains(&key.id) && !listed.contains(&key.secret), "{listed}");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
    for command in [
        &["access", "list"][..],
        &["serve", "--memory", "--dynamodb", "127.0.0.1:0", "--access", "access.json"],
    ] {
        let told = place.refused(None, command);
        assert!(told.contains("chmod 600"), "{told}");
    }
    let told = place.refused(None, &["access", "--access", "none.json", "list"]);
    assert!(told.contains("larder access add"), "{told}");
}

#[test]
fn a_decision_is_explained() {
    let place = Place::new();
    let policy = r#"{"Version": "2012-10-17", "Statement": [
        {"Sid": "Own", "Effect": "Allow", "Action": "dynamodb:GetItem", "Resource": "*",
         "Condition": {"ForAllValues:StringEquals": {"dynamodb:LeadingKeys": "alice"}}},
        {"Sid": "NoScan", "Effect": "Deny", "Action": "dynamodb:Scan", "Resource": "*"}
    ]}"#;
    fs::write(place.path("own.json"), policy).unwrap();
    let key = place.key(&["access", "add", "alice", "--policy", "own.json"]);
    let explain = |arguments: &[&str]| {
        let output = place.larder(None, &[&["access", "explain"], arguments].concat());
        (output.status.code(), String::from_utf8_lossy(&output.stdout).into_owned())
    };
    let fact = ["--fact", "dynamodb:LeadingKeys=alice"];
    let (code, told) = explain(&["alice", "GetItem", "notes", fact[0], fact[1]]);
    assert!(code == Some(0) && told.contains("allowed by statement 1 (Own) of the policy `own`"), "{told}");
    let (code, told) = explain(&[&key.id, "dynamodb:GetItem", "notes", "--fact", "dynamodb:LeadingKeys=bob"]);
    assert!(code == Some(1) && told.contains("no statement allows it"), "{told}");
    let (code, told) = explain(&["alice", "Scan", "*"]);
    assert!(code == Some(1) && told.contains("denied by statement 2 (NoScan)"), "{told}");
    let told = place.refused(None, &["access", "explain", "alice", "dynamodb:Eat", "*"]);
    assert!(told.contains("DynamoDB has no action dynamodb:Eat"), "{told}");
}

#[test]
fn what_cannot_be_meant_is_refused_at_the_start() {
    let place = Place::new();
    place.key(&["access", "add", "alice"]);
    fs::write(place.path("junk.pem"), "junk").unwrap();
    let serve = ["serve", "--memory"];
    for (more, part) in [
        (&["--access", "access.json", "--console", "0.0.0.0:0"][..], "other machines would hear them"),
        (&["--tls-cert", "junk.pem", "--tls-key", "junk.pem"], "junk.pem: there is nothing of the kind"),
        (&["--tls-cert", "junk.pem"], "--tls-key"),
        (&["--tls-client-ca", "junk.pem"], "--tls self-signed"),
        (&["--allow-host", "http://x"], "without a port"),
        (&["--allow-origin", "*"], "http://localhost:3000"),
        (&["--audit", "schemas"], "--audit schemas: it is no file"),
        (&["--access", "access.json", "--dynamodb", "0.0.0.0:0"], "--allow-plain"),
    ] {
        let told = place.refused(None, &[&serve[..], more].concat());
        assert!(told.contains(part), "{more:?}: {told}");
    }
}

/// Asks again until it is so: the server looks at its files twice a second.
fn until(mut so: impl FnMut() -> bool) {
    let start = Instant::now();
    while !so() {
        assert!(start.elapsed() < LIMIT, "it takes too long");
    }
}

#[test]
fn each_region_of_each_account_has_its_own_tables_unless_all_are_shared() {
    let place = Place::new();
    let here = place.key(&["access", "add", "here", "--policy", "all"]);
    let elsewhere = place.key(&["access", "add", "here", "--policy", "all", "--account", "222222222222"]);
    let told = place.refused(None, &["access", "rotate", "here"]);
    assert!(told.contains("--account"), "{told}");
    let ask = |server: &Larder, key: &Key, region: &str, more: &[&str]| {
        let url = format!("dynamodb:{}", server.url);
        let arguments = [more, &["--store", &url, "schemas/keiba.larder"]].concat();
        let output = place.command(Some(key), &arguments).env("AWS_REGION", region).output().unwrap();
        let told = [output.stdout, output.stderr].concat();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&told));
        String::from_utf8_lossy(&told).into_owned()
    };
    let all = [(&here, "us-east-1"), (&here, "eu-west-1"), (&elsewhere, "us-east-1")];
    for (more, made_at_once) in [(&[][..], false), (&["--shared"], true)] {
        let server = place.serve(more);
        for (at, (key, region)) in all.into_iter().enumerate() {
            let is_made = || !ask(&server, key, region, &["plan"]).contains("1 to create");
            assert_eq!(is_made(), made_at_once && at > 0, "{region} {more:?}");
            ask(&server, key, region, &["apply", "--yes"]);
            assert!(is_made(), "{region} {more:?}");
        }
    }
}

#[test]
fn connections_that_say_nothing_keep_nobody_out_and_nothing_up() {
    let place = Place::new();
    let key = place.key(&["access", "add", "admin", "--policy", "all"]);
    let mut server = place.serve(&["--connections", "20"]);
    let address = server.url.strip_prefix("https://").unwrap().to_owned();
    let url = format!("dynamodb:{}", server.url);
    let silent: Vec<TcpStream> = (0..20).map(|_| TcpStream::connect(&address).unwrap()).collect();
    let start = Instant::now();
    until(|| {
        let mut command = place.command(Some(&key), &["plan", "--store", &url, "schemas/keiba.larder"]);
        command.env("AWS_REGION", "us-east-1").output().unwrap().status.success()
    });
    assert!(start.elapsed() < Duration::from_secs(8), "{:?}", start.elapsed());
    drop(silent);
    let _silent = TcpStream::connect(&address).unwrap();
    let pid = rustix::process::Pid::from_raw(i32::try_from(server.child.id()).unwrap()).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    let start = Instant::now();
    until(|| server.child.try_wait().unwrap().is_some());
    assert!(start.elapsed() < Duration::from_secs(5), "{:?}", start.elapsed());
}

#[test]
fn whoever_moves_the_clock_of_a_server_is_let_in_afterwards() {
    let place = Place::new();
    let key = place.key(&["access", "add", "admin", "--policy", "all"]);
    let access = place.path("access.json");
    let server = Larder::serve(&["--memory", "--dynamodb", "127.0.0.1:0", "--access", text(&access)]);
    let host = server.url.strip_prefix("http://").unwrap();
    let key = larder_auth::AccessKey { id: key.id, secret: larder_auth::Secret::new(key.secret) };
    for _ in 0..2 {
        let body = br#"{"advance_seconds": 3600}"#;
        let headers: [(&str, &[u8]); 2] = [("host", host.as_bytes()), ("content-type", b"application/json")];
        let http = larder_auth::HttpRequest {
            method: "POST",
            path: "/_larder/clock",
            query: "",
            headers: &headers,
            body,
        };
        let signed = larder_auth::sign(&http, &key, None, "us-east-1", larder_model::Clock::system().now());
        let agent: ureq::Agent = ureq::Agent::config_builder().http_status_as_error(false).build().into();
        let request =
            agent.post(format!("{}/_larder/clock", server.url)).header("content-type", "application/json");
        let request = signed.iter().fold(request, |request, (name, value)| request.header(*name, value));
        assert_eq!(request.send(&body[..]).unwrap().status().as_u16(), 200);
    }
    let agent: ureq::Agent = ureq::Agent::config_builder().http_status_as_error(false).build().into();
    let unsigned =
        agent.post(format!("{}/_larder/clock", server.url)).header("content-type", "application/json");
    assert_eq!(unsigned.send(&b"{}"[..]).unwrap().status().as_u16(), 400);
}

#[test]
fn a_program_runs_with_the_policy_that_was_recorded_of_it_and_nothing_more_is_allowed() {
    let place = Place::new();
    let admin = place.key(&["access", "add", "admin", "--policy", "all"]);
    let app = place.key(&["access", "add", "app", "--policy", "all"]);
    let audit = place.path("audit.jsonl");
    let server = place.serve(&["--audit", text(&audit)]);
    let store = format!("dynamodb:{}", server.url);
    let at = ["--store", store.as_str()];
    place.ok(Some(&admin), &["apply", "--yes", at[0], at[1], "schemas/lunch.larder"]);
    let program = || {
        let ran = place.larder(Some(&app), &["seed", "lunch", "--count", "3", at[0], at[1]]);
        ran.status.success()
            && place.larder(Some(&app), &["scan", "lunch.Menu", at[0], at[1]]).status.success()
    };
    let more = || place.larder(Some(&app), &["apply", "--yes", at[0], at[1], "schemas/keiba.larder"]);
    assert!(program());
    let log = ["--audit", text(&audit)];
    let first = place.ok(None, &["access", "record", "app", log[0], log[1]]);
    place.ok(None, &["access", "record", &app.id, log[0], log[1], "--out", "app.json"]);
    assert_eq!(fs::read_to_string(place.path("app.json")).unwrap(), first);
    assert!(first.contains("dynamodb:Scan") && !first.contains("CreateTable"), "{first}");
    let policy: Value = serde_json::from_str(&first).unwrap();
    for statement in policy["Statement"].as_array().unwrap() {
        assert!(!statement.to_string().contains("dynamodb:*"), "{statement}");
    }

    // With that, and with nothing first: it does all that it did, and no more.
    place.ok(None, &["access", "allow", "app"]);
    until(|| !program());
    let told = place.ok(None, &["access", "allow", "app", "--policy", "app.json"]);
    assert!(told.contains("app may do what `app` allows"), "{told}");
    until(program);
    let denied = more();
    let told = String::from_utf8_lossy(&denied.stderr).into_owned();
    assert!(!denied.status.success() && told.contains("not authorized to perform"), "{told}");
    // What it was refused meanwhile adds nothing.
    assert_eq!(place.ok(None, &["access", "record", "app", log[0], log[1]]), first);
    let later = ["--from", "2999-01-01T00:00:00Z"];
    let told = place.refused(None, &["access", "record", "app", log[0], log[1], later[0], later[1]]);
    assert!(told.contains("nothing in it was done by arn:aws:iam::000000000000:user/app"), "{told}");
}

#[test]
fn a_session_is_good_for_its_time_and_as_long_as_its_key() {
    let place = Place::new();
    let key = place.key(&["access", "add", "admin", "--policy", "all"]);
    let server = place.serve(&[]);
    let store = format!("dynamodb:{}", server.url);
    let session = |lasting: &str| -> Value {
        let printed = place.ok(None, &["access", "session", "admin", "--for", lasting, "--json"]);
        serde_json::from_str(&printed).unwrap()
    };
    let ask = |session: &Value| {
        let part = |name: &str| session[name].as_str().unwrap().to_owned();
        let key = Key { id: part("AccessKeyId"), secret: part("SecretAccessKey") };
        let mut command = place.command(Some(&key), &["plan", "--store", &store, "schemas/keiba.larder"]);
        let output = command.env("AWS_SESSION_TOKEN", part("SessionToken")).output().unwrap();
        (output.status.success(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    let long = session("1h");
    assert_eq!(ask(&long), (true, String::new()));
    let short = session("1s");
    until(|| ask(&short).1.contains("security token included in the request is expired"));
    let printed = place.ok(None, &["access", "session", "admin"]);
    for part in ["export AWS_ACCESS_KEY_ID=LSIA", "AWS_SESSION_TOKEN=", "# of admin, until "] {
        assert!(printed.contains(part) && !printed.contains(&key.secret), "{printed}");
    }
    let told = place.refused(None, &["access", "session", "admin", "--for", "37h"]);
    assert!(told.contains("36 hours"), "{told}");
    // Its key is gone, and so is it.
    place.ok(None, &["access", "rotate", "admin"]);
    place.ok(None, &["access", "remove", &key.id]);
    until(|| ask(&long).1.contains("security token included in the request is invalid"));
}

#[test]
fn commands_sign_as_the_profile_says() {
    let place = Place::new();
    let key = place.key(&["access", "add", "admin", "--policy", "all"]);
    let session: Value =
        serde_json::from_str(&place.ok(None, &["access", "session", "admin", "--json"])).unwrap();
    let part = |name: &str| session[name].as_str().unwrap().to_owned();
    let Key { id, secret } = &key;
    let (sid, ssecret, token) = (part("AccessKeyId"), part("SecretAccessKey"), part("SessionToken"));
    let credentials = format!(
        "[own]\naws_access_key_id = {id}\naws_secret_access_key = {secret}\n\n[while]\naws_access_key_id = {sid}\n\
         aws_secret_access_key = {ssecret}\naws_session_token = {token}\n\n[wrong]\naws_access_key_id = {id}\n\
         aws_secret_access_key = wrong\n"
    );
    fs::write(place.path("credentials"), credentials).unwrap();
    let process = format!(
        "[profile process]\nregion = eu-west-1\ncredential_process = {} access session admin --json\n",
        env!("CARGO_BIN_EXE_larder")
    );
    fs::write(place.path("config"), process).unwrap();
    let server = place.serve(&["--shared"]);
    let store = format!("dynamodb:{}", server.url);
    let backup = |profile: &str| {
        let mut command = place.command(None, &["backup", "--to", profile, "--store", &store]);
        command.env("AWS_PROFILE", profile).env_remove("AWS_REGION");
        command.env("AWS_SHARED_CREDENTIALS_FILE", place.path("credentials"));
        let output = command.env("AWS_CONFIG_FILE", place.path("config")).output().unwrap();
        (output.status.success(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    for profile in ["own", "while", "process"] {
        let (done, told) = backup(profile);
        assert!(done, "{profile}: {told}");
    }
    let (done, told) = backup("wrong");
    assert!(!done && told.contains("InvalidSignatureException"), "{told}");
    let (done, told) = backup("nobody");
    assert!(!done && told.contains("there is nothing to sign with"), "{told}");
}

#[test]
fn a_profile_names_the_server_as_it_is_told() {
    let place = Place::new();
    let usual = place.ok(None, &["access", "add", "one"]);
    assert!(
        usual.contains("\nendpoint_url = http://127.0.0.1:8000\n") && usual.contains("https if"),
        "{usual}"
    );
    let at = ["--endpoint", "https://db.example.com:8000"];
    for arguments in [["access", "add", "two"], ["access", "rotate", "one"]] {
        let told = place.ok(None, &[&arguments[..], &at].concat());
        assert!(told.contains("\nendpoint_url = https://db.example.com:8000\n"), "{told}");
    }
    for wrong in ["db.example.com:8000", "https://", "http://a\nb"] {
        let told = place.refused(None, &["access", "add", "three", "--endpoint", wrong]);
        assert!(told.contains("https://HOST:PORT"), "{told}");
    }
}

#[test]
fn a_server_that_serves_only_clients_with_a_certificate_is_reached_with_one() {
    let place = Place::new();
    let issuer = |name: &str| {
        let mut params = rcgen::CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
        params.distinguished_name.push(rcgen::DnType::CommonName, name);
        let key = rcgen::KeyPair::generate().unwrap();
        let pem = params.self_signed(&key).unwrap().pem();
        (rcgen::Issuer::new(params, key), pem)
    };
    let ((ours, authority), (theirs, _)) = (issuer("ours"), issuer("theirs"));
    fs::write(place.path("authority.pem"), authority).unwrap();
    for (name, by) in [("client", &ours), ("stranger", &theirs)] {
        let key = rcgen::KeyPair::generate().unwrap();
        let params = rcgen::CertificateParams::new(vec![format!("{name}.example")]).unwrap();
        fs::write(place.path(&format!("{name}.pem")), params.signed_by(&key, by).unwrap().pem()).unwrap();
        fs::write(place.path(&format!("{name}.key")), key.serialize_pem()).unwrap();
    }
    let key = place.key(&["access", "add", "admin", "--policy", "all"]);
    let authority = place.path("authority.pem");
    let server = place.serve(&["--shared", "--tls-client-ca", text(&authority)]);
    let store = format!("dynamodb:{}", server.url);
    let at = ["--store", store.as_str()];
    // By the SDK, and by the way that is none.
    let commands: [&[&str]; 2] =
        [&["plan", "schemas/keiba.larder", at[0], at[1]], &["backup", "--to", "copies", at[0], at[1]]];
    let ask = |arguments: &[&str], certificate: &str, of: &str| {
        let mut command = place.command(Some(&key), arguments);
        for (name, file) in [("LARDER_CLIENT_CERT", certificate), ("LARDER_CLIENT_KEY", of)] {
            if !file.is_empty() {
                command.env(name, place.path(file));
            }
        }
        let output = command.output().unwrap();
        (output.status.success(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    for command in commands {
        let (done, told) = ask(command, "client.pem", "client.key");
        assert!(done, "{command:?}: {told}");
        for (certificate, of, part) in [
            // What the server says of it may be lost, for it closes at once.
            ("", "", "larder: "),
            ("stranger.pem", "stranger.key", "larder: "),
            ("client.pem", "", "LARDER_CLIENT_CERT is set and LARDER_CLIENT_KEY is not"),
            ("", "client.key", "LARDER_CLIENT_KEY is set and LARDER_CLIENT_CERT is not"),
            ("client.pem", "stranger.key", "is not the key of"),
            ("client.key", "client.key", "there is no certificate in it"),
            ("none.pem", "client.key", "LARDER_CLIENT_CERT: "),
        ] {
            let (done, told) = ask(command, certificate, of);
            assert!(!done && told.contains(part), "{command:?} with {certificate} and {of}: {told}");
        }
    }
}

#[test]
fn a_decision_is_explained_with_the_policy_of_the_resource() {
    let place = Place::new();
    let admin = place.key(&["access", "add", "admin", "--policy", "all"]);
    place.key(&["access", "add", "root", "--policy", "all"]);
    place.key(&["access", "add", "guest"]);
    let server = place.serve(&[]);
    let store = format!("dynamodb:{}", server.url);
    place.ok(Some(&admin), &["apply", "--yes", "schemas/lunch.larder", "--store", &store]);
    let table = "arn:aws:dynamodb:eu-west-1:000000000000:table/lunch-cache-dev";
    let policy = r#"{"Version": "2012-10-17", "Statement": [
        {"Sid": "Guests", "Effect": "Allow", "Principal": {"AWS": "arn:aws:iam::000000000000:user/guest"},
         "Action": "dynamodb:GetItem", "Resource": "*"},
        {"Sid": "Kept", "Effect": "Deny", "Principal": "*",
         "Action": ["dynamodb:DeleteTable", "dynamodb:DeleteResourcePolicy"], "Resource": "*"}
    ]}"#;
    fs::write(place.path("table.json"), policy).unwrap();
    let explain = |told: &[&str], who: &str, action: &str, on: &str| {
        let all = [&["access", "explain", who, action, on], told].concat();
        let output = place.larder(Some(&admin), &all);
        let said = [output.stdout, output.stderr].concat();
        (output.status.code(), String::from_utf8_lossy(&said).into_owned())
    };
    let (code, said) = explain(&["--store", &store], "guest", "GetItem", table);
    assert!(code == Some(1) && said.contains("no statement allows it"), "{said}");
    put_policy(&place, &server, &admin, table, policy);
    let (file, by_store) = (["--resource-policy", "table.json"], ["--store", &store]);
    for told in [&file[..], &by_store] {
        let (code, said) = explain(told, "guest", "GetItem", table);
        assert!(
            code == Some(0) && said.contains("allowed by statement 1 (Guests) of the resource's policy"),
            "{said}"
        );
        let (code, said) = explain(told, "admin", "DeleteTable", table);
        assert!(
            code == Some(1) && said.contains("denied by statement 2 (Kept) of the resource's policy"),
            "{said}"
        );
        let (code, said) = explain(told, "guest", "GetItem", &format!("{table}/index/by_day"));
        assert!(code == Some(0) && said.contains("(Guests)"), "{said}");
        let (code, said) = explain(told, "admin", "DeleteResourcePolicy", table);
        assert!(code == Some(1) && said.contains("(Kept)"), "{said}");
        // As the server has it: the root of the account can always.
        let (code, said) = explain(told, "root", "DeleteResourcePolicy", table);
        assert!(code == Some(0), "{said}");
    }
    let (code, said) = explain(&[], "admin", "DeleteTable", table);
    assert!(code == Some(0), "{said}");
    let (code, said) = explain(&by_store, "admin", "GetItem", &table.replace("lunch", "none"));
    assert!(code == Some(1) && said.contains("ResourceNotFoundException"), "{said}");
    let (code, said) = explain(&["--resource-policy", "access.json"], "admin", "GetItem", table);
    assert!(code == Some(1) && said.contains("access.json: the policy: "), "{said}");
}

/// As `aws dynamodb put-resource-policy` does.
fn put_policy(place: &Place, server: &Larder, key: &Key, resource: &str, policy: &str) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let http = aws_smithy_http_client::Builder::new()
        .tls_provider(aws_smithy_http_client::tls::Provider::Rustls(
            aws_smithy_http_client::tls::rustls_provider::CryptoMode::Ring,
        ))
        .tls_context(
            aws_smithy_http_client::tls::TlsContext::builder()
                .with_trust_store(
                    aws_smithy_http_client::tls::TrustStore::empty()
                        .with_pem_certificate(fs::read(place.certificate()).unwrap()),
                )
                .build()
                .unwrap(),
        )
        .build_https();
    let config = aws_sdk_dynamodb::Config::builder()
        .behavior_version(aws_sdk_dynamodb::config::BehaviorVersion::latest())
        .region(aws_sdk_dynamodb::config::Region::from_static("eu-west-1"))
        .endpoint_url(&server.url)
        .credentials_provider(aws_credential_types::Credentials::new(
            &key.id,
            &key.secret,
            None,
            None,
            "test",
        ))
        .http_client(http);
    let client = aws_sdk_dynamodb::Client::from_conf(config.build());
    let put = client.put_resource_policy().resource_arn(resource).policy(policy).send();
    runtime.block_on(put).unwrap();
}
