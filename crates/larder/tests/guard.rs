//! What a guard refuses is what the layer itself would not have written, and a report lets it in and says so.

#![allow(clippy::unwrap_used, reason = "what fails here fails the test")]

mod stores;
mod systems;

use std::path::Path;
use std::sync::Arc;

use futures_util::TryStreamExt as _;
use larder::guard::{Guard, Mode, Rules, Tally};
use larder::store::ops::{DeleteItem, PutItem, WriteOptions};
use larder::{Entry, Error, Schema, Shelf, Store, System};
use larder_model::{AttributeValue, Item, TableName};
use larder_schema::{Environment, NoFiles, Sampler};

/// Entities all of whose inputs can be read back from their items. Of the others the layer cannot tell what was given.
const ENTITIES: [(&str, &str); 8] = [
    ("tdnet", "Disclosure"),
    ("tdnet", "Execution"),
    ("tdnet", "Export"),
    ("shops", "Shop"),
    ("keiba", "Race"),
    ("keiba", "HorseParents"),
    ("keiba", "Jockey"),
    ("keiba", "RaceDay"),
];
const RECORDS: u64 = 6;
const CHANGES: usize = 60;

fn schema(system: &str, environment: &Environment) -> Schema {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../../schemas/{system}.larder"));
    let text = std::fs::read_to_string(path).unwrap();
    Schema::load("test.larder", &text, &mut NoFiles, environment).schema.unwrap()
}

/// A system on a store of its own, and the table of one of its entities.
struct Place {
    system: System,
    shelf: Shelf<Entry>,
    table: TableName,
    entity: &'static str,
}

async fn open(system: &str, entity: &'static str, store: Store) -> Place {
    let environment = systems::environment();
    let schema = schema(system, &environment);
    let (table, _) = schema.entity(entity).unwrap();
    let table = schema.table_name(table, &environment).unwrap();
    let system = System::open_with(schema, store, environment).await.unwrap();
    let shelf = system.entries(entity).unwrap();
    Place { system, shelf, table, entity }
}

impl Place {
    async fn put(&self, item: Item) -> Result<(), larder::store::Error> {
        let request = PutItem { table: self.table.clone(), item, options: WriteOptions::default() };
        self.system.store().put_item(request).await.map(drop)
    }

    async fn remove(&self, item: &Item) {
        let definition = self.system.store().describe(&self.table).await.unwrap().unwrap().definition;
        let names = definition.key.attributes().map(|part| part.name.clone());
        let key = names.map(|name| (name.clone(), item.get(&name).unwrap().clone())).collect();
        let request = DeleteItem { table: self.table.clone(), key, options: WriteOptions::default() };
        self.system.store().delete_item(request).await.unwrap();
    }

    /// The items of the table.
    async fn stored(&self) -> Vec<Item> {
        let table = &self.system.schema().entity(self.entity).unwrap().0.name;
        let all: Vec<larder::Stored> = self.system.dump(table).try_collect().await.unwrap();
        all.into_iter().map(|stored| stored.item).collect()
    }

    /// Whether the layer can read the one item of the table, and would write it as it is.
    async fn layer_allows(&self) -> bool {
        let scan = self.shelf.scan().at_any_price().even_expired().strict();
        match scan.all().await {
            Err(Error::Corrupt { .. }) => false,
            Err(other) => panic!("{other}"),
            Ok(found) => match found.into_iter().next() {
                None => false,
                Some(entry) => match self.shelf.put(entry.fields).await {
                    Ok(put) => !put.changed(),
                    Err(Error::Invalid(_) | Error::Key { .. } | Error::Record { .. }) => false,
                    Err(other) => panic!("{other}"),
                },
            },
        }
    }
}

/// Values that clients send by mistake.
fn strange(random: &mut fastrand::Rng, others: &[AttributeValue]) -> AttributeValue {
    let text = |text: &str| AttributeValue::S(text.to_owned());
    match random.u8(0..14) {
        0 => text(""),
        1 => text("x"),
        2 => text("COUNTRY#DE"),
        3 => text("2026-01-15T10:00:00Z"),
        4 => text("https://example.com/a"),
        5 => text("7203"),
        6 => AttributeValue::from(random.i64(-2..200)),
        7 => AttributeValue::N("0.5".parse().unwrap()),
        8 => AttributeValue::Bool(true),
        9 => AttributeValue::Null,
        10 => AttributeValue::L(vec![text("x")]),
        11 => AttributeValue::M(Item::new()),
        12 => AttributeValue::B(vec![1]),
        _ => others[random.usize(..others.len())].clone(),
    }
}

/// Makes one to three attributes another, or leaves them out.
fn changed(random: &mut fastrand::Rng, item: &Item, keeps: &dyn Fn(&str) -> bool) -> Item {
    let mut changed = item.clone();
    let names: Vec<String> = item.names().filter(|name| !keeps(name)).map(str::to_owned).collect();
    let values: Vec<AttributeValue> = item.iter().map(|(_, value)| value.clone()).collect();
    for _ in 0..random.usize(1..=3) {
        let name = match random.u8(0..10) {
            0 => "nobody_knows_it".to_owned(),
            _ => names[random.usize(..names.len())].clone(),
        };
        match changed.get_mut(&name) {
            Some(AttributeValue::M(map)) if random.bool() && !map.is_empty() => {
                let member = map.names().nth(random.usize(..map.len())).unwrap().to_owned();
                match random.bool() {
                    true => drop(map.remove(&member)),
                    false => drop(map.insert(member, strange(random, &values))),
                }
            }
            _ if random.u8(0..5) == 0 => drop(changed.remove(&name)),
            _ => drop(changed.insert(name, strange(random, &values))),
        }
    }
    changed
}

