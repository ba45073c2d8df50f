//! The console over HTTP, on a store in memory: routes, escaping, tokens, hosts. What needs a browser is in `tests/console`.

#![allow(clippy::unwrap_used, reason = "what fails here fails the test")]

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use larder::store::ops::{GetItem, PutItem, ReturnCapacity, WriteOptions};
use larder::{Environment, Fields, Schema, Store, System, Value};
use larder_console::{Console, Options, SchemaFile, Schemas};
use larder_model::{AttributeValue, Item, TableName};
use larder_schema::{Loader, Sampler};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::sync::oneshot;

#[path = "pages/as_rust.rs"]
mod as_rust;
#[path = "pages/outside.rs"]
mod outside;
#[path = "pages/record.rs"]
mod record;
#[path = "pages/schema.rs"]
mod schema;
#[path = "pages/slow.rs"]
mod slow;
#[path = "pages/statement.rs"]
mod statement;
#[path = "pages/tables.rs"]
mod tables;
#[path = "pages/work.rs"]
mod work;

const SYSTEMS: [&str; 5] = ["keiba", "tdnet", "weather", "shops", "lunch"];
const HOSTILE: &str = "</td><script>alert(1)</script>\"'><img src=x onerror=alert(1)>";

struct Beside;

impl Loader for Beside {
    fn load(&mut self, path: &str) -> Result<String, String> {
        Err(format!("no schema here includes {path}"))
    }
}

fn schema_files() -> Vec<SchemaFile> {
    let directory = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../schemas");
    let load = |system: &str| {
        let path = directory.join(format!("{system}.larder"));
        let text = std::fs::read_to_string(&path).unwrap();
        let loaded = Schema::load(&path.display().to_string(), &text, &mut Beside, &Environment::new());
        SchemaFile { path, loaded: Ok(loaded) }
    };
    SYSTEMS.map(load).into()
}

struct Running {
    address: SocketAddr,
    store: Store,
    _stop: oneshot::Sender<()>,
}

/// A console on five systems, each with some records.
async fn start(read_only: bool) -> Running {
    let store = Store::memory().await;
    for file in schema_files() {
        let schema = file.loaded.unwrap().schema.unwrap();
        let system = System::open_with(schema.clone(), store.clone(), Environment::new()).await.unwrap();
        for entity in schema.tables.iter().flat_map(|table| &table.entities) {
            let mut sampler = Sampler::new(&schema, &entity.name, 1).unwrap();
            let shelf = system.entries(&entity.name).unwrap();
            for _ in 0..3 {
                shelf.create(sampler.sample().unwrap()).await.unwrap();
            }
        }
    }
    serve(store, read_only)
}

fn serve(store: Store, read_only: bool) -> Running {
    serve_with(store, read_only, Box::new(schema_files))
}

fn serve_with(store: Store, read_only: bool, schemas: Schemas) -> Running {
    let options = Options { read_only, ..Options::at("127.0.0.1:0".parse().unwrap()) };
    let console = Console::bind(store.clone(), schemas, options).unwrap();
    let address = console.address();
    let (stop, stopped) = oneshot::channel();
    tokio::spawn(console.run(async {
        let _ = stopped.await;
    }));
    Running { address, store, _stop: stop }
}

struct Answer {
    status: u16,
    head: String,
    body: String,
}

impl Answer {
    fn header(&self, name: &str) -> Option<&str> {
        self.head.lines().find_map(|line| {
            let (known, value) = line.split_once(": ")?;
            known.eq_ignore_ascii_case(name).then_some(value)
        })
    }
}

async fn send(running: &Running, request: String) -> Answer {
    let mut stream = TcpStream::connect(running.address).await.unwrap();
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes).await.unwrap();
    let text = String::from_utf8(bytes).unwrap();
    let (head, body) = text.split_once("\r\n\r\n").unwrap();
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    Answer { status, head: head.to_owned(), body: body.to_owned() }
}

async fn get(running: &Running, path: &str) -> Answer {
    let host = running.address;
    send(running, format!("GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n")).await
}

/// Sends a form as a page of the console would.
async fn post(running: &Running, path: &str, form: &str) -> Answer {
    let first = get(running, "/find").await;
    let cookie = first.header("set-cookie").unwrap().split(';').next().unwrap().to_owned();
    // Any page with a form has the token; where nothing can be changed, that is a list.
    let mut page = String::new();
    for form in ["/new/lunch/Menu", "/new/kept/Note", "/items/aura-historia-data?by=all"] {
        if !page.contains("name=\"token\"") {
            page = get(running, form).await.body;
        }
    }
    let token = page.split("name=\"token\" value=\"").nth(1).unwrap().split('"').next().unwrap();
    let (host, body) = (running.address, format!("token={token}&{form}"));
    let head = format!("Host: {host}\r\nOrigin: http://{host}\r\nCookie: {cookie}\r\nConnection: close");
    let kind = "application/x-www-form-urlencoded";
    let length = body.len();
    send(
        running,
        format!(
            "POST {path} HTTP/1.1\r\n{head}\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\n\r\n{body}"
        ),
    )
    .await
}

fn links(page: &str, beginning: &str) -> Vec<String> {
    let found = page.split("href=\"").skip(1).filter_map(|rest| rest.split('"').next());
    found.filter(|link| link.starts_with(beginning)).map(|link| link.replace("&amp;", "&")).collect()
}

fn field<'a>(page: &'a str, name: &str) -> &'a str {
    page.split(&format!("name=\"{name}\" value=\"")).nth(1).unwrap().split('"').next().unwrap()
}

