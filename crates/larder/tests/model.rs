//! Random operations on records, against a plain map.
//!
//! The seed of a run is printed; `MODEL_SEED` runs it again.

#![allow(clippy::unwrap_used, reason = "what fails here fails the test")]

mod stores;
mod systems;

use std::collections::BTreeMap;
use std::time::Duration;

use larder::{Entry, Error, Fields, Shelf, Store, Value};

const SCHEMA: &str = r#"
system notes
param stage: string = "x" from ENV
table notes {
  name  "notes-{stage}"
  key   pk
  ttl   ttl
  index Long as by_length  size / pk2
  entity Note {
    key   "NOTE#{id}"
    ttl   10m
    input id: string nonempty
    text:     string nonempty
    words:    int in 0..=50 default 0
    tags:     [string]?
    author:   string?
    tag_count = tags.len()
    size      = "{author}#{words:02}"
    pk2       = "{id}"
  }
}
"#;

/// What a note is in the plain map.
#[derive(Clone, Debug, PartialEq)]
struct Note {
    text: String,
    words: i64,
    tags: Option<Vec<String>>,
    author: Option<String>,
    ends: i64,
}

impl Note {
    fn fields(&self, id: &str) -> Fields {
        let mut fields: Fields = [
            ("id".to_owned(), Value::from(id)),
            ("text".to_owned(), Value::from(&*self.text)),
            ("words".to_owned(), Value::from(self.words)),
            ("pk2".to_owned(), Value::from(id)),
        ]
        .into();
        if let Some(tags) = &self.tags {
            let list = tags.iter().map(|tag| Value::from(&**tag)).collect();
            fields.insert("tags".to_owned(), Value::List(list));
            fields.insert("tag_count".to_owned(), Value::from(i64::try_from(tags.len()).unwrap()));
        }
        if let Some(author) = &self.author {
            fields.insert("author".to_owned(), Value::from(&**author));
            fields.insert("size".to_owned(), Value::Text(format!("{author}#{:02}", self.words)));
        }
        fields
    }

