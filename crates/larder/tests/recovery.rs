//! What was removed by accident comes back, through the programs that teams have for DynamoDB.

#![allow(clippy::unwrap_used, reason = "what fails here fails the test")]

mod stores;
mod systems;

use std::time::{Duration, Instant};

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::primitives::DateTime;
use aws_sdk_dynamodb::types::TableStatus;
use larder::{Address, Fields, Store, Value};

const PATIENCE: Duration = Duration::from_secs(20);

fn menu(week: i64) -> Fields {
    let values = [("restaurant", "niagara".into()), ("year", 2025.into()), ("week", week.into())];
    let lunches = [("lunches", Value::List(Vec::new()))];
    values.into_iter().chain(lunches).map(|(name, value): (&str, Value)| (name.to_owned(), value)).collect()
}

async fn wait_until_active(client: &Client, table: &str) {
    let begun = Instant::now();
    loop {
        let described = client.describe_table().table_name(table).send().await.unwrap();
        if described.table().unwrap().table_status() == Some(&TableStatus::Active) {
            return;
        }
        assert!(begun.elapsed() < PATIENCE, "{table} is not whole in time");
        tokio::task::yield_now().await;
    }
}

async fn keys(client: &Client, table: &str) -> Vec<String> {
    let page = client.scan().table_name(table).send().await.unwrap();
    let mut keys: Vec<String> = page.items().iter().map(|item| item["pk"].as_s().unwrap().clone()).collect();
    keys.sort();
    keys
}

#[test]
fn l8_l15_t10_a_table_is_restored_to_a_moment_before_an_accidental_delete() {
    stores::run(async {
        let directory = tempfile::tempdir().unwrap();
        let store = Store::open(&Address::Directory(directory.path().join("data"))).await.unwrap().observed();
        let client = store.sdk_client().await.unwrap();
        let lunch = systems::open("lunch", &store).await;
        let name = store.list_tables().await.unwrap()[0].clone();
        let (table, deployed) = (name.as_str(), store.describe(&name).await.unwrap().unwrap());
        assert_eq!(deployed.pitr_days, Some(35), "the schema says so, and `apply` did it");

        let menus = lunch.entries("Menu").unwrap();
        for week in 1..=5 {
            menus.put(menu(week)).await.unwrap();
        }
        store.clock().advance(Duration::from_secs(3600));
        let before = store.clock().now();
        store.clock().advance(Duration::from_secs(3600));
        for week in 2..=4 {
            menus.delete(menu(week)).await.unwrap();
        }
        menus.put(menu(9)).await.unwrap();
        store.clock().advance(Duration::from_secs(3600));

        client
            .restore_table_to_point_in_time()
            .source_table_name(table)
            .target_table_name("restored")
            .restore_date_time(DateTime::from_secs(before.seconds()))
            .send()
            .await
            .unwrap();
        wait_until_active(&client, "restored").await;
        let week = |week: i64| format!("niagara-2025-{week:02}");
        assert_eq!(keys(&client, "restored").await, (1..=5).map(week).collect::<Vec<_>>());
        assert_eq!(keys(&client, table).await, [1, 5, 9].map(week));
    });
}

#[test]
fn t10_a_table_that_was_deleted_with_its_word_can_be_restored_from_what_it_left() {
    stores::run(async {
        let store = Store::memory().await;
        let client = store.sdk_client().await.unwrap();
        let lunch = systems::open("lunch", &store).await;
        let table = store.list_tables().await.unwrap()[0].clone();
        lunch.entries("Menu").unwrap().put(menu(3)).await.unwrap();
        store.delete_table(&table).await.unwrap();

        let backups = client.list_backups().backup_type("SYSTEM".into()).send().await.unwrap();
        let backup = backups.backup_summaries()[0].backup_arn().unwrap().to_owned();
        let restore = client.restore_table_from_backup().backup_arn(backup).target_table_name(table.as_str());
        restore.send().await.unwrap();
        wait_until_active(&client, table.as_str()).await;
        assert_eq!(keys(&client, table.as_str()).await, ["niagara-2025-03"]);
    });
}