/// Every page there is a link to, each kind of page once for each entity.
async fn all_pages(running: &Running) -> Vec<String> {
    let mut pages = vec![
        "/".to_owned(),
        "/tables".to_owned(),
        "/traffic".to_owned(),
        "/create".to_owned(),
        "/backups".to_owned(),
        "/find?q=shop".to_owned(),
        "/statement".to_owned(),
        "/statement?statement=SELECT+*+FROM+%22aura-historia-data%22&run=1&scan=1".to_owned(),
    ];
    for file in schema_files() {
        let schema = file.loaded.unwrap().schema.unwrap();
        let system = &schema.system;
        pages.push(format!("/schema/{system}"));
        pages.extend(["drawing", "docs", "cost"].map(|view| format!("/schema/{system}?view={view}")));
        for (table, setup) in schema.tables.iter().zip(schema.tables(&Environment::new()).unwrap()) {
            let name = setup.definition.name;
            pages.extend([
                format!("/tables/{name}"),
                format!("/tables/{name}/delete"),
                format!("/tables/{name}/apply"),
                format!("/items/{name}"),
                format!("/items/{name}?by=key"),
            ]);
            for entity in &table.entities {
                let entity_name = &entity.name;
                pages.push(format!("/browse/{system}/{entity_name}"));
                pages.push(format!("/new/{system}/{entity_name}"));
                pages.push(format!("/invalidate/{system}/{entity_name}"));
                pages.push(format!("/seed/{system}/{entity_name}"));
                for index in table.indexes.iter().filter(|index| entity.access(table, Some(index)).is_some())
                {
                    pages.push(format!("/browse/{system}/{entity_name}?by={}", index.alias));
                }
                for lifecycle in &entity.lifecycles {
                    pages.push(format!("/board/{system}/{entity_name}/{}", lifecycle.name));
                }
                let rows = get(running, &format!("/browse/{system}/{entity_name}?by=all&scan=1")).await;
                let row =
                    links(&rows.body, "/item/").into_iter().next().unwrap_or_else(|| panic!("{entity_name}"));
                pages.push(row.replace(&format!("/item/{name}?"), &format!("/item/{name}/edit?")));
                pages.push(row.replace(&format!("/item/{name}?"), &format!("/item/{name}/edit?as=json&")));
                pages.push(row.replace(&format!("/item/{name}?"), &format!("/item/{name}/delete?")));
                pages.push(row);
            }
        }
    }
    pages
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a5_every_page_of_five_systems_is_there_and_none_scans_unasked() {
    let running = start(false).await;
    let pages = all_pages(&running).await;
    assert!(pages.len() > 100, "{}", pages.len());
    let scans = running.store.requests().count("Scan");
    for page in pages {
        let answer = get(&running, &page).await;
        assert_eq!(answer.status, 200, "{page}: {}", answer.body);
        assert!(answer.body.len() < 60_000, "{page} has {} bytes", answer.body.len());
    }
    assert_eq!(running.store.requests().count("Scan"), scans, "nobody asked for a scan");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_answer_keeps_scripts_frames_and_others_out() {
    let running = start(false).await;
    for path in ["/", "/nowhere", "/assets/console.js", "/tables/none"] {
        let answer = get(&running, path).await;
        let policy = answer.header("content-security-policy").unwrap();
        assert!(policy.contains("default-src 'none'") && !policy.contains("unsafe"), "{policy}");
        assert!(
            policy.contains("frame-ancestors 'none'") && answer.header("x-frame-options") == Some("DENY")
        );
        assert_eq!(answer.header("x-content-type-options"), Some("nosniff"), "{path}");
        assert!(!answer.body.contains(" style=\"") && !answer.body.contains("<script>"), "{path}");
    }
    assert_eq!(get(&running, "/nowhere").await.status, 404);
    let cookie = get(&running, "/").await.header("set-cookie").unwrap().to_owned();
    assert!(cookie.contains("HttpOnly") && cookie.contains("SameSite=Strict"), "{cookie}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_host_and_another_site_are_refused() {
    let running = start(false).await;
    let asked =
        |host: &str, more: &str| format!("GET / HTTP/1.1\r\nHost: {host}\r\n{more}Connection: close\r\n\r\n");
    let here = running.address.to_string();
    assert_eq!(send(&running, asked("evil.example", "")).await.status, 421);
    assert_eq!(
        send(&running, asked(&format!("evil.example:{}", running.address.port()), "")).await.status,
        421
    );
    let framed = "Sec-Fetch-Site: cross-site\r\nSec-Fetch-Mode: navigate\r\nSec-Fetch-Dest: iframe\r\n";
    assert_eq!(send(&running, asked(&here, framed)).await.status, 403);
    // A form of another site, and one without a token.
    for head in [
        format!("Origin: http://evil.example\r\nHost: {here}"),
        format!("Origin: http://{here}\r\nHost: {here}"),
    ] {
        let path = "/new/lunch/Menu";
        let text =
            format!("POST {path} HTTP/1.1\r\n{head}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
        assert_eq!(send(&running, text).await.status, 403, "{head}");
    }
    let put = format!("PUT / HTTP/1.1\r\nHost: {here}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
    assert_eq!(send(&running, put).await.status, 405);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_read_only_console_refuses_every_change() {
    let store = start(false).await;
    let start = "2020-01-01T00:00:00Z";
    let stuck = serde_json::json!({"pk": {"S": "SHOP#a.de"}, "sk": {"S": "META#"}, "domain": {"S": "a.de"},
        "core_domain_name": {"S": "a"}, "shop_country": {"S": "COUNTRY#DE"}, "last_crawled_start": {"S": start},
        "gsi2_pk": {"S": "COUNTRY#DE"}, "gsi2_sk": {"S": format!("PROGRESS#{start}")},
        "gsi3_pk": {"S": "COUNTRY#DE"}, "gsi3_sk": {"S": "NEVER#"}, "gsi4_pk": {"S": "a"}, "gsi4_sk": {"S": "a.de"}});
    put_raw(&store, "aura-historia-data", stuck).await;
    let row = "/item/aura-historia-data?pk=SHOP%23a.de&sk=META%23".to_owned();
    let shown = serve(store.store.clone(), true);
    let (may_change, page) = (get(&store, &row).await.body, get(&shown, &row).await.body);
    for word in ["Edit", "Delete", "Duplicate", "Release"] {
        assert!(may_change.contains(&format!(">{word}")), "{word}: {may_change}");
        assert!(!page.contains(&format!(">{word}")), "{word}");
    }
    let item = |last: &str| row.replace("aura-historia-data?", &format!("aura-historia-data/{last}?"));
    for path in [
        item("edit"),
        item("delete"),
        item("move"),
        "/new/lunch/Menu".to_owned(),
        "/items/aura-historia-data/new".to_owned(),
        "/items/aura-historia-data/import".to_owned(),
        "/items/aura-historia-data/delete".to_owned(),
        "/browse/shops/Shop/delete".to_owned(),
        "/invalidate/weather/Forecast".to_owned(),
        "/seed/weather/Forecast".to_owned(),
    ] {
        let answer = post(&shown, &path, "confirm=1&plan=1").await;
        assert_eq!(answer.status, 403, "{path}");
        assert!(answer.body.contains("read-only"), "{path}");
    }
    // A form that cannot be sent is not shown, be it by its address.
    for path in [
        item("edit"),
        item("delete"),
        "/new/lunch/Menu".to_owned(),
        "/items/aura-historia-data/new".to_owned(),
        "/items/aura-historia-data/import".to_owned(),
    ] {
        assert_eq!(get(&store, &path).await.status, 200, "{path}");
        let answer = get(&shown, &path).await;
        assert!(answer.status == 403 && answer.body.contains("read-only"), "{path}: {}", answer.body);
        assert!(!answer.body.contains("method=\"post\""), "{path}");
    }
    assert_eq!(get(&shown, &row).await.body, page, "it is as it was");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_change_is_confirmed_and_somebody_elses_is_not_written_over() {
    let running = start(false).await;
    let row = links(&get(&running, "/browse/shops/Shop?by=all&scan=1").await.body, "/item/").remove(0);
    let edit = row.replace("aura-historia-data?", "aura-historia-data/edit?");
    let form = get(&running, &edit).await.body;
    let seen = field(&form, "seen").to_owned();
    let change = |name: &str, seen: &str| format!("seen={seen}&field.shop_name={name}&field.country=DE");

    let asked = post(&running, &edit, &change("Mine", &seen)).await;
    assert!(asked.status == 200 && asked.body.contains("Write this?"), "{}", asked.body);
    assert!(!get(&running, &row).await.body.contains("Mine"), "nothing is written before that is confirmed");

    let written = post(&running, &edit, &format!("{}&confirm=1", change("Mine", &seen))).await;
    assert_eq!(written.status, 303, "{}", written.body);
    let page = get(&running, &row).await.body;
    assert!(page.contains("Mine") && page.contains("COUNTRY#DE"), "what is worked out follows: {page}");

    // The form of before is of an item that is no longer so.
    let late = post(&running, &edit, &format!("{}&confirm=1", change("Theirs", &seen))).await;
    assert!(late.status == 409 && late.body.contains("Somebody else changed it"), "{}", late.body);
    assert!(get(&running, &row).await.body.contains("Mine"));

    let raw = format!("{edit}&as=json");
    let late = post(&running, &raw, &format!("seen={seen}&confirm=1&item=%7B%7D")).await;
    assert_eq!(late.status, 422, "an item without its key is none: {}", late.body);

    let wrong = post(&running, &edit, &change("x", &seen).replace("DE", "germany")).await;
    assert!(wrong.status == 422 && wrong.body.contains("field-country-wrong"), "{}", wrong.body);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whatever_an_item_holds_is_shown_as_text_everywhere() {
    let running = start(false).await;
    let table = TableName::new("keiba_data").unwrap();
    let mut deep = AttributeValue::S(HOSTILE.to_owned());
    for _ in 0..25 {
        deep = AttributeValue::M([(HOSTILE, deep)].into_iter().collect());
    }
    let item: Item = [
        ("PK", AttributeValue::S(format!("X#{HOSTILE}"))),
        ("SK", AttributeValue::S(HOSTILE.to_owned())),
        ("s", AttributeValue::S(HOSTILE.repeat(5000))),
        ("b", AttributeValue::B(HOSTILE.as_bytes().to_vec())),
        ("ss", AttributeValue::Ss([HOSTILE.to_owned()].into())),
        ("ns", AttributeValue::Ns([larder::Number::from(1)].into())),
        ("bs", AttributeValue::Bs([HOSTILE.as_bytes().to_vec()].into())),
        ("l", AttributeValue::L(vec![AttributeValue::Null, AttributeValue::Bool(true), HOSTILE.into()])),
        ("m", deep),
        (HOSTILE, AttributeValue::from(1)),
    ]
    .into_iter()
    .collect();
    assert!(item.size() > 300_000 && item.size() < 400_000, "{}", item.size());
    let definition = running.store.describe(&table).await.unwrap().unwrap().definition;
    let names: Vec<&str> = definition.key.attributes().map(|key| key.name.as_str()).collect();
    let (pk, sk) = (names[0].to_owned(), names[1].to_owned());
    let item: Item = item
        .into_iter()
        .map(|(name, value)| match name.as_str() {
            "PK" => (pk.clone(), value),
            "SK" => (sk.clone(), value),
            _ => (name, value),
        })
        .collect();
    let put = PutItem { table, item, options: WriteOptions::default() };
    running.store.put_item(put).await.unwrap();

    let rows = get(&running, "/items/keiba_data?by=all&limit=500").await.body;
    let row = links(&rows, "/item/").into_iter().find(|link| link.contains("X%23")).unwrap();
    let all = ["edit", "delete"].map(|last| row.replace("keiba_data?", &format!("keiba_data/{last}?")));
    let asked = format!("/find?q={}", row.split("pk=").nth(1).unwrap());
    let filter = format!("/items/keiba_data?by=all&f={0}&o=eq&v={0}", "%3Cscript%3E%22");
    for path in [row, asked, filter].into_iter().chain(all) {
        let answer = get(&running, &path).await;
        assert_eq!(answer.status, 200, "{path}");
        let bare = answer.body.replace("<script src=\"/assets/console.js", "");
        assert!(!bare.contains("<script") && !bare.contains("<img"), "{path}");
    }
    let csv = get(&running, "/items/keiba_data?by=all&format=csv").await;
    assert!(csv.header("content-disposition").unwrap().starts_with("attachment"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_secret_is_on_no_page_before_it_is_asked_for() {
    let running = start(false).await;
    let schema = schema_files().remove(1).loaded.unwrap().schema.unwrap();
    let tdnet = System::open_with(schema, running.store.clone(), Environment::new()).await.unwrap();
    let exports = tdnet.entries("Export").unwrap();
    let id = "0b5ce6a0-5a51-4b7e-9c0e-0a3d6f1f2a11";
    let key = Fields::from([("export_id".to_owned(), Value::from(id))]);
    exports.create(key.clone()).await.unwrap();
    let status = exports.lifecycle("status").unwrap();
    status.run(key.clone(), "start", Fields::new()).await.unwrap();
    let url = Fields::from([("download_url".to_owned(), Value::from("https://s3.example/hush"))]);
    status.run(key, "complete", url).await.unwrap();

    let row = format!("/item/tdnet_export_status_dev?pk={id}");
    for path in [
        row.clone(),
        format!("/item/tdnet_export_status_dev/edit?pk={id}"),
        format!("/item/tdnet_export_status_dev/edit?as=json&pk={id}"),
        format!("/item/tdnet_export_status_dev/delete?pk={id}"),
        format!("/items/tdnet_export_status_dev/new?pk={id}"),
        format!("/new/tdnet/Export?pk={id}"),
        "/browse/tdnet/Export?by=all&scan=1&limit=500".to_owned(),
        "/browse/tdnet/Export?by=all&scan=1&format=json".to_owned(),
        "/items/tdnet_export_status_dev?by=all&limit=500".to_owned(),
        "/items/tdnet_export_status_dev?by=all&format=csv".to_owned(),
        "/board/tdnet/Export/status".to_owned(),
        "/statement?statement=SELECT+*+FROM+tdnet_export_status_dev&run=1&scan=1".to_owned(),
        "/statement?statement=SELECT+*+FROM+tdnet_export_status_dev&run=1&scan=1&as=json".to_owned(),
        "/statement?statement=SELECT+*+FROM+tdnet_export_status_dev&run=1&scan=1&format=csv".to_owned(),
    ] {
        let answer = get(&running, &path).await;
        assert!(answer.status == 200 && !answer.body.contains("hush"), "{path}: {}", answer.status);
    }
    let shown = post(&running, &format!("/item/tdnet_export_status_dev/reveal?pk={id}"), "").await;
    assert!(shown.body.contains("https://s3.example/hush"), "{}", shown.body);

    // It stays what it is when all else is written again.
    let edit = format!("/item/tdnet_export_status_dev/edit?as=json&pk={id}");
    let form = get(&running, &edit).await.body;
    let text = form
        .split("<textarea")
        .nth(1)
        .unwrap()
        .split('>')
        .nth(1)
        .unwrap()
        .split("</textarea")
        .next()
        .unwrap();
    let text = text.replace("&quot;", "\"").replace("&amp;", "&").replace("\"100\"", "\"99\"");
    let encoded: String = text.bytes().map(|byte| format!("%{byte:02X}")).collect();
    let sent = format!("seen={}&confirm=1&item={encoded}", field(&form, "seen"));
    let written = post(&running, &edit, &sent).await;
    assert_eq!(written.status, 303, "{}", written.body);
    let shown = post(&running, &format!("/item/tdnet_export_status_dev/reveal?pk={id}"), "").await;
    assert!(shown.body.contains("https://s3.example/hush") && shown.body.contains("99"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_chosen_is_deleted_and_nothing_else() {
    let running = start(false).await;
    let page = get(&running, "/browse/lunch/Menu?by=all&scan=1").await.body;
    let keys: Vec<String> = page
        .split("name=\"key\"")
        .skip(1)
        .map(|rest| rest.split("value=\"").nth(1).unwrap().split('"').next().unwrap().replace("&quot;", "\""))
        .collect();
    assert_eq!(keys.len(), 3);
    let two = format!("key={}&key={}", encode(&keys[0]), encode(&keys[1]));
    let asked = post(&running, "/browse/lunch/Menu/delete", &two).await;
    assert!(asked.body.contains("Delete 2 items?"), "{}", asked.body);
    let done = post(&running, "/browse/lunch/Menu/delete", &confirmed(&asked.body)).await;
    assert!(done.body.contains("2 items deleted"), "{}", done.body);
    assert_eq!(links(&get(&running, "/browse/lunch/Menu?by=all&scan=1").await.body, "/item/").len(), 1);
    let other = encode(r#"{"lunchCount": {"N": "1"}}"#);
    let refused = post(&running, "/browse/lunch/Menu/delete", &format!("key={other}&confirm=1")).await;
    assert_eq!(refused.status, 409, "{}", refused.body);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn only_loopback_is_listened_on() {
    let options = Options::at("0.0.0.0:0".parse().unwrap());
    let refused = Console::bind(Store::memory().await, Box::new(Vec::new), options);
    assert!(refused.unwrap_err().to_string().contains("loopback alone"));
}

const KEPT: &str = r#"
system kept

table notes {
  name  "kept_notes"
  key   pk
  index by_owner_i as by_owner  owner  project keys

  entity Note {
    key "N#{id}"
    id:     string nonempty
    owner:  string? nonempty
    title:  string?
    body:   string default "none"
    amount: float?
    doc:    json?
    flag:   bool?
    code:   string? secret
  }
}

table large {
  name  "kept_large"
  key   pk / sk
  entity Packed {
    key "P#{id}" / "M"
    compress over 1KB
    id:    string nonempty
    title: string?
    data:  string?
    pin:   string? secret
  }
  entity Split {
    key "S#{id}" / "M"
    oversize split
    id:    string nonempty
    title: string?
    data:  string
    pin:   string? secret
  }
}

table versions {
  name  "kept_versions"
  key   id
  index key as by_title  title  project all
  entity Versioned {
    versions on
    id:    string nonempty
    title: string? nonempty
  }
}
"#;

fn file_of(text: &str) -> SchemaFile {
    let loaded = Schema::load("kept.larder", text, &mut Beside, &Environment::new());
    SchemaFile { path: PathBuf::from("kept.larder"), loaded: Ok(loaded) }
}

/// What the console finds when it reads schemas, and how often it did.
struct Texts {
    now: Mutex<Vec<String>>,
    read: AtomicUsize,
}

impl Texts {
    /// Changes them, and waits until the console has read them.
    async fn change(&self, running: &Running, texts: Vec<String>) {
        *self.now.lock().unwrap() = texts;
        let before = self.read.load(Ordering::SeqCst);
        let seen = async {
            while self.read.load(Ordering::SeqCst) == before {
                get(running, "/find").await;
            }
        };
        tokio::time::timeout(std::time::Duration::from_secs(30), seen).await.unwrap();
    }
}

/// A console on the schema above, and the system that it shows.
async fn start_kept() -> (Running, System, Arc<Texts>) {
    let store = Store::memory().await;
    let schema = file_of(KEPT).loaded.unwrap().schema.unwrap();
    let system = System::open_with(schema, store.clone(), Environment::new()).await.unwrap();
    let texts = Arc::new(Texts { now: Mutex::new(vec![KEPT.to_owned()]), read: AtomicUsize::new(0) });
    let reader = Arc::clone(&texts);
    let schemas = move || {
        let files = reader.now.lock().unwrap().iter().map(|text| file_of(text)).collect();
        reader.read.fetch_add(1, Ordering::SeqCst);
        files
    };
    (serve_with(store, false, Box::new(schemas)), system, texts)
}

async fn put_raw(running: &Running, table: &str, json: serde_json::Value) {
    let item = larder_wire::decode_exported(format!("{{\"Item\":{json}}}").as_bytes()).unwrap();
    let put = PutItem { table: TableName::new(table).unwrap(), item, options: WriteOptions::default() };
    running.store.put_item(put).await.unwrap();
}

async fn stored(running: &Running, table: &str, key: &[(&str, &str)]) -> Option<Item> {
    let key = key.iter().map(|(name, value)| (*name, AttributeValue::from(*value))).collect();
    let request = GetItem {
        table: TableName::new(table).unwrap(),
        key,
        projection: None,
        consistent: true,
        capacity: ReturnCapacity::None,
    };
    running.store.get_item(request).await.unwrap()
}

fn encode(text: &str) -> String {
    text.bytes().map(|byte| format!("%{byte:02X}")).collect()
}

fn unescape(text: &str) -> String {
    text.replace("&quot;", "\"").replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&")
}

/// The fields of a form as a browser would send them: line ends are those of the protocol.
fn filled(page: &str) -> Vec<(String, String)> {
    let form = page.split("<form class=\"record\"").nth(1).unwrap().split("</form>").next().unwrap();
    let mut fields = Vec::new();
    let attribute = |tag: &str, name: &str| {
        let value = tag.split(&format!(" {name}=\"")).nth(1)?.split('"').next()?;
        Some(unescape(value))
    };
    for part in form.split('<').skip(1) {
        let (tag, after) = part.split_once('>').unwrap();
        let Some(name) = attribute(tag, "name").filter(|name| name != "token") else { continue };
        if tag.starts_with("input") {
            if tag.contains("type=\"checkbox\"") && !tag.contains(" checked") {
                continue;
            }
            let value = attribute(tag, "value").unwrap_or_default();
            fields.push((name, value.replace(['\r', '\n'], "")));
        } else if tag.starts_with("textarea") {
            let text = unescape(after).replace("\r\n", "\n").replace('\r', "\n");
            let text = text.strip_prefix('\n').unwrap_or(&text);
            fields.push((name, text.replace('\n', "\r\n")));
        } else if tag.starts_with("select") {
            let options = form.split(part).nth(1).unwrap().split("</select>").next().unwrap();
            let chosen = options.split('<').find(|option| option.contains(" selected"));
            fields.push((name, chosen.and_then(|tag| attribute(tag, "value")).unwrap_or_default()));
        }
    }
    fields
}

/// What a form sends that only asks to be confirmed.
fn confirmed(page: &str) -> String {
    let form = page.split("<form method=\"post\"").nth(1).unwrap();
    let hidden = form.split("<input type=\"hidden\" name=\"").skip(1).filter_map(|rest| {
        let (name, rest) = rest.split_once("\" value=\"")?;
        let value = unescape(rest.split('"').next()?);
        (name != "token").then(|| format!("{name}={}", encode(&value)))
    });
    hidden.collect::<Vec<_>>().join("&")
}

/// Fills a form in as a browser does, changes some fields, and gives the review and what is sent to confirm it.
async fn review(running: &Running, edit: &str, changes: &[(&str, &str)]) -> (Answer, String) {
    let page = get(running, edit).await;
    assert_eq!(page.status, 200, "{}", page.body);
    let mut fields = filled(&page.body);
    for (name, value) in changes {
        let field = fields.iter_mut().find(|(known, _)| known == name).unwrap_or_else(|| panic!("{name}"));
        (*value).clone_into(&mut field.1);
    }
    let sent: Vec<String> =
        fields.iter().map(|(name, value)| format!("{}={}", encode(name), encode(value))).collect();
    let sent = sent.join("&");
    (post(running, edit, &sent).await, format!("{sent}&confirm=1"))
}

async fn edit(running: &Running, path: &str, changes: &[(&str, &str)]) -> Answer {
    let (asked, confirmed) = review(running, path, changes).await;
    assert!(asked.status == 200 && asked.body.contains("Write this?"), "{}", asked.body);
    let written = post(running, path, &confirmed).await;
    assert_eq!(written.status, 303, "{}", written.body);
    asked
}

fn fields(pairs: &[(&str, &str)]) -> Fields {
    pairs.iter().map(|(name, value)| ((*name).to_owned(), Value::from(*value))).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_edit_of_a_record_in_parts_keeps_its_parts() {
    let (running, system, _) = start_kept().await;
    for (entity, key, data) in [("Packed", "P", "y".repeat(5000)), ("Split", "S", noise(900_000))] {
        let shelf = system.entries(entity).unwrap();
        let draft = fields(&[("id", "1"), ("title", "one"), ("data", &data)]);
        shelf.put(draft).await.unwrap();
        let page = get(&running, &format!("/item/kept_large?pk={key}%231&sk=M")).await;
        assert!(page.body.contains(&data[..150]), "{entity} is shown whole");
        edit(&running, &format!("/item/kept_large/edit?pk={key}%231&sk=M"), &[("field.title", "two")]).await;
        let now = shelf.get(fields(&[("id", "1")])).await.unwrap().unwrap();
        assert_eq!(now.fields["title"], Value::from("two"), "{entity}");
        assert!(now.fields["data"] == Value::from(data.as_str()), "{entity} keeps what was moved");
        let copy = get(&running, &format!("/new/kept/{entity}?pk={key}%231&sk=M")).await.body;
        assert!(copy.contains(&data[..150]), "{entity} is copied whole");
    }
}

/// Text that no packing makes small.
fn noise(length: usize) -> String {
    let mut state = 7_u64;
    let letter = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        char::from(b'a' + u8::try_from((state >> 33) % 26).unwrap())
    };
    std::iter::repeat_with(letter).take(length).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_edit_writes_what_was_changed_and_nothing_else() {
    let (running, _, _) = start_kept().await;
    let item = serde_json::json!({
        "pk": {"S": "N#1"}, "owner": {"S": "a"}, "title": {"S": ""}, "body": {"S": "one\r\ntwo\rthree"},
        "amount": {"N": "1.2345678901234567890123456789012345678"},
        "doc": {"M": {"set": {"SS": ["a", "b"]}, "bytes": {"B": "AAEC"}, "n": {"N": "12345678901234567890123456789012345678"}}},
        "code": {"S": "4711"}, "unknown": {"S": "kept"}, "unknown_map": {"M": {"a": {"N": "1"}}},
    });
    put_raw(&running, "kept_notes", item).await;
    let before = stored(&running, "kept_notes", &[("pk", "N#1")]).await.unwrap();
    let asked = edit(&running, "/item/kept_notes/edit?pk=N%231", &[("field.owner", "b")]).await;
    assert!(!asked.body.contains("unknown"), "what stays is not in the difference: {}", asked.body);
    let mut expected = before;
    expected.insert("owner", "b");
    assert_eq!(stored(&running, "kept_notes", &[("pk", "N#1")]).await, Some(expected.clone()));

    // What is emptied is removed, and the difference is that of the items.
    let asked = edit(&running, "/item/kept_notes/edit?pk=N%231", &[("field.amount", "")]).await;
    assert!(asked.body.contains(">amount</th>") && asked.body.contains("not there"), "{}", asked.body);
    expected.remove("amount");
    assert_eq!(stored(&running, "kept_notes", &[("pk", "N#1")]).await, Some(expected));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_others_wrote_since_the_form_was_made_is_not_taken_back() {
    let (running, _, _) = start_kept().await;
    let item = serde_json::json!({"pk": {"S": "N#1"}, "owner": {"S": "a"}, "title": {"S": "old"}, "body": {"S": "x"}});
    put_raw(&running, "kept_notes", item).await;
    let path = "/item/kept_notes/edit?pk=N%231";
    let mut mine = filled(&get(&running, path).await.body);
    edit(&running, path, &[("field.title", "theirs")]).await;
    let set = |fields: &mut Vec<(String, String)>, name: &str, value: &str| {
        let field = fields.iter_mut().find(|(known, _)| known == name).unwrap();
        value.clone_into(&mut field.1);
    };
    set(&mut mine, "field.owner", "mine");
    let sent = |fields: &[(String, String)]| {
        let pairs = fields.iter().map(|(name, value)| format!("{}={}", encode(name), encode(value)));
        pairs.collect::<Vec<_>>().join("&")
    };
    let late = post(&running, path, &format!("{}&confirm=1", sent(&mine))).await;
    assert_eq!(late.status, 409, "{}", late.body);
    let now = field(&late.body, "seen").to_owned();
    set(&mut mine, "seen", &now);
    let written = post(&running, path, &format!("{}&confirm=1", sent(&mine))).await;
    assert_eq!(written.status, 303, "{}", written.body);
    let now = stored(&running, "kept_notes", &[("pk", "N#1")]).await.unwrap();
    assert_eq!((now.get("owner"), now.get("title")), (Some(&"mine".into()), Some(&"theirs".into())));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_transition_sets_can_be_emptied_and_what_is_worked_out_stays() {
    let running = start(false).await;
    let rows = get(&running, "/items/aura-historia-data?by=all&limit=500").await.body;
    let mut seen = 0;
    for row in links(&rows, "/item/") {
        let edit_path = row.replace("aura-historia-data?", "aura-historia-data/edit?");
        let form = get(&running, &edit_path).await.body;
        if form.contains("name=\"field.last_scraped_start\"") {
            let set = "2026-02-03T04:05:06Z";
            edit(&running, &edit_path, &[("field.last_scraped_start", set)]).await;
            assert!(get(&running, &edit_path).await.body.contains(set));
            edit(&running, &edit_path, &[("field.last_scraped_start", "")]).await;
            assert!(!get(&running, &edit_path).await.body.contains(set), "{row}");
            seen += 1;
        }
    }
    assert!(seen > 0, "there is a shop");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_wide_item_is_edited_by_its_form_and_by_json() {
    let (running, _, _) = start_kept().await;
    let mut item: Item = [("pk", "N#1"), ("id", "1"), ("body", "x")]
        .map(|(name, text)| (name, AttributeValue::from(text)))
        .into_iter()
        .collect();
    for at in 0..320 {
        item.insert(format!("attribute{at}"), at);
    }
    let table = TableName::new("kept_notes").unwrap();
    running.store.put_item(PutItem { table, item, options: WriteOptions::default() }).await.unwrap();
    edit(&running, "/item/kept_notes/edit?pk=N%231", &[("field.owner", "b")]).await;
    let path = "/item/kept_notes/edit?as=json&pk=N%231";
    let form = get(&running, path).await.body;
    let text = filled(&form).into_iter().find(|(name, _)| name == "item").unwrap().1;
    let text = text.replace("\"319\"", "\"-1\"");
    edit(&running, path, &[("item", &text)]).await;
    let now = stored(&running, "kept_notes", &[("pk", "N#1")]).await.unwrap();
    assert_eq!(
        (now.len(), now.get("attribute319"), now.get("owner")),
        (324, Some(&(-1).into()), Some(&"b".into()))
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_edit_as_json_makes_a_new_version() {
    let (running, system, _) = start_kept().await;
    let shelf = system.entries("Versioned").unwrap();
    let read =
        shelf.create(fields(&[("id", "1"), ("title", "one")])).await.unwrap().kept().version().unwrap();
    let path = "/item/kept_versions/edit?as=json&pk=1";
    let text =
        filled(&get(&running, path).await.body).into_iter().find(|(name, _)| name == "item").unwrap().1;
    let asked = edit(&running, path, &[("item", &text.replace("\"one\"", "\"two\""))]).await;
    assert!(asked.body.contains(">larder_version</th>"), "{}", asked.body);
    let late = shelf.update(fields(&[("id", "1")])).set_value("title", "three".into()).if_version(read).await;
    assert!(matches!(late, Err(larder::Error::Conflict { .. })), "{late:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_row_that_changed_after_it_was_shown_is_not_deleted_with_the_others() {
    let (running, _, _) = start_kept().await;
    for id in ["1", "2"] {
        put_raw(
            &running,
            "kept_notes",
            serde_json::json!({"pk": {"S": format!("N#{id}")}, "title": {"S": "old"}}),
        )
        .await;
    }
    let key = |id: &str| encode(&format!("{{\"pk\": {{\"S\": \"N#{id}\"}}}}"));
    let two = format!("key={}&key={}", key("1"), key("2"));
    let asked = post(&running, "/items/kept_notes/delete", &two).await;
    assert!(asked.body.contains("Delete 2 items?") && asked.body.contains("old"), "{}", asked.body);
    put_raw(&running, "kept_notes", serde_json::json!({"pk": {"S": "N#2"}, "title": {"S": "new"}})).await;
    let done = post(&running, "/items/kept_notes/delete", &confirmed(&asked.body)).await;
    assert!(done.body.contains("1 item deleted") && done.body.contains("N#2"), "{}", done.body);
    assert!(stored(&running, "kept_notes", &[("pk", "N#1")]).await.is_none());
    assert!(stored(&running, "kept_notes", &[("pk", "N#2")]).await.is_some());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_filter_is_the_same_on_the_next_page_and_in_a_download() {
    let (running, _, _) = start_kept().await;
    for at in 0..60 {
        let mut item =
            serde_json::json!({"pk": {"S": format!("N#{at:02}")}, "title": {"S": format!("t{}", at % 3)}});
        if at % 2 == 0 {
            item["flag"] = serde_json::json!({"BOOL": true});
        }
        put_raw(&running, "kept_notes", item).await;
    }
    let views = ["/browse/kept/Note", "/items/kept_notes"];
    for view in views {
        // As the form sends it: the last, empty row of filters too; and with a row that was emptied.
        for (filters, rows) in
            [("f=flag&o=exists&v=&f=&o=eq&v=", 30), ("f=&o=eq&v=x&f=title&o=ne&v=t0&f=&o=eq&v=", 40)]
        {
            let first = get(&running, &format!("{view}?by=all&scan=1&limit=25&{filters}")).await.body;
            let csv = links(&first, view).into_iter().find(|link| link.contains("format=csv")).unwrap();
            assert_eq!(get(&running, &csv).await.body.lines().count(), rows + 1, "{csv}");
            let (mut found, mut next) = (0, Some(first));
            while let Some(page) = next.take() {
                found += links(&page, "/item/").len();
                let link = links(&page, view).into_iter().find(|link| link.contains("cursor="));
                if let Some(link) = link {
                    next = Some(get(&running, &link).await.body);
                }
            }
            assert_eq!(found, rows, "{view} {filters}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_download_is_whole_or_says_that_it_was_cut() {
    let (running, _, _) = start_kept().await;
    for at in 0..40 {
        let json = serde_json::json!({"pk": {"S": format!("N#{at}")}, "body": {"S": "x".repeat(100_000)}, "n": {"N": at.to_string()}});
        put_raw(&running, "kept_notes", json).await;
    }
    for path in ["/items/kept_notes?by=all", "/browse/kept/Note?by=all&scan=1"] {
        let csv = get(&running, &format!("{path}&format=csv")).await;
        assert_eq!((csv.status, csv.body.lines().count()), (200, 41), "{path}");
        let json = get(&running, &format!("{path}&format=json")).await;
        let rows: Vec<serde_json::Value> = serde_json::from_str(&json.body).unwrap();
        assert_eq!(rows.len(), 40, "{path}");
    }
    for at in 40..1100 {
        put_raw(&running, "kept_notes", serde_json::json!({"pk": {"S": format!("N#{at}")}})).await;
    }
    let cut = get(&running, "/items/kept_notes?by=all&format=csv").await;
    assert_eq!(cut.body.lines().count(), 1001);
    assert!(cut.header("content-disposition").unwrap().contains("first-1000"), "{}", cut.head);
    // An address that no store can answer is no failure of the store.
    assert_eq!(get(&running, "/item/kept_notes?pk=").await.status, 400);
    let wrong = get(&running, "/items/kept_notes?by=all&cursor=zzz&format=csv").await;
    assert!(wrong.status == 400 && !wrong.body.contains("<html"), "{} {}", wrong.status, wrong.body);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_number_of_a_csv_is_a_number() {
    let (running, _, _) = start_kept().await;
    let json = serde_json::json!({"pk": {"S": "N#1"}, "amount": {"N": "-43"}, "title": {"S": "a;=cmd"}, "body": {"S": "=1+1"}});
    put_raw(&running, "kept_notes", json).await;
    for path in ["/items/kept_notes?by=all&format=csv", "/browse/kept/Note?by=all&scan=1&format=csv"] {
        let csv = get(&running, path).await.body;
        assert!(csv.contains(",-43") && !csv.contains("'-43"), "{csv}");
        assert!(csv.contains("\"a;=cmd\"") && csv.contains("\"'=1+1\""), "{csv}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn secrets_stay_hidden_when_the_schema_breaks_or_is_gone() {
    let (running, _, texts) = start_kept().await;
    put_raw(&running, "kept_notes", serde_json::json!({"pk": {"S": "N#1"}, "code": {"S": "4711hush"}})).await;
    let paths =
        ["/item/kept_notes?pk=N%231", "/items/kept_notes?by=all&format=csv", "/items/kept_notes?by=all"];
    for broken in [vec!["system kept\n\ntable notes { name \"kept_notes\" key".to_owned()], Vec::new()] {
        for path in paths {
            assert!(!get(&running, path).await.body.contains("4711hush"), "{path}");
        }
        texts.change(&running, broken).await;
        for path in paths {
            assert!(!get(&running, path).await.body.contains("4711hush"), "{path} once the schema is broken");
        }
        texts.change(&running, vec![KEPT.to_owned()]).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn secrets_in_parts_are_hidden_too() {
    let (running, system, _) = start_kept().await;
    for (entity, data) in [("Packed", "y".repeat(5000)), ("Split", noise(900_000))] {
        let draft = fields(&[("id", "1"), ("data", &data), ("pin", "hush")]);
        system.entries(entity).unwrap().put(draft).await.unwrap();
    }
    let all = get(&running, "/items/kept_large?by=all&format=json").await.body;
    let rows: Vec<serde_json::Value> = serde_json::from_str(&all).unwrap();
    assert!(rows.len() > 2, "heads and chunks");
    for row in &rows {
        assert!(row.get("larder_packed").is_none() && row.get("larder_chunk").is_none());
    }
    for row in links(&get(&running, "/items/kept_large?by=all").await.body, "/item/") {
        for page in [row.clone(), row.replace("kept_large?", "kept_large/edit?as=json&")] {
            let body = get(&running, &page).await.body;
            assert!(!body.contains("&quot;B&quot;: &quot;"), "{page}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_secret_of_any_system_on_a_table_is_hidden() {
    let (running, _, texts) = start_kept().await;
    let other = r#"
system other
table notes {
  name "kept_notes"
  key pk
  entity Pin {
    key "PIN#{id}"
    id:   string nonempty
    word: string secret
  }
}
"#;
    texts.change(&running, vec![KEPT.to_owned(), other.to_owned()]).await;
    put_raw(&running, "kept_notes", serde_json::json!({"pk": {"S": "PIN#1"}, "word": {"S": "swordfish"}}))
        .await;
    for path in
        ["/item/kept_notes?pk=PIN%231", "/items/kept_notes?by=all&format=csv", "/items/kept_notes?by=all"]
    {
        assert!(!get(&running, path).await.body.contains("swordfish"), "{path}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_secret_is_told_by_no_filter_and_no_digest() {
    let (running, _, _) = start_kept().await;
    put_raw(&running, "kept_notes", serde_json::json!({"pk": {"S": "N#1"}, "code": {"S": "4711"}})).await;
    for view in ["/browse/kept/Note", "/items/kept_notes"] {
        let told = get(&running, &format!("{view}?by=all&scan=1&f=code&o=begins&v=47")).await.body;
        assert!(told.contains("secret") && links(&told, "/item/").is_empty(), "{told}");
    }
    // Another process has another digest of the same item.
    let item = stored(&running, "kept_notes", &[("pk", "N#1")]).await.unwrap();
    let mut line = Vec::new();
    larder_wire::encode_exported(&mut line, &item);
    let mut plain = std::hash::DefaultHasher::new();
    std::hash::Hash::hash(&line, &mut plain);
    let guessable = format!("{:016x}", std::hash::Hasher::finish(&plain));
    let form = get(&running, "/item/kept_notes/edit?pk=N%231").await.body;
    assert_ne!(field(&form, "seen"), guessable);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_filter_on_what_an_index_or_a_head_lacks_is_refused() {
    let (running, system, _) = start_kept().await;
    let draft = fields(&[("id", "1"), ("owner", "a"), ("title", "one")]);
    system.entries("Note").unwrap().create(draft).await.unwrap();
    let draft = fields(&[("id", "1"), ("data", &"y".repeat(5000))]);
    system.entries("Packed").unwrap().create(draft).await.unwrap();
    for path in [
        "/browse/kept/Note?by=by_owner&a.owner=a&f=title&o=missing&v=",
        "/items/kept_notes?by=by_owner_i&a.owner=a&f=title&o=missing&v=",
        "/browse/kept/Packed?by=all&scan=1&f=data&o=missing&v=",
    ] {
        let body = get(&running, path).await.body;
        assert!(links(&body, "/item/").is_empty() && body.contains("class=\"notice bad\""), "{path}: {body}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_page_reads_a_bounded_part_of_a_table() {
    let (running, _, _) = start_kept().await;
    for at in 0..40 {
        put_raw(
            &running,
            "kept_notes",
            serde_json::json!({"pk": {"S": format!("N#{at}")}, "body": {"S": "x".repeat(390_000)}}),
        )
        .await;
    }
    let scans = running.store.requests().count("Scan");
    let page = get(&running, "/browse/kept/Note?by=all&scan=1&limit=25&f=title&o=eq&v=none").await.body;
    assert!(running.store.requests().count("Scan") - scans <= 1, "one request of the store for a page");
    assert!(page.contains("id=\"next\""), "and the next one is offered: {page}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_link_of_another_site_begins_nothing_that_costs() {
    let (running, _, _) = start_kept().await;
    let host = running.address;
    let foreign = "Sec-Fetch-Site: cross-site\r\nSec-Fetch-Mode: navigate\r\nSec-Fetch-Dest: document";
    for (path, status) in [
        ("/items/kept_notes", 200),
        ("/items/kept_notes?by=all&format=csv", 403),
        ("/browse/kept/Note?by=all&scan=1&format=json", 403),
        ("/?count=kept_notes", 403),
        ("/invalidate/kept/Note", 200),
        ("/invalidate/kept/Note?plan=1", 403),
    ] {
        let request =
            format!("GET {path} HTTP/1.1\r\nHost: {host}\r\n{foreign}\r\nConnection: close\r\n\r\n");
        assert_eq!(send(&running, request).await.status, status, "{path}");
        assert_eq!(get(&running, path).await.status, 200, "{path} from here");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_item_is_found_by_what_looks_like_a_number_and_a_range_is_no_beginning() {
    let (running, _, _) = start_kept().await;
    put_raw(&running, "kept_notes", serde_json::json!({"pk": {"S": "N#1"}, "title": {"S": "room 12"}})).await;
    put_raw(&running, "kept_notes", serde_json::json!({"pk": {"S": "N#2"}, "title": {"NS": ["12"]}})).await;
    put_raw(&running, "kept_notes", serde_json::json!({"pk": {"S": "N#3"}, "title": {"S": "Zoo"}})).await;
    for (filter, rows) in [
        ("f=title&o=contains&v=12", 2),
        ("f=title&o=lacks&v=12", 1),
        ("f=title&o=contains&v=%2212%22", 1),
        ("f=title&o=begins&v=%22Z%22", 1),
        ("f=title&o=begins&v=Z", 1),
    ] {
        let page = get(&running, &format!("/items/kept_notes?by=all&{filter}")).await.body;
        assert_eq!(links(&page, "/item/").len(), rows, "{filter}");
    }
    // An index may have the name of another way to ask.
    put_raw(&running, "kept_versions", serde_json::json!({"id": {"S": "1"}, "title": {"S": "one"}})).await;
    for way in ["by=key&a.id=1", "by=index.key&a.title=one"] {
        let page = get(&running, &format!("/items/kept_versions?{way}")).await;
        assert_eq!((page.status, links(&page.body, "/item/").len()), (200, 1), "{way}: {}", page.body);
    }
    let both = get(&running, "/items/kept_large?by=key&a.pk=P%231&from=A&begins=B").await;
    assert!(both.status == 400 && both.body.contains("give one of them"), "{}", both.body);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_scan_tells_its_price_first_unless_the_schema_allows_it_and_nobody_pays() {
    let running = start(false).await;
    let scans = || running.store.requests().count("Scan");
    let before = scans();
    for (path, says) in
        [("/browse/keiba/Race?by=all", "scan deny"), ("/browse/weather/Forecast?by=all", "scan ask")]
    {
        let page = get(&running, path).await.body;
        assert!(page.contains("Read a page: 0.5 read units") && page.contains(says), "{page}");
        assert_eq!(get(&running, &format!("{path}&format=csv")).await.status, 400);
    }
    assert_eq!(scans(), before, "nothing was read");
    let page = get(&running, "/browse/keiba/Race?by=all").await.body;
    let begin = links(&page, "/browse/").into_iter().find(|link| link.contains("scan=1")).unwrap();
    let page = get(&running, &begin).await.body;
    assert!(page.contains("3 rows"), "{page}");
    // The code leaves out what the page does: other entities, and parts.
    assert!(page.contains("attribute_not_exists(") && page.contains("begins_with("), "{page}");
    for path in ["/browse/lunch/Menu?by=all", "/items/keiba_data?by=all"] {
        assert!(!links(&get(&running, path).await.body, "/item/").is_empty(), "{path} goes straight");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_secret_that_is_typed_is_on_no_page_and_can_be_removed() {
    let (running, _, _) = start_kept().await;
    let key = [("pk", "N#1")];
    let code = async || stored(&running, "kept_notes", &key).await.unwrap().get("code").cloned();
    put_raw(
        &running,
        "kept_notes",
        serde_json::json!({"pk": {"S": "N#1"}, "id": {"S": "1"}, "body": {"S": "b"}, "code": {"S": "old"}}),
    )
    .await;
    let path = "/item/kept_notes/edit?pk=N%231";
    let (asked, _) = review(&running, path, &[("field.code", "line one\r\nhush4711")]).await;
    assert!(asked.body.contains("Write this?") && !asked.body.contains("hush4711"), "{}", asked.body);
    let sent = confirmed(&asked.body);
    assert_eq!(post(&running, path, &sent).await.status, 303);
    assert_eq!(code().await, Some("line one\nhush4711".into()), "lines are kept");

    // The same as JSON, and where somebody was faster.
    let raw = format!("{path}&as=json");
    let text = r#"{"pk": {"S": "N#1"}, "id": {"S": "1"}, "body": {"S": "b"}, "code": {"S": "hush4712"}}"#;
    let late = post(&running, &raw, &format!("seen=x&item={}", encode(text))).await;
    assert!(late.status == 409 && !late.body.contains("hush4712"), "{}", late.body);
    let asked = post(&running, &raw, &confirmed(&late.body)).await;
    assert!(asked.body.contains("Write this?") && !asked.body.contains("hush4712"), "{}", asked.body);
    assert_eq!(post(&running, &raw, &confirmed(&asked.body)).await.status, 303);
    assert_eq!(code().await, Some("hush4712".into()));
    let forgotten = post(&running, &raw, "aside.item=nothing&confirm=1").await;
    assert!(forgotten.status == 409 && forgotten.body.contains("Start over"), "{}", forgotten.body);

    let page = get(&running, path).await.body;
    let seen = field(&page, "seen");
    let removed = post(&running, path, &format!("seen={seen}&field.code=&clear.code=1&confirm=1")).await;
    assert_eq!(removed.status, 303, "{}", removed.body);
    assert_eq!(code().await, None);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_record_is_shown_as_it_was_and_the_changes_of_its_table_as_they_came() {
    let running = start(false).await;
    let table = TableName::new("kept_past").unwrap();
    let lunch = TableName::new("lunch-cache-dev").unwrap();
    let lunch = running.store.describe(&lunch).await.unwrap().unwrap().definition;
    let names: Vec<String> = lunch.key.attributes().map(|key| key.name.clone()).collect();
    let definition = larder_model::TableDefinition {
        name: table.clone(),
        attributes: lunch.key.attributes().map(|key| (key.name.clone(), key.kind)).collect(),
        stream: Some(larder_model::StreamView::NewAndOldImages),
        indexes: Vec::new(),
        ..lunch
    };
    assert_eq!(names.len(), 1, "{names:?}");
    running.store.create_table(&definition).await.unwrap();
    let key = &names[0];
    for (id, title) in [("a", "first"), ("b", "other"), ("a", "second"), ("a", "third")] {
        put_raw(&running, "kept_past", serde_json::json!({key: {"S": id}, "title": {"S": title}})).await;
    }
    let path = "/item/kept_past/history?pk=a";
    let page = get(&running, path).await;
    assert_eq!(page.status, 200, "{}", page.body);
    assert!(page.body.contains("until now") && page.body.contains("third"), "{}", page.body);
    let versions = links(&page.body, "/item/kept_past/history?pk=a&amp;at=");
    // Each is on the line and in the list.
    assert_eq!(versions.len(), 6, "{versions:?}");
    let oldest = get(&running, &versions[0]).await.body;
    assert!(oldest.contains("first") && !oldest.contains("third"), "{oldest}");
    let middle = get(&running, &versions[1]).await.body;
    assert!(middle.contains("first") && middle.contains("second") && !middle.contains("third"), "{middle}");
    let early = get(&running, &format!("{path}&moment=2001-01-01T00:00:00Z")).await.body;
    assert!(early.contains("nothing is known"), "{early}");
    let late = get(&running, &format!("{path}&moment=2999-01-01T00:00:00Z")).await.body;
    assert!(late.contains("As it was at") && late.contains("third"), "{late}");
    assert_eq!(get(&running, &format!("{path}&moment=yesterday")).await.status, 400);

    let all = get(&running, "/changes/kept_past").await.body;
    assert!(all.contains("4 changes"), "{all}");
    let some = get(&running, "/changes/kept_past?event=changed&key=a&attribute=title").await.body;
    assert!(some.contains("<b>2 changes</b>"), "{some}");
    let none = get(&running, "/changes/kept_past?attribute=other").await.body;
    assert!(none.contains("<b>0 changes</b>"), "{none}");
    let off = get(&running, "/changes/keiba_data").await.body;
    assert!(off.contains("The past is not kept") && off.contains("pitr on"), "{off}");
    let requests = get(&running, "/requests").await.body;
    assert!(requests.contains("Only a server knows"), "{requests}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_past_of_a_secret_is_hidden_too() {
    let (running, _, _) = start_kept().await;
    let table = TableName::new("kept_notes").unwrap();
    let on = larder::store::TableChange::Stream(Some(larder_model::StreamView::NewAndOldImages));
    running.store.change_table(&table, &on).await.unwrap();
    for code in ["hush1", "hush2"] {
        put_raw(
            &running,
            "kept_notes",
            serde_json::json!({"pk": {"S": "N#1"}, "body": {"S": "b"}, "code": {"S": code}}),
        )
        .await;
    }
    let page = get(&running, "/item/kept_notes/history?pk=N%231").await.body;
    for path in links(&page, "/item/kept_notes/history").into_iter().chain(["/changes/kept_notes".to_owned()])
    {
        let page = get(&running, &path).await;
        assert!(page.status == 200 && !page.body.contains("hush"), "{path}: {}", page.body);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_cannot_be_read_as_a_whole_is_read_field_by_field() {
    let (running, _, _) = start_kept().await;
    put_raw(
        &running,
        "kept_notes",
        serde_json::json!({"pk": {"S": "N#1"}, "title": {"S": "legible"}, "flag": {"S": "no flag"}}),
    )
    .await;
    let page = get(&running, "/item/kept_notes?pk=N%231").await.body;
    let fields = page.split("aria-label=\"Fields\"").nth(1).unwrap().split("</table>").next().unwrap();
    assert!(page.contains("role=\"alert\"") && fields.contains("legible"), "{fields}");
}