    fn given(&self, id: &str) -> Fields {
        let mut fields = self.fields(id);
        for computed in ["pk2", "tag_count", "size"] {
            fields.remove(computed);
        }
        fields
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    Done,
    Exists,
    Missing,
    Refused,
}

fn outcome<T>(result: &Result<T, Error>) -> Outcome {
    match result {
        Ok(_) => Outcome::Done,
        Err(Error::Exists { .. }) => Outcome::Exists,
        Err(Error::Missing { .. }) => Outcome::Missing,
        Err(Error::Invalid(_) | Error::Conflict { .. }) => Outcome::Refused,
        Err(other) => panic!("not one of the promised outcomes: {other}"),
    }
}

fn id_of(random: &mut fastrand::Rng) -> String {
    format!("n{}", random.u8(..6))
}

fn note(random: &mut fastrand::Rng, ends: i64) -> Note {
    let word = |random: &mut fastrand::Rng| ["alpha", "beta", "gamma"][random.usize(..3)].to_owned();
    Note {
        text: word(random),
        words: random.i64(0..=50),
        tags: random.bool().then(|| (0..random.usize(..3)).map(|_| word(random)).collect()),
        author: random.bool().then(|| word(random)),
        ends,
    }
}

async fn run(store: &Store, seed: u64, steps: usize) {
    let mut random = fastrand::Rng::with_seed(seed);
    // A second that passes between a call and its check would make them disagree.
    store.clock().stop();
    let system = systems::open_text(SCHEMA, store).await;
    let notes: Shelf<Entry> = system.entries("Note").unwrap();
    let mut model: BTreeMap<String, Note> = BTreeMap::new();
    for step in 0..steps {
        let now = store.clock().now().seconds();
        let id = id_of(&mut random);
        let key = || -> Fields { [("id".to_owned(), Value::from(&*id))].into() };
        let there = model.get(&id).filter(|note| note.ends >= now).cloned();
        let at = format!("seed {seed}, step {step}, {id}");
        match random.u8(..10) {
            0 | 1 => {
                let note = note(&mut random, now + 600);
                let result = notes.create(note.given(&id)).await;
                let wanted = if there.is_some() { Outcome::Exists } else { Outcome::Done };
                assert_eq!(outcome(&result), wanted, "create, {at}");
                if wanted == Outcome::Done {
                    model.insert(id, note);
                }
            }
            2 | 3 => {
                let mut note = note(&mut random, now + 600);
                if random.bool()
                    && let Some(there) = &there
                {
                    note = Note { ends: now + 600, ..there.clone() };
                }
                let put = notes.put(note.given(&id)).await.unwrap();
                let same =
                    there.is_some_and(|there| Note { ends: 0, ..there } == Note { ends: 0, ..note.clone() });
                assert_eq!(put.changed(), !same, "put, {at}");
                model.insert(id, note);
            }
            4 => {
                let mut update = notes.update(key());
                let mut after = there.clone();
                if random.bool() {
                    update = update.set("text", "delta".to_owned());
                    after = after.map(|note| Note { text: "delta".to_owned(), ..note });
                }
                if random.bool() {
                    update = update.clear("author");
                    after = after.map(|note| Note { author: None, ..note });
                } else if random.bool() {
                    update = update.set("author", "eve".to_owned());
                    after = after.map(|note| Note { author: Some("eve".to_owned()), ..note });
                }
                let result = update.await;
                check_update(&result, there.is_some(), &at);
                model.extend(after.map(|after| (id, after)));
            }
            5 | 6 => {
                let number = random.i64(-20..=20);
                let result = notes.update(key()).add("words", number).await;
                let fits = there.as_ref().is_some_and(|note| (0..=50).contains(&(note.words + number)));
                let wanted = match (&there, fits) {
                    (None, _) => Outcome::Missing,
                    (Some(_), true) => Outcome::Done,
                    (Some(_), false) => Outcome::Refused,
                };
                assert_eq!(outcome(&result), wanted, "add {number}, {at}");
                if let (true, Some(note)) = (fits, there) {
                    model.insert(id, Note { words: note.words + number, ..note });
                }
            }
            7 => {
                let result = notes.update(key()).append("tags", vec!["new".to_owned()]).await;
                check_update(&result, there.is_some(), &at);
                if let Some(mut note) = there {
                    note.tags.get_or_insert_default().push("new".to_owned());
                    model.insert(id, note);
                }
            }
            8 => {
                let deleted = notes.delete(key()).await.unwrap();
                assert_eq!(
                    deleted.record().map(|entry| entry.fields),
                    there.map(|note| note.fields(&id)),
                    "delete, {at}"
                );
                model.remove(&id);
            }
            _ => store.clock().advance(Duration::from_secs(random.u64(..400))),
        }
        let now = store.clock().now().seconds();
        let id = id_of(&mut random);
        let found = notes.get([("id".to_owned(), Value::from(&*id))].into_iter().collect::<Fields>()).await;
        let wanted = model.get(&id).filter(|note| note.ends >= now).map(|note| note.fields(&id));
        assert_eq!(found.unwrap().map(|entry| entry.fields), wanted, "get {id}, {at}");
    }
}

fn check_update<T>(result: &Result<T, Error>, there: bool, at: &str) {
    let wanted = if there { Outcome::Done } else { Outcome::Missing };
    assert_eq!(outcome(result), wanted, "update, {at}");
}

fn first_seed() -> u64 {
    let seed = std::env::var("MODEL_SEED").ok().and_then(|text| text.parse().ok());
    seed.unwrap_or_else(|| fastrand::u64(..1_000_000_000))
}

#[test]
fn records_behave_as_a_plain_map_does_on_every_store() {
    let seed = first_seed();
    println!("MODEL_SEED={seed}");
    stores::each(async |store| run(&store, seed, 60).await);
}

#[test]
fn records_behave_as_a_plain_map_does_for_many_seeds() {
    let seed = first_seed();
    println!("MODEL_SEED={seed}");
    stores::run(async {
        for seed in seed..seed + 30 {
            let store = Store::memory().await;
            run(&store, seed, 150).await;
        }
    });
}
