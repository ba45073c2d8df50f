//! Transactions: all or none, with a reason for each step that was in the way.

#![expect(clippy::unwrap_used, reason = "the helpers of a test fail with the test")]

mod stores;
mod systems;

use larder::store::Fault;
use larder::{Entry, Environment, Error, Fields, Schema, Shelf, Store, System, Value};
use larder_schema::NoFiles;

const SCHEMA: &str = r#"
system bank
param table_name: string = "bank" from KEIBA_TABLE_NAME
table bank {
  name  table_name
  key   pk
  entity Account {
    key "ACCOUNT#{id}"
    versions on
    input id: string nonempty
    balance:  int in 0..
    owner:    string?
  }
  entity Entry {
    key "ENTRY#{number}"
    input number: string nonempty
    amount:       int
  }
}
"#;

async fn bank(store: &Store) -> (System, Shelf<Entry>, Shelf<Entry>) {
    let system = systems::open_text(SCHEMA, store).await;
    let (accounts, entries) = (system.entries("Account").unwrap(), system.entries("Entry").unwrap());
    for (id, balance) in [("a", 10), ("b", 0)] {
        accounts.create(account(id, balance)).await.unwrap();
    }
    (system, accounts, entries)
}

fn account(name: &str, balance: i64) -> Fields {
    let mut fields = id(name);
    fields.insert("balance".to_owned(), balance.into());
    fields
}

fn id(id: &str) -> Fields {
    Fields::from([("id".to_owned(), id.into())])
}

fn entry(number: &str) -> Fields {
    Fields::from([("number".to_owned(), number.into()), ("amount".to_owned(), Value::from(5))])
}

fn number(number: &str) -> Fields {
    Fields::from([("number".to_owned(), number.into())])
}

#[tokio::test]
async fn a_transaction_stays_within_one_region_of_a_store_that_is_not_open_yet() {
    let text = r#"
system regions
table here {
  key     id
  region  "eu-north-1"
  entity Here { id: string nonempty }
}
table there {
  key     id
  region  "us-west-2"
  entity There { id: string nonempty }
}
"#;
    let loaded = Schema::load("test.larder", text, &mut NoFiles, &Environment::new());
    let schema = loaded.schema.unwrap_or_else(|| panic!("{:?}", loaded.diagnostics));
    let store = Store::lazy("dynamodb:".parse().unwrap()).observed();
    let system = System::open(schema, store.clone()).await.unwrap();
    let (here, there) = (system.entries("Here").unwrap(), system.entries("There").unwrap());
    let both = system.transaction().put(&here, id("1")).put(&there, id("1"));
    let refused = both.run().await;
    assert!(
        matches!(&refused, Err(Error::NotAllowed(cause)) if cause.contains("span regions")),
        "{refused:?}"
    );
    assert_eq!(store.requests().total(), 0, "nothing is sent");
}

async fn balance(accounts: &Shelf<Entry>, name: &str) -> i64 {
    accounts.get(id(name)).await.unwrap().unwrap().fields["balance"].as_i64().unwrap()
}

#[test]
fn steps_of_every_kind_happen_together() {
    stores::each_with_transactions(async |store| {
        let (bank, accounts, entries) = bank(&store).await;
        entries.create(entry("old")).await.unwrap();
        bank.transaction()
            .update(accounts.update(id("a")).add("balance", -5))
            .put(&accounts, account("b", 5))
            .create(&entries, entry("1"))
            .delete(&entries, number("old"))
            .check_absent(&accounts, id("c"))
            .run()
            .await
            .unwrap();
        assert_eq!((balance(&accounts, "a").await, balance(&accounts, "b").await), (5, 5));
        assert!(entries.get(number("1")).await.unwrap().is_some());
        assert!(entries.get(number("old")).await.unwrap().is_none());
    });
}

