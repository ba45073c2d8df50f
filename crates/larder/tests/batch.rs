//! Many records at once, each with an outcome of its own.

#![expect(clippy::unwrap_used, reason = "the helpers of a test fail with the test")]

mod stores;
mod systems;

use larder::store::Fault;
use larder::{Entry, Error, Fields, Shelf, Store, Value};

const SCHEMA: &str = r#"
system notes
param table_name: string = "notes" from KEIBA_TABLE_NAME
table notes {
  name  table_name
  key   id
  ttl   ends
  entity Note {
    ttl 1h
    id:    string nonempty
    text:  string len 0..=20
  }
}
"#;

async fn notes(store: &Store) -> Shelf<Entry> {
    systems::open_text(SCHEMA, store).await.entries("Note").unwrap()
}

fn note(number: usize, text: &str) -> Fields {
    let mut note = id(number);
    note.insert("text".to_owned(), text.into());
    note
}

fn id(number: usize) -> Fields {
    Fields::from([("id".to_owned(), Value::from(format!("{number:04}").as_str()))])
}

fn succeeded<T>(outcomes: &[Result<T, Error>]) -> usize {
    outcomes.iter().filter(|outcome| outcome.is_ok()).count()
}

#[test]
fn l14_batches_of_any_size_are_written_read_and_removed() {
    stores::each(async |store| {
        let notes = notes(&store).await;
        let written = notes.put_many((0..230).map(|number| note(number, "hello"))).await;
        assert_eq!(succeeded(&written), 230);
        assert_eq!(written[7].as_ref().unwrap().fields["id"], "0007".into());

        let found = notes.get_many((0..240).rev().map(id)).await;
        let there = found.iter().filter(|(_, outcome)| outcome.as_ref().unwrap().is_some()).count();
        assert_eq!(there, 230);
        assert_eq!(found[0].0, id(239), "in the order they were asked for");
        assert_eq!(found[239].1.as_ref().unwrap().as_ref().unwrap().fields["id"], "0000".into());

        let removed = notes.delete_many((0..240).map(id)).await;
        assert!(removed.iter().all(|(_, outcome)| outcome.is_ok()));
        let found = notes.get_many((0..240).map(id)).await;
        assert!(found.iter().all(|(_, outcome)| matches!(outcome, Ok(None))));
    });
}

#[test]
fn of_two_records_with_one_key_the_later_is_written() {
    stores::each(async |store| {
        let notes = notes(&store).await;
        let written = notes.put_many([note(1, "first"), note(2, "other"), note(1, "second")]).await;
        assert_eq!(succeeded(&written), 3);
        let found = notes.get_many([id(1), id(1), id(2)]).await;
        for (at, text) in [(0, "second"), (1, "second"), (2, "other")] {
            assert_eq!(found[at].1.as_ref().unwrap().as_ref().unwrap().fields["text"], text.into());
        }
        assert!(notes.delete_many([id(1), id(1)]).await.iter().all(|(_, outcome)| outcome.is_ok()));
    });
}

#[test]
fn what_is_wrong_with_one_record_is_told_of_that_one() {
    stores::each(async |store| {
        let notes = notes(&store).await;
        let written =
            notes.put_many([note(1, "fine"), note(2, "much too long for a note"), note(3, "fine")]).await;
        assert!(written[0].is_ok() && written[2].is_ok());
        assert!(matches!(written[1], Err(Error::Invalid(_))), "{:?}", written[1]);
        assert_eq!(notes.get(id(2)).await.unwrap(), None);
        let found = notes.get_many([id(1), Fields::new(), id(3)]).await;
        assert!(matches!(found[1].1, Err(Error::Key { .. })), "{:?}", found[1]);
        assert!(found[2].1.as_ref().unwrap().is_some());
    });
}

#[test]
fn a_batch_that_is_turned_away_is_asked_for_again() {
    stores::run(async {
        let store = Store::memory().await;
        let notes = notes(&store).await;
        store.faults().only(&["BatchWriteItem", "BatchGetItem"]).fail_next(2, Fault::Throttle);
        assert_eq!(succeeded(&notes.put_many((0..30).map(|number| note(number, "x"))).await), 30);
        store.faults().fail_next(1, Fault::Throttle);
        let found = notes.get_many((0..30).map(id)).await;
        assert!(found.iter().all(|(_, outcome)| outcome.as_ref().unwrap().is_some()));
        store.faults().fail_next(1, Fault::LostAnswer);
        assert!(notes.delete_many((0..30).map(id)).await.iter().all(|(_, outcome)| outcome.is_ok()));
    });
}

#[test]
fn a_store_that_stays_down_fails_each_record_and_the_call_ends() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let store = Store::memory().await;
        let notes = notes(&store).await;
        store.faults().down();
        tokio::time::pause();
        let written = notes.put_many((0..30).map(|number| note(number, "x"))).await;
        assert!(written.iter().all(|outcome| matches!(outcome, Err(Error::Store(_)))));
        let found = notes.get_many((0..3).map(id)).await;
        assert!(found.iter().all(|(_, outcome)| matches!(outcome, Err(Error::Store(_)))));
    });
}

#[test]
fn records_whose_put_depends_on_what_is_there_are_written_too() {
    stores::each(async |store| {
        let tdnet = systems::open("tdnet", &store).await;
        let executions = tdnet.entries("Execution").unwrap();
        let execution = |number: usize, progress: i64| {
            Fields::from([
                (
                    "execution_id".to_owned(),
                    Value::from(format!("7f9c24e8-3b12-4c1e-9f0a-{number:012}").as_str()),
                ),
                ("progress".to_owned(), Value::from(progress)),
            ])
        };
        let first = executions.put_many((0..12).map(|number| execution(number, 1))).await;
        let second = executions.put_many((0..12).map(|number| execution(number, 2))).await;
        assert_eq!((succeeded(&first), succeeded(&second)), (12, 12));
        for (first, second) in first.iter().zip(&second) {
            let (first, second) = (first.as_ref().unwrap(), second.as_ref().unwrap());
            assert_eq!(first.fields["started_at"], second.fields["started_at"], "it was created once");
            assert_eq!(second.fields["progress"], 2.into());
        }
    });
}
