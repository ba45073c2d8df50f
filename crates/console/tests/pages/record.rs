//! What the page of a record tells beside its fields, and what a view tells beside its rows.

use larder::store::ops::PutItem;

use super::*;

const FAILING: &str = "the shop did not answer: <b>503</b> from https://shop.example/api?key=hush";

async fn shops(running: &Running) -> System {
    let schema = schema_files().remove(3).loaded.unwrap().schema.unwrap();
    System::open_with(schema, running.store.clone(), Environment::new()).await.unwrap()
}

fn shop_page(domain: &str) -> String {
    format!("/item/aura-historia-data?pk=SHOP%23{domain}&sk=META%23")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_record_says_where_it_is_in_each_index_and_what_its_collection_holds() {
    let running = start(false).await;
    let system = shops(&running).await;
    system.entries("Shop").unwrap().create(fields(&[("domain", "a.de"), ("country", "DE")])).await.unwrap();
    let page = get(&running, &shop_page("a.de")).await.body;
    let indexes = page.split("aria-label=\"Indexes\"").nth(1).unwrap().split("</table>").next().unwrap();
    assert!(indexes.contains("by_last_crawled") && indexes.contains("COUNTRY#DE"), "{indexes}");
    assert!(indexes.contains("gsi2_sk ") && indexes.contains("NEVER#"), "{indexes}");
    for way in links(indexes, "/browse/shops/Shop?") {
        let beside = get(&running, &way).await;
        assert!(beside.status == 200 && beside.body.contains("a.de"), "{way}");
    }
    assert!(links(indexes, "/browse/shops/Shop?by=by_last_crawled&amp;a.country=DE").len() == 1, "{indexes}");

    // A shop of no country lacks what an index of countries is keyed by.
    system.entries("Shop").unwrap().create(fields(&[("domain", "b.de")])).await.unwrap();
    let page = get(&running, &shop_page("b.de")).await.body;
    assert!(page.contains("not in it: lacks") && page.contains("gsi2_pk"), "{page}");

    let members = page.split("Collection ShopWithPages").nth(1).unwrap().split("</section>").next().unwrap();
    assert!(members.contains("this one") && members.contains("No Page is there"), "{members}");
    for at in 0..30 {
        let page = serde_json::json!({"pk": {"S": "SHOP#b.de"}, "sk": {"S": format!("URL#https://b.de/{at:02}")},
            "domain": {"S": "b.de"}, "url": {"S": format!("https://b.de/{at:02}")}});
        put_raw(&running, "aura-historia-data", page).await;
    }
    let queries = running.store.requests().count("Query");
    let page = get(&running, &shop_page("b.de")).await.body;
    assert_eq!(running.store.requests().count("Query") - queries, 1, "one bounded request");
    let members = page.split("Collection ShopWithPages").nth(1).unwrap().split("</section>").next().unwrap();
    assert!(members.contains("More than the first 25 items of the partition"), "{members}");
    assert!(links(members, "/item/aura-historia-data?").len() >= 24, "{members}");
    let all = links(members, "/items/aura-historia-data?by=key&amp;a.pk=SHOP%23b.de");
    assert!(get(&running, &all[0]).await.body.contains("31 rows"), "{all:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_record_says_since_when_it_is_kept() {
    let running = start(false).await;
    let row = links(&get(&running, "/browse/lunch/Menu?by=all").await.body, "/item/").remove(0);
    let page = get(&running, &row).await.body;
    assert!(page.contains("kept since"), "{page}");
    running.store.clock().advance(std::time::Duration::from_secs(7200));
    let later = get(&running, &row).await.body;
    let since = later.split("kept since").nth(1).unwrap().split("</div>").next().unwrap();
    assert!(since.contains("2 h ago"), "{since}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_record_that_is_not_as_the_schema_says_shows_what_is_wrong_and_where_the_schema_says_so() {
    let running = start(false).await;
    let shop = serde_json::json!({"pk": {"S": "SHOP#a.de"}, "sk": {"S": "META#"}, "domain": {"N": "7"}});
    put_raw(&running, "aura-historia-data", shop).await;
    let page = get(&running, &shop_page("a.de")).await.body;
    let wrong =
        page.split("<section class=\"card wrong\">").nth(1).unwrap().split("</section>").next().unwrap();
    assert!(wrong.contains("violation") && wrong.contains("domain"), "{wrong}");
    assert!(wrong.contains("shops.larder:"), "the line that says so: {wrong}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_shop_that_pauses_shows_its_error_and_is_tried_again_at_once() {
    let running = start(false).await;
    let system = shops(&running).await;
    let shelf = system.entries("Shop").unwrap();
    let crawl = shelf.lifecycle("crawl").unwrap();
    let key = fields(&[("domain", "a.de")]);
    shelf.create(fields(&[("domain", "a.de"), ("country", "ZZ")])).await.unwrap();
    let held = crawl.hold(key.clone()).await.unwrap();
    let board = "/board/shops/Shop/crawl?a.country=ZZ";
    for page in [board.to_owned(), shop_page("a.de")] {
        let page = get(&running, &page).await.body;
        assert!(!page.contains(">Release<") && !page.contains(">Retry now<"), "a lease that lives: {page}");
    }
    assert!(get(&running, board).await.body.contains("<dt>held by</dt>"));
    held.retry(FAILING).await.unwrap();
    for page in [board.to_owned(), shop_page("a.de")] {
        let page = get(&running, &page).await.body;
        assert!(
            page.contains("last error") && page.contains("the shop did not answer: &lt;b&gt;503"),
            "{page}"
        );
        assert!(page.contains("https://shop.example/api?…") && !page.contains("hush"), "{page}");
        assert!(page.contains("1 attempt") || page.contains("<dt>attempts</dt><dd>1</dd>"), "{page}");
        assert!(page.contains(">Retry now<") && !page.contains(">Release<"), "{page}");
    }
    assert!(crawl.due("ZZ").await.unwrap().is_empty());
    let path = "/item/aura-historia-data/move?pk=SHOP%23a.de&sk=META%23";
    let moved = post(&running, path, "lifecycle=crawl&do=retry").await;
    assert_eq!(moved.status, 303, "{}", moved.body);
    assert!(get(&running, moved.header("location").unwrap()).await.body.contains("it is due again"));
    let due = crawl.due("ZZ").await.unwrap();
    assert_eq!((due.len(), due[0].attempts, due[0].pauses), (1, 1, false));

    // A lease that ran out is released, and nothing else is.
    let held = crawl.hold(key.clone()).await.unwrap();
    assert_eq!(crawl.standing(key.clone()).await.unwrap().unwrap().error, None, "a claim begins anew");
    drop(held);
    let refused = post(&running, path, "lifecycle=crawl&do=retry").await;
    assert_eq!(refused.status, 409, "{}", refused.body);
    running.store.clock().advance(std::time::Duration::from_secs(3 * 3600));
    let page = get(&running, board).await.body;
    assert!(page.contains(">Release<") && page.contains("stuck"), "{page}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_item_is_checked_while_it_is_written_as_json() {
    let running = start(false).await;
    let wrong = async |path: &str, text: &str| {
        let answer = post(&running, path, &format!("item={}", encode(text))).await;
        assert_eq!(answer.status, 200, "{}", answer.body);
        let json: serde_json::Value = serde_json::from_str(&answer.body).unwrap();
        json["wrong"]["item"].as_str().map(str::to_owned)
    };
    let table = "/check/aura-historia-data";
    assert!(wrong(table, "{").await.unwrap().contains("not JSON"));
    assert!(wrong(table, r#"{"pk": {"X": "1"}}"#).await.is_some(), "there is no type X");
    let row =
        get(&running, &links(&get(&running, "/browse/shops/Shop?by=all&scan=1").await.body, "/item/")[0])
            .await
            .body;
    let raw = row.split("aria-label=\"Raw item\">").nth(1).unwrap().split("</pre>").next().unwrap();
    let raw = unescape(raw);
    assert_eq!(wrong(table, &raw).await, None);
    let told = wrong(table, &raw.replace("\"domain\": {", "\"domain_\": {")).await.unwrap();
    assert!(told.contains("domain"), "{told}");
    // Where no schema knows better, an item is one that DynamoDB can read.
    assert_eq!(wrong("/check/anything-else", r#"{"a": {"SS": ["x"]}}"#).await, None);

    // A secret that is only said to be there is none that lacks.
    let (running, _, _) = start_kept().await;
    put_raw(
        &running,
        "kept_notes",
        serde_json::json!({"pk": {"S": "N#1"}, "id": {"S": "1"}, "body": {"S": "b"}, "code": {"S": "hush"}}),
    )
    .await;
    let path = "/item/kept_notes/edit?as=json&pk=N%231";
    let text =
        filled(&get(&running, path).await.body).into_iter().find(|(name, _)| name == "item").unwrap().1;
    let told = post(&running, "/check/kept_notes", &format!("item={}", encode(&text))).await.body;
    assert!(!told.contains("code") && !told.contains("hush"), "{told}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_view_tells_its_price_before_and_after_and_is_code_of_every_kind() {
    let running = start(false).await;
    let system = shops(&running).await;
    system.entries("Shop").unwrap().create(fields(&[("domain", "a.de"), ("country", "DE")])).await.unwrap();
    let asked = get(&running, "/browse/shops/Shop?by=by_last_crawled").await.body;
    assert!(asked.contains("A page takes about") || asked.contains("A page takes at most"), "{asked}");
    assert!(asked.contains("read unit") && asked.contains("here it is free"), "{asked}");
    assert!(
        asked.contains("<datalist id=\"beginnings\">") && asked.contains("value=\"NEVER#\">never"),
        "{asked}"
    );

    let page = get(&running, "/browse/shops/Shop?by=by_last_crawled&a.country=DE&newest=1&begins=NEVER%23")
        .await
        .body;
    assert!(page.contains("took 0.5 read units, less than $0.000001"), "{page}");
    let code = unescape(&page);
    for line in include_str!("as_rust.rs").lines().skip_while(|line| !line.contains("// begin")).skip(1) {
        if line.contains("// end") {
            break;
        }
        assert!(code.contains(line.trim()), "{line}: {code}");
    }
    assert!(code.contains("use larder::{Store, Value};") && code.contains("larder::schema!(\""), "{code}");
    assert!(code.contains("larder query shops.Shop by_last_crawled country=DE"), "{code}");

    // With filters, the command is a statement; a table has one without a schema too.
    let filtered = "/browse/shops/Shop?by=by_last_crawled&a.country=DE&newest=1&f=domain&o=begins&v=a";
    for (path, from) in [
        (
            filtered,
            "FROM \"aura-historia-data\".\"CountryLastCrawledIndex\" WHERE \"gsi2_pk\" = '\\''COUNTRY#DE'\\''",
        ),
        (
            "/items/aura-historia-data?by=key&a.pk=SHOP%23a.de",
            "FROM \"aura-historia-data\" WHERE \"pk\" = '\\''SHOP#a.de'\\''",
        ),
    ] {
        let code = unescape(&get(&running, path).await.body);
        assert!(code.contains("larder sql 'SELECT * ") && code.contains(from), "{path}: {code}");
        assert!(code.contains("use aws_sdk_dynamodb::Client;"), "{path}: {code}");
    }
    let code = unescape(&get(&running, filtered).await.body);
    assert!(code.contains("ORDER BY \"gsi2_sk\" DESC' --limit 50"), "{code}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_ends_of_a_range_are_picked_by_their_type() {
    let running = start(false).await;
    let page = get(&running, "/browse/tdnet/Disclosure?by=by_company&a.company_code=7203").await.body;
    let from = page.split("id=\"from\"").nth(1).unwrap().split('>').next().unwrap();
    assert!(from.contains("type=\"date\"") || from.contains("type=\"datetime-local\""), "{from}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn all_records_of_an_entity_are_read_a_little_at_a_time() {
    let (running, _, _) = start_kept().await;
    let table = TableName::new("kept_notes").unwrap();
    for at in 0..400 {
        let item: Item = [("pk", AttributeValue::S(format!("N#{at:03}"))), ("id", at.to_string().into())]
            .into_iter()
            .collect();
        running
            .store
            .put_item(PutItem { table: table.clone(), item, options: WriteOptions::default() })
            .await
            .unwrap();
    }
    let page = get(&running, "/browse/kept/Note?by=all&scan=1&limit=25").await.body;
    assert!(page.contains("<b>25 rows</b>, and more"), "{page}");
    // 25 items of a few bytes are less than 4 KB.
    assert!(page.contains("took 0.5 read units"), "only what is shown is read: {page}");
    let far = get(&running, "/browse/kept/Note?by=all&scan=1&limit=25&f=id&o=eq&v=399").await.body;
    assert_eq!(links(&far, "/item/").len(), 1, "what is rare is looked for further: {far}");
}
