//! What is made and removed while somebody looks on, and drafts that are checked before they are sent.

use super::statement::encoded;
use super::*;

/// The page of a work, once it is over.
async fn over(running: &Running, begun: &Answer) -> String {
    assert_eq!(begun.status, 303, "{}", begun.body);
    let address = begun.header("location").unwrap();
    loop {
        let page = get(running, address).await;
        assert_eq!(page.status, 200, "{}", page.body);
        if !page.body.contains("data-again") {
            return page.body;
        }
        tokio::task::yield_now().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sample_records_are_made_as_many_as_asked_and_break_nothing() {
    let running = start(false).await;
    for file in schema_files() {
        let schema = file.loaded.unwrap().schema.unwrap();
        let system = System::on(schema.clone(), running.store.clone(), Environment::new()).unwrap();
        for table in &schema.tables {
            for entity in &table.entities {
                let path = format!("/seed/{}/{}", schema.system, entity.name);
                assert!(get(&running, &path).await.body.contains("The first of them"), "{path}");
                let page = over(&running, &post(&running, &path, "count=12&seed=7").await).await;
                assert!(page.contains("12 records put"), "{path}: {page}");
            }
            // All are records that the schema knows: none is a stranger.
            let census = system.census(&table.name, |_| {}).await.unwrap().unwrap();
            assert_eq!(census.strangers.items, 0, "{}", table.name);
            for entity in &table.entities {
                assert!(census.entities[&entity.name].items >= 12, "{}", entity.name);
            }
        }
    }
    for (form, told) in [
        ("count=0&seed=1", "from 1 to 1000"),
        ("count=1001&seed=1", "from 1 to 1000"),
        ("count=1&seed=x", "whole number"),
    ] {
        let wrong = post(&running, "/seed/lunch/Menu", form).await;
        assert!(wrong.status == 422 && wrong.body.contains(told), "{form}: {}", wrong.body);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_entity_without_records_offers_sample_records() {
    let store = Store::memory().await;
    let schema = schema_files().remove(4).loaded.unwrap().schema.unwrap();
    System::open_with(schema, store.clone(), Environment::new()).await.unwrap();
    let running = serve(store.clone(), false);
    assert_eq!(
        links(&get(&running, "/browse/lunch/Menu?by=all&scan=1").await.body, "/seed/"),
        ["/seed/lunch/Menu"]
    );
    over(&running, &post(&running, "/seed/lunch/Menu", "count=1&seed=1").await).await;
    assert!(links(&get(&running, "/browse/lunch/Menu?by=all&scan=1").await.body, "/seed/").is_empty());
    let shown = serve(store, true);
    assert!(links(&get(&shown, "/browse/lunch/Menu?by=all&scan=1").await.body, "/seed/").is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_downloaded_is_put_again_and_what_is_wrong_puts_nothing() {
    let running = start(false).await;
    let import = "/items/lunch-cache-dev/import";
    assert!(get(&running, "/items/lunch-cache-dev").await.body.contains(import));
    let download = get(&running, "/items/lunch-cache-dev?by=all&scan=1&format=json").await;
    let items: Vec<serde_json::Value> = serde_json::from_str(&download.body).unwrap();
    assert!(items.len() > 1, "{}", download.body);
    let form = |text: &str| format!("items={}", encoded(text));
    let page = over(&running, &post(&running, import, &form(&download.body)).await).await;
    assert!(page.contains(&format!("0 items put, {} were there and stay", items.len())), "{page}");

    let mut lines: Vec<String> = items.iter().map(ToString::to_string).collect();
    let mut other = items[0].clone();
    other["pk"] = serde_json::json!({"S": "kajen-2001-01"});
    lines.push(other.to_string());
    let wrong = post(&running, import, &form(&lines.join("\n"))).await;
    let told = format!("item {}: ", lines.len());
    assert!(
        wrong.status == 422 && wrong.body.contains(&told),
        "its key is not what its fields say: {}",
        wrong.body
    );
    assert_eq!(get(&running, "/item/lunch-cache-dev?pk=kajen-2001-01").await.status, 404, "nothing was put");
    let page = over(&running, &post(&running, import, &(form(&lines[0]) + "&over=1")).await).await;
    assert!(page.contains("1 item put"), "{page}");
    for text in ["", "id=1", "[{]"] {
        assert_eq!(post(&running, import, &form(text)).await.status, 422, "{text}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_invalidation_tells_how_far_it_is_and_what_it_removed() {
    let running = start(false).await;
    let plan = get(&running, "/invalidate/weather/Forecast?plan=1").await.body;
    assert!(plan.contains("Remove 3 items"), "{plan}");
    let page = over(&running, &post(&running, "/invalidate/weather/Forecast", "plan=1").await).await;
    assert!(page.contains("3 items removed") && page.contains("role=\"status\""), "{page}");
    let plan = get(&running, "/invalidate/weather/Forecast?plan=1").await.body;
    assert!(plan.contains("Nothing would be removed"), "{plan}");
    assert_eq!(get(&running, "/progress/999").await.status, 404);
    assert_eq!(get(&running, "/progress/x").await.status, 404);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_draft_is_checked_and_nothing_is_written() {
    let running = start(false).await;
    let items = |running: &Running| {
        running.store.requests().count("PutItem") + running.store.requests().count("UpdateItem")
    };
    let before = items(&running);
    let draft = post(&running, "/check/shops/Shop", "field.domain=a.de&field.country=germany").await;
    let told: serde_json::Value = serde_json::from_str(&draft.body).unwrap();
    assert!(told["wrong"]["country"].as_str().unwrap().contains("[A-Z]{2}"), "{told}");
    assert!(told["wrong"].get("domain").is_none(), "{told}");
    let sound = post(&running, "/check/shops/Shop", "field.domain=a.de&field.country=DE").await;
    assert_eq!(sound.body, "{\"wrong\":{}}");

    // Of a record that is there, what nobody touched is no edit, whatever it is.
    let row = links(&get(&running, "/browse/shops/Shop?by=all&scan=1").await.body, "/item/").remove(0);
    let form = get(&running, &row.replace("aura-historia-data?", "aura-historia-data/edit?")).await.body;
    assert!(
        form.contains("data-check=\"/check/shops/Shop\"") && form.contains("pattern=\"[A-Z]{2}\""),
        "{form}"
    );
    let was = field(&form, "was.country");
    let untouched = post(&running, "/check/shops/Shop", &format!("was.country={was}&field.country=")).await;
    assert_eq!(untouched.body, "{\"wrong\":{}}");
    let touched = post(&running, "/check/shops/Shop", &format!("was.country={was}&field.country=x")).await;
    assert!(touched.body.contains("country"), "{}", touched.body);
    assert_eq!(items(&running), before);

    // Without a token it is a form of somebody else.
    let here = running.address;
    let request = format!(
        "POST /check/shops/Shop HTTP/1.1\r\nHost: {here}\r\nOrigin: http://{here}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
    );
    assert_eq!(send(&running, request).await.status, 403);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_expires_soon_is_told_without_a_scan() {
    let store = Store::memory().await;
    let schema = schema_files().remove(2).loaded.unwrap().schema.unwrap();
    let system = System::open_with(schema.clone(), store.clone(), Environment::new()).await.unwrap();
    let shelf = system.entries("Forecast").unwrap();
    let mut sampler = Sampler::new(&schema, "Forecast", 1).unwrap();
    for _ in 0..5 {
        shelf.put(sampler.sample().unwrap()).await.unwrap();
    }
    let running = serve(store.clone(), false);
    let scans = store.requests().count("Scan");
    let page = get(&running, "/").await.body;
    let table = TableName::new("weather-forecast-cache-prod").unwrap();
    let day = larder::census::expiring(&store, &table, 86_400, 100).unwrap().unwrap();
    let hour = larder::census::expiring(&store, &table, 3600, 100).unwrap().unwrap();
    assert!(page.contains(&format!("{hour} expire within an hour, {day} within a day")), "{page}");
    let ever = larder::census::expiring(&store, &table, 400 * 86_400, 100).unwrap();
    assert_eq!(
        (ever, larder::census::expiring(&store, &table, 400 * 86_400, 3).unwrap()),
        (Some(5), Some(3))
    );
    assert_eq!(store.requests().count("Scan"), scans);
}
