//! Tables made, changed, brought back and deleted by forms: on Larder's store and on DynamoDB Local.

use larder::Address;
use larder_local::DynamoDbLocal;

use super::*;

fn table(name: &str) -> TableName {
    TableName::new(name).unwrap()
}

/// Posts a change of a table that is to be done at once.
async fn changed(running: &Running, name: &str, form: &str) {
    let answer = post(running, &format!("/tables/{name}/change"), form).await;
    assert_eq!(answer.status, 303, "{form}: {}", answer.body);
}

/// Waits until the store has done what takes it a while.
async fn settled(running: &Running, name: &str) -> larder::store::Deployed {
    for asked in 0..200 {
        match running.store.describe(&table(name)).await.unwrap() {
            Some(deployed) if deployed.busy.is_none() => return deployed,
            _ => running.store.pause(asked).await.unwrap(),
        }
    }
    panic!("{name} is not settled");
}

const CREATE: &str = "name=made-here&partition=pk&partition-type=S&sort=sk&sort-type=N&billing=on-demand&rows=2\
    &index-1=by_day&kind-1=global&index-partition-1=day&index-partition-type-1=S&holds-1=include&include-1=a,+b\
    &index-2=by_size&kind-2=local&index-sort-2=size&index-sort-type-2=N&holds-2=keys&view=NEW_IMAGE";

async fn made_and_changed(running: &Running) {
    let bad = post(running, "/create", &CREATE.replace("name=made-here", "name=a")).await;
    assert!(bad.status == 422 && bad.body.contains("3 to 255 characters"), "{}", bad.body);
    assert!(bad.body.contains("value=\"by_day\""), "what was written is still there");
    let made = post(running, "/create", CREATE).await;
    assert_eq!(made.status, 303, "{}", made.body);
    let deployed = settled(running, "made-here").await;
    let indexes: Vec<&str> = deployed.definition.indexes.iter().map(|index| index.name.as_str()).collect();
    assert!(indexes.contains(&"by_day") && indexes.contains(&"by_size"), "{indexes:?}");
    assert!(deployed.definition.stream.is_some());

    // What begins to delete items says so first.
    let asked = post(running, "/tables/made-here/change", "what=ttl&attribute=ends").await;
    assert!(asked.status == 200 && asked.body.contains("Is that meant?"), "{}", asked.body);
    assert_eq!(settled(running, "made-here").await.ttl_attribute, None);
    changed(running, "made-here", "what=ttl&attribute=ends&confirm=1").await;
    assert_eq!(settled(running, "made-here").await.ttl_attribute.as_deref(), Some("ends"));

    changed(
        running,
        "made-here",
        "what=index&index=by_owner&index-partition=owner&index-partition-type=S&holds=all",
    )
    .await;
    assert!(settled(running, "made-here").await.definition.index("by_owner").is_some());
    let asked = post(running, "/tables/made-here/change", "what=drop&index=by_owner").await;
    assert!(asked.status == 200 && asked.body.contains("by_owner"), "{}", asked.body);
    assert!(
        settled(running, "made-here").await.definition.index("by_owner").is_some(),
        "asked, and not dropped"
    );
    changed(running, "made-here", "what=drop&index=by_owner&confirm=1").await;
    assert!(settled(running, "made-here").await.definition.index("by_owner").is_none());

    // What the store refuses is told in the form it came from, which is open.
    let wrong = post(running, "/tables/made-here/change", "what=index&index=by_owner&index-partition=").await;
    assert!(wrong.status == 422 && wrong.body.contains("a partition key is needed"), "{}", wrong.body);
    assert!(wrong.body.contains("id=\"change\" open"), "{}", wrong.body);

    changed(running, "made-here", "what=billing&billing=provisioned&read=3&write=2").await;
    let billing = settled(running, "made-here").await.definition.billing;
    assert_eq!(billing, larder_model::Billing::Provisioned(larder_model::Throughput { read: 3, write: 2 }));
}