#[test]
fn a1_a_guard_refuses_what_the_layer_would_not_have_written_and_nothing_else() {
    let seed = std::env::var("LARDER_GUARD_SEED").ok().and_then(|text| text.parse().ok());
    let seed = seed.unwrap_or_else(|| fastrand::u64(..));
    eprintln!("LARDER_GUARD_SEED={seed}");
    let mut random = fastrand::Rng::with_seed(seed);
    let (mut allowed, mut refused) = (0, 0);
    stores::run(async {
        for (system, entity) in ENTITIES {
            let guarded = open(system, entity, Store::memory().await.enforcing().unwrap()).await;
            let plain = open(system, entity, Store::memory().await).await;
            let own = schema(system, &Environment::new());
            let (table, kind) = own.entity(entity).unwrap();
            let table_keys: Vec<String> = std::iter::once(&table.partition)
                .chain(table.sort.as_ref())
                .map(|key| key.attribute.clone())
                .collect();
            // The layer reads any TTL and any state, and fills in what has a default.
            let keeps = |name: &str| {
                let by_default =
                    kind.fields.iter().any(|field| field.attribute == name && field.checks.default.is_some());
                table_keys.iter().any(|key| key == name)
                    || table.ttl.as_ref().is_some_and(|ttl| ttl.attribute == name)
                    || kind.lifecycles.iter().any(|lifecycle| lifecycle.attribute == name)
                    || by_default
            };
            let mut sampler = Sampler::new(&own, entity, seed).unwrap();
            for _ in 0..RECORDS {
                let record = sampler.sample().unwrap();
                plain.shelf.put(record).await.unwrap();
                let item = plain.stored().await.pop().unwrap();
                plain.remove(&item).await;
                guarded.put(item.clone()).await.unwrap_or_else(|error| panic!("{entity}: {error}: {item:?}"));
                guarded.remove(&item).await;
                for _ in 0..CHANGES {
                    let other = changed(&mut random, &item, &keeps);
                    let outcome = guarded.put(other.clone()).await;
                    if let Ok(()) = outcome {
                        guarded.remove(&other).await;
                    }
                    // What DynamoDB itself refuses is not for a guard to say.
                    if plain.put(other.clone()).await.is_err() {
                        assert!(outcome.is_err(), "{entity}: {other:?}");
                        continue;
                    }
                    let allows = plain.layer_allows().await;
                    // The layer may have found another key for it.
                    for item in plain.stored().await {
                        plain.remove(&item).await;
                    }
                    assert_eq!(outcome.is_ok(), allows, "{entity}: {outcome:?}: {other:?}");
                    if allows { allowed += 1 } else { refused += 1 }
                }
            }
        }
    });
    assert!(allowed > 50 && refused > 500, "{allowed} allowed, {refused} refused");
}

#[test]
fn a_report_lets_everything_in_and_a_worker_passes_over_it() {
    stores::run(async {
        let place = open("shops", "Shop", Store::memory().await).await;
        let mut rules = Rules::default();
        let schema = Arc::new(place.system.schema().clone());
        let environment = Environment::from([("DYNAMODB_TABLE_NAME".to_owned(), place.table.to_string())]);
        rules.add(&schema, &environment, &[]).unwrap();
        // Tables of that name elsewhere are held against it too.
        let elsewhere = larder_model::Space::new("eu-west-1", "123456789012").unwrap();
        assert!(rules.checker(&place.table.clone().within(&elsewhere)).is_some());
        let tally = Arc::new(Tally::default());
        let guard = Guard::new(Arc::new(rules), Mode::Report, Arc::clone(&tally));
        place.system.store().engine().unwrap().set_guard(Some(Arc::new(guard)));
        for domain in ["a.de", "b.de", "c.de"] {
            let fields = [("domain".to_owned(), domain.into()), ("country".to_owned(), "DE".into())];
            place.shelf.put(larder::Fields::from(fields)).await.unwrap();
        }
        let named = |item: &Item| item.get("domain").and_then(|domain| domain.as_str()) == Some("b.de");
        let mut item = place.stored().await.into_iter().find(named).unwrap();
        item.insert("shop_name", 7);
        place.put(item).await.unwrap();
        assert_eq!(tally.counts(), [((place.table.clone(), "type"), 1)].into());
        let mut claims = place.shelf.lifecycle("crawl").unwrap().claim("DE").await.unwrap();
        let mut taken = Vec::new();
        while let Some(lease) = claims.next().await.unwrap() {
            taken.push(lease.fields["domain"].as_str().unwrap().to_owned());
            lease.finish().await.unwrap();
        }
        taken.sort();
        assert_eq!(taken, ["a.de", "c.de"]);
        assert_eq!(
            (claims.unread().count, claims.unread().first.as_ref().unwrap().key.as_str()),
            (1, "SHOP#b.de / META#")
        );
        assert_eq!(place.shelf.scan().at_any_price().page().await.unwrap().unread.count, 1);
    });
}