#[test]
fn nothing_is_written_when_one_step_cannot_be() {
    stores::each_with_transactions(async |store| {
        let (bank, accounts, entries) = bank(&store).await;
        entries.create(entry("1")).await.unwrap();
        let error = bank
            .transaction()
            .update(accounts.update(id("a")).add("balance", 100))
            .create(&entries, entry("1"))
            .check(&accounts, id("nobody"))
            .run()
            .await
            .unwrap_err();
        let Error::Cancelled(obstacles) = &error else { panic!("{error}") };
        let told: Vec<_> = obstacles.iter().map(|it| (it.step, &*it.entity, &*it.key, &*it.cause)).collect();
        assert_eq!(
            told,
            [(1, "Entry", "ENTRY#1", "it exists already"), (2, "Account", "ACCOUNT#nobody", "there is none")]
        );
        assert_eq!(balance(&accounts, "a").await, 10);
    });
}

#[test]
fn transfers_that_race_lose_no_money() {
    stores::each_with_transactions(async |store| {
        let (bank, accounts, _) = bank(&store).await;
        let transfer = || async {
            let transaction = bank.transaction().update(accounts.update(id("a")).add("balance", -1));
            transaction.update(accounts.update(id("b")).add("balance", 1)).run().await
        };
        let outcomes = futures_util::future::join_all((0..12).map(|_| transfer())).await;
        let made = i64::try_from(outcomes.iter().filter(|outcome| outcome.is_ok()).count()).unwrap();
        let (a, b) = (balance(&accounts, "a").await, balance(&accounts, "b").await);
        assert_eq!((a, b), (10 - made, made));
        assert!(made > 0);
    });
}

#[test]
fn a_lost_answer_is_asked_for_again_and_written_once() {
    stores::run(async {
        let store = Store::memory().await;
        let (bank, accounts, _) = bank(&store).await;
        store.faults().only(&["TransactWriteItems"]).fail_next(1, Fault::LostAnswer);
        bank.transaction().update(accounts.update(id("a")).add("balance", -3)).run().await.unwrap();
        assert_eq!(balance(&accounts, "a").await, 7);
    });
}

#[test]
fn a_token_makes_the_second_run_do_nothing() {
    stores::each_with_tokens(async |store| {
        let (bank, _, entries) = bank(&store).await;
        for _ in 0..2 {
            bank.transaction().create(&entries, entry("1")).token("once").run().await.unwrap();
        }
    });
}

#[test]
fn what_cannot_be_one_transaction_is_said_before_anything_is_sent() {
    stores::run(async {
        let store = Store::memory().await;
        let (bank, accounts, entries) = bank(&store).await;
        let twice =
            bank.transaction().check(&accounts, id("a")).delete(&accounts, id("a")).run().await.unwrap_err();
        assert!(twice.to_string().contains("two for Account ACCOUNT#a"), "{twice}");
        let many = (0..101)
            .fold(bank.transaction(), |transaction, at| transaction.create(&entries, entry(&at.to_string())));
        assert!(many.run().await.unwrap_err().to_string().contains("at most 100"));
        let wrong = bank.transaction().put(&accounts, account("c", -1)).run().await.unwrap_err();
        assert!(matches!(wrong, Error::Invalid(_)), "{wrong}");
        assert_eq!(store.requests().count("TransactWriteItems"), 0);
        bank.transaction().run().await.unwrap();
    });
}

#[test]
fn a_record_that_was_read_does_not_overwrite_a_newer_version() {
    stores::each_with_transactions(async |store| {
        let (bank, accounts, _) = bank(&store).await;
        let read = accounts.get(id("a")).await.unwrap().unwrap();
        accounts.update(id("a")).add("balance", 1).await.unwrap();
        let error = bank.transaction().put(&accounts, read).run().await.unwrap_err();
        assert!(matches!(error, Error::Conflict { .. }), "{error}");
        assert_eq!(balance(&accounts, "a").await, 11);
    });
}