async fn deleted(running: &Running) {
    let wrong = post(running, "/tables/made-here/delete", "name=made").await;
    assert!(wrong.status == 422 && wrong.body.contains("Nothing was deleted"), "{}", wrong.body);
    assert_eq!(post(running, "/tables/made-here/delete", "name=made-here").await.status, 303);
    for asked in 0..200 {
        if running.store.describe(&table("made-here")).await.unwrap().is_none() {
            return;
        }
        running.store.pause(asked).await.unwrap();
    }
    panic!("it is still there");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_table_is_made_changed_protected_and_deleted_by_forms() {
    let running = serve(Store::memory().await, false);
    made_and_changed(&running).await;
    changed(&running, "made-here", "what=tag&key=team&value=red").await;
    assert_eq!(running.store.tags(&table("made-here")).await.unwrap()["team"], "red");
    changed(&running, "made-here", "what=untag&key=team").await;
    assert!(running.store.tags(&table("made-here")).await.unwrap().is_empty());
    changed(&running, "made-here", "what=protection&on=1").await;
    let refused = post(&running, "/tables/made-here/delete", "name=made-here").await;
    assert!(refused.status == 422 && refused.body.contains("protected"), "{}", refused.body);
    changed(&running, "made-here", "what=protection").await;
    changed(&running, "made-here", "what=class&class=infrequent").await;
    deleted(&running).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_table_is_backed_up_and_brought_back_into_a_new_one() {
    let running = start(false).await;
    let name = "lunch-cache-dev";
    let count = |running: &Running, name: &str| {
        let (store, name) = (running.store.clone(), table(name));
        async move { larder::census::size(&store, &name).await.unwrap().map(|size| size.items) }
    };
    let items = count(&running, name).await.unwrap();
    assert_eq!(post(&running, "/backups", &format!("do=make&table={name}&name=nightly")).await.status, 303);
    let page = get(&running, &format!("/tables/{name}")).await.body;
    let arn = page.split("name=\"arn\" value=\"").nth(1).unwrap().split('"').next().unwrap().to_owned();
    assert!(get(&running, "/backups").await.body.contains("nightly"));

    let wrong = post(&running, "/backups", &format!("do=restore&arn={}&to={name}", encode(&arn))).await;
    assert!(
        wrong.status == 422 && wrong.body.contains("exists"),
        "a table is never written over: {}",
        wrong.body
    );
    let done = post(&running, "/backups", &format!("do=restore&arn={}&to=brought-back", encode(&arn))).await;
    assert_eq!(done.status, 303, "{}", done.body);
    settled(&running, "brought-back").await;
    assert_eq!(count(&running, "brought-back").await, Some(items));

    let moment =
        post(&running, "/backups", &format!("do=moment&table={name}&at=yesterday&to=as-it-was")).await;
    assert!(moment.status == 422 && moment.body.contains("is no moment"), "{}", moment.body);
    let moment = post(&running, "/backups", &format!("do=moment&table={name}&at=&to=as-it-was")).await;
    assert_eq!(moment.status, 303, "{}", moment.body);
    settled(&running, "as-it-was").await;
    assert_eq!(count(&running, "as-it-was").await, Some(items));

    let asked = post(&running, "/backups", &format!("do=remove&arn={}&name=nightly", encode(&arn))).await;
    assert!(
        asked.status == 200 && get(&running, "/backups").await.body.contains("nightly"),
        "it is asked first"
    );
    let gone = post(&running, "/backups", &format!("do=remove&arn={}&confirm=1", encode(&arn))).await;
    assert_eq!(gone.status, 303, "{}", gone.body);
    assert!(!get(&running, "/backups").await.body.contains("nightly"));

    // The end of recovery is told before it happens.
    let off = format!("/tables/{name}/change");
    assert_eq!(post(&running, &off, "what=recovery&days=").await.status, 200);
    assert_eq!(settled(&running, name).await.pitr_days, Some(35));
    changed(&running, name, "what=recovery&days=7").await;
    assert_eq!(settled(&running, name).await.pitr_days, Some(7));
    changed(&running, name, "what=recovery&days=&confirm=1").await;
    assert_eq!(settled(&running, name).await.pitr_days, None);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_schema_is_applied_as_it_was_shown_and_destroys_only_what_was_chosen() {
    let running = serve(Store::memory().await, false);
    let name = "aura-historia-data";
    let page = get(&running, &format!("/tables/{name}/apply")).await.body;
    let seen = field(&page, "seen").to_owned();
    let done = post(&running, &format!("/tables/{name}/apply"), &format!("seen={seen}")).await;
    assert!(done.status == 200 && done.body.contains("create the table"), "{}", done.body);
    assert!(get(&running, &format!("/tables/{name}")).await.body.contains("All is as the schema says"));
    assert_eq!(
        running.store.list_tables().await.unwrap(),
        [table(name)],
        "the other tables are not made by it"
    );

    // Somebody drops an index and adds another: the plan of before is not what is done.
    let index = settled(&running, name).await.definition.indexes[0].name.clone();
    changed(&running, name, &format!("what=drop&index={index}&confirm=1")).await;
    settled(&running, name).await;
    changed(&running, name, "what=index&index=by_hand&index-partition=hand").await;
    settled(&running, name).await;
    let late = post(&running, &format!("/tables/{name}/apply"), &format!("seen={seen}")).await;
    assert!(late.body.contains("Nothing was done"), "{}", late.body);
    assert!(settled(&running, name).await.definition.index(index.as_str()).is_none());

    let page = get(&running, &format!("/tables/{name}/apply")).await.body;
    let done =
        post(&running, &format!("/tables/{name}/apply"), &format!("seen={}", field(&page, "seen"))).await;
    assert_eq!(done.status, 200, "{}", done.body);
    let after = settled(&running, name).await.definition;
    assert!(after.index(index.as_str()).is_some(), "what the schema has is there again");
    assert!(after.index("by_hand").is_some(), "nobody chose to destroy it");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_read_only_console_changes_no_table() {
    let store = start(false).await;
    let shown = serve(store.store.clone(), true);
    let name = "lunch-cache-dev";
    let page = get(&shown, &format!("/tables/{name}")).await.body;
    assert!(!page.contains("Change it") && !page.contains("Drop…") && !page.contains("Back it up"));
    let before = store.store.describe(&table(name)).await.unwrap();
    for (path, form) in [
        ("/create", CREATE),
        (&format!("/tables/{name}/change"), "what=protection&on=1"),
        (&format!("/tables/{name}/delete"), "name=lunch-cache-dev"),
        (&format!("/tables/{name}/apply"), "seen=1"),
        ("/backups", "do=make&table=lunch-cache-dev&name=nightly"),
    ] {
        let answer = post(&shown, path, form).await;
        assert!(answer.status == 403 && answer.body.contains("read-only"), "{path}: {}", answer.body);
    }
    assert_eq!(store.store.describe(&table(name)).await.unwrap(), before);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn dynamodb_local_s_tables_are_made_and_changed_and_what_it_lacks_is_told() {
    let Some(local) = DynamoDbLocal::start() else { return };
    let address = Address::DynamoDb { endpoint: Some(local.url.clone()) };
    let store = Store::open(&address).await.unwrap();
    let running = serve(store, false);
    made_and_changed(&running).await;
    let page = get(&running, "/tables/made-here").await;
    assert_eq!(page.status, 200, "{}", page.body);
    for lack in ["This store cannot keep backups of a table", "This store cannot: "] {
        assert!(page.body.contains(lack), "{lack}: {}", page.body);
    }
    let refused = post(&running, "/backups", "do=make&table=made-here&name=nightly").await;
    assert!(
        refused.status == 422 && refused.body.contains("does not know the operation"),
        "{}",
        refused.body
    );
    deleted(&running).await;
}
