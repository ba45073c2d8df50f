//! `set<T>` and `map<string, T>`: what is stored, what is refused and by which name, and how they are written.

use jiff::SignedDuration;
use larder_model::{AttributeValue, Item};
use larder_schema::{Environment, Fields, Impact, NoFiles, Sampler, Schema, Value, compare, emit, format};

const SHELF: &str = r#"system shelf

table shelf {
  key  pk

  /// A book.
  entity Book {
    key  "BOOK#{id}"

    id:         string nonempty
    /// What it is about.
    topics:     set<string>
    years:      set<int> len ..=3
    digests:    set<bytes> nonempty
    days:       set<date>
    moods:      set<"calm" | "wild">
    read_at:    set<epoch>
    took:       set<duration>
    copies:     map<string, int>
    notes:      map<string, [Note]>?
    formats:    map<string, set<string>> default []
    label:      Label?
    topics_in = topics.len()
    places_in = copies.len()
  }
}

type Note  { text: string nonempty, marks: set<string> }
type Label { colours: set<string>, sizes: map<string, decimal> }
"#;

fn load(text: &str) -> Schema {
    let loaded = Schema::load("shelf.larder", text, &mut NoFiles, &Environment::new());
    loaded.schema.unwrap_or_else(|| panic!("{:?}", loaded.diagnostics))
}

fn texts(texts: &[&str]) -> Value {
    Value::List(texts.iter().copied().map(Value::from).collect())
}

fn map(members: &[(&str, Value)]) -> Value {
    Value::Map(members.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect())
}

fn book(changes: &[(&str, Value)]) -> Fields {
    let mut fields = Fields::from([
        ("id".to_owned(), Value::from("1")),
        ("topics".to_owned(), texts(&["love", "war"])),
        ("years".to_owned(), Value::List(vec![1869.into(), 1865.into()])),
        ("digests".to_owned(), Value::List(vec![Value::Bytes(vec![1, 2])])),
        ("copies".to_owned(), map(&[("Lund", 2.into())])),
    ]);
    fields.extend(changes.iter().map(|(name, value)| ((*name).to_owned(), value.clone())));
    fields
}

/// What a record with these fields breaks.
fn broken(changes: &[(&str, Value)]) -> Vec<String> {
    let schema = load(SHELF);
    let (_, entity) = schema.entity("Book").expect("it is there");
    let mut fields = book(changes);
    for (name, value) in &mut fields {
        schema.conform(&entity.field(name).expect("it is there").kind, value);
    }
    schema.violations(entity, &fields).iter().map(ToString::to_string).collect()
}

fn stored(changes: &[(&str, Value)]) -> Item {
    let schema = load(SHELF);
    let (table, entity) = schema.entity("Book").expect("it is there");
    schema.write_item(table, entity, &book(changes)).expect("it can be stored")
}

#[test]
fn a_set_is_stored_as_a_set_and_a_map_as_a_map() {
    let schema = load(SHELF);
    let (table, entity) = schema.entity("Book").expect("it is there");
    let label = map(&[("colours", texts(&["red"])), ("sizes", map(&[("m", Value::from(4))]))]);
    let changes = [("formats", map(&[("pdf", texts(&["a4"]))])), ("label", label)];
    let item = stored(&changes);
    assert_eq!(item.get("topics"), Some(&AttributeValue::Ss(["love".into(), "war".into()].into())));
    assert_eq!(item.get("years"), Some(&AttributeValue::Ns([1865.into(), 1869.into()].into())));
    assert_eq!(item.get("digests"), Some(&AttributeValue::Bs([vec![1, 2]].into())));
    let copies = Item::from_iter([("Lund".to_owned(), AttributeValue::from(2))]);
    assert_eq!(item.get("copies"), Some(&AttributeValue::M(copies)));

    let mut read = schema.read_item(table, entity, &item).expect("it can be read");
    assert_eq!(read.get("years"), Some(&Value::List(vec![1865.into(), 1869.into()])));
    let mut given = book(&changes);
    for fields in [&mut read, &mut given] {
        fields.remove("years");
    }
    assert_eq!(read, given);
}

#[test]
fn an_empty_set_is_left_out_and_an_empty_map_is_kept() {
    let none = texts(&[]);
    let note = map(&[("text", "x".into()), ("marks", none.clone())]);
    let item = stored(&[
        ("topics", none.clone()),
        ("copies", map(&[])),
        ("notes", map(&[("p1", Value::List(vec![note]))])),
    ]);
    assert!(!item.contains("topics"));
    assert_eq!(item.get("copies"), Some(&AttributeValue::M(Item::new())));
    let Some(AttributeValue::M(notes)) = item.get("notes") else { panic!("notes are a map") };
    let Some(AttributeValue::L(list)) = notes.get("p1") else { panic!("each is a list") };
    assert_eq!(list[0], AttributeValue::M(Item::from_iter([("text".to_owned(), "x")])));

    let schema = load(SHELF);
    let (table, entity) = schema.entity("Book").expect("it is there");
    let mut read = schema.read_item(table, entity, &item).expect("it can be read");
    entity.add_empty_sets(&mut read, None);
    assert_eq!(read.get("topics"), Some(&none));
    assert_eq!(read.get("digests"), Some(&Value::List(vec![Value::Bytes(vec![1, 2])])));

    // One that may not be empty is not there when it is missing.
    let mut read = Fields::new();
    entity.add_empty_sets(&mut read, None);
    assert!(read.contains_key("topics") && !read.contains_key("digests"));
}

#[test]
fn what_is_wrong_in_a_set_or_a_map_is_named() {
    assert_eq!(broken(&[]), [""; 0]);
    let wrong = |changes: &[(&str, Value)]| broken(changes).join("\n");
    assert_eq!(
        wrong(&[("topics", Value::List(vec!["a".into(), "b".into(), 3.into()]))]),
        "Book.topics[2]: must be of type string, and it is 3"
    );
    assert_eq!(
        wrong(&[("copies", map(&[("Lund", 1.into()), ("mon", "many".into())]))]),
        r#"Book.copies["mon"]: must be of type int, and it is "many""#
    );
    let note = map(&[("text", "".into()), ("marks", Value::List(vec![Value::Bool(true)]))]);
    assert_eq!(
        wrong(&[("notes", map(&[("a.b", Value::List(vec![note]))]))]),
        "Book.notes[\"a.b\"][0].text: must not be empty, and it is \"\"\n\
         Book.notes[\"a.b\"][0].marks[0]: must be of type string, and it is true"
    );
    assert_eq!(
        wrong(&[("formats", map(&[("pdf", texts(&[]))]))]),
        r#"Book.formats["pdf"]: must not be empty, and it is a list of 0"#
    );
    assert_eq!(
        wrong(&[("moods", texts(&["calm", "odd"]))]),
        r#"Book.moods[1]: must be of type "calm" | "wild", and it is "odd""#
    );
    assert_eq!(wrong(&[("digests", texts(&[]))]), "Book.digests: must not be empty, and it is a list of 0");
    assert_eq!(
        wrong(&[("years", Value::List((1..=4).map(Value::from).collect()))]),
        "Book.years: must have a length in 0..=3, and it is a list of 4"
    );
    let read_at = |texts: &[&str]| {
        Value::List(texts.iter().map(|text| Value::Instant(text.parse().expect("it is a moment"))).collect())
    };
    assert_eq!(wrong(&[("read_at", read_at(&["2026-01-15T10:00:00Z", "2026-01-15T10:00:01Z"]))]), "");
    assert_eq!(
        wrong(&[("read_at", read_at(&["2026-01-15T10:00:00Z", "2026-01-15T10:00:00.5Z"]))]),
        "Book.read_at[1]: must be no finer than epoch tells apart, and it is 2026-01-15T10:00:00.5Z"
    );
    let took = |micros: &[i64]| {
        Value::List(
            micros.iter().map(|micros| Value::Duration(SignedDuration::from_micros(*micros))).collect(),
        )
    };
    assert_eq!(wrong(&[("took", took(&[1_000, 1_001]))]), "");
    // Two long names are two places.
    let name = |last: &str| format!("{}{last}", "n".repeat(60));
    let told = broken(&[("copies", map(&[(&name("a"), "x".into()), (&name("b"), "x".into())]))]);
    assert_eq!(told.len(), 2);
    assert_ne!(told[0], told[1]);
    assert_eq!(wrong(&[("copies", 3.into())]), "Book.copies: must be of type map<string, int>, and it is 3");
}

/// What a key is made of as it is must be what the key can tell; an `epoch` holds whole seconds wherever it is.
#[test]
fn nothing_is_cut_silently() {
    let schema = load(
        "system runs\n\ntable runs {\n  key  pk\n\n  entity Run {\n    key  \"RUN#{at}#{day:%Y}#{limit}\"\n\n    \
         input at:  instant\n    input day: instant\n    limit:     duration\n    took:      duration\n    \
         part:      Part\n  }\n}\n\ntype Part { seen: epoch, took: duration }\n",
    );
    let (_, entity) = schema.entity("Run").expect("it is there");
    let run = |at: &str, limit_millis: i64, seen: &str| {
        let moment = |text: &str| Value::Instant(text.parse().expect("it is a moment"));
        let took = Value::Duration(SignedDuration::from_nanos(1_000_500_001));
        let part = map(&[("seen", moment(seen)), ("took", took.clone())]);
        Fields::from([
            ("at".to_owned(), moment(at)),
            ("day".to_owned(), moment("2026-01-15T10:00:00.5Z")),
            ("limit".to_owned(), Value::Duration(SignedDuration::from_millis(limit_millis))),
            ("took".to_owned(), took),
            ("part".to_owned(), part),
        ])
    };
    let (whole, half) = ("2026-01-15T10:00:00Z", "2026-01-15T10:00:00.5Z");
    let told = |fields: &Fields| {
        let found = schema.violations(entity, fields);
        found.iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    assert_eq!(
        told(&run(half, 1500, half)),
        [
            "Run.at: must be no finer than instant tells apart, and it is 2026-01-15T10:00:00.5Z",
            "Run.limit: must be whole seconds, as a key or a text is made of it, and it is PT1.5S",
            "Run.part.seen: must be no finer than epoch tells apart, and it is 2026-01-15T10:00:00.5Z",
        ]
    );
    let fields = run(whole, 2000, whole);
    assert_eq!(told(&fields), [""; 0]);
    let took = &fields["took"];
    let kind = &entity.field("took").expect("it is there").kind;
    let stored = schema.encode(kind, took).expect("it fits");
    assert_eq!(stored, AttributeValue::N("1.000500001".parse().expect("a number")));
    assert_eq!(schema.decode(kind, &stored).as_ref(), Some(took));
}

#[test]
fn what_is_twice_in_a_set_is_in_it_once() {
    assert_eq!(broken(&[("years", Value::List([1, 2, 2, 1, 3].map(Value::from).into()))]), [""; 0]);
}

#[test]
fn a_list_where_a_set_is_wanted_cannot_be_read() {
    let schema = load(SHELF);
    let (table, entity) = schema.entity("Book").expect("it is there");
    let mut item = stored(&[]);
    item.insert("topics".to_owned(), AttributeValue::L(vec!["love".into()]));
    let told = schema.read_item(table, entity, &item).expect_err("it is a list").to_string();
    assert_eq!(told, "`topics` does not hold a set<string>");
    item.insert("topics".to_owned(), AttributeValue::Ns([1.into()].into()));
    assert!(schema.read_item(table, entity, &item).is_err());
}

#[test]
fn samples_are_valid() {
    let schema = load(SHELF);
    let (_, entity) = schema.entity("Book").expect("it is there");
    let mut sampler = Sampler::new(&schema, "Book", 7).expect("it is there");
    let mut filled = 0;
    for _ in 0..50 {
        let fields = sampler.sample().expect("there is always one");
        filled += usize::from(matches!(&fields["copies"], Value::Map(map) if !map.is_empty()));
        filled += usize::from(fields.contains_key("topics"));
        assert_eq!(schema.violations(entity, &fields), [], "{fields:?}");
    }
    assert!(filled > 75, "{filled}");
}

#[test]
fn the_layout_puts_no_space_into_a_type() {
    let text = SHELF
        .replace("set<string>", "set < string >")
        .replace("map<string, int>", "map <string,int >")
        .replace("map<string, [Note]>?", "map<string, [ Note ] > ?");
    assert_eq!(format(&text), SHELF);
    let compared = "system s\n\ntable things {\n  key  id\n\n  entity E {\n    id:    string nonempty\n    set:   int\n    map:   int\n    more = set < map\n  }\n}\n";
    assert_eq!(format(compared), compared);
}

#[test]
fn a_wider_member_is_compatible_and_a_list_is_no_set() {
    let old = load(SHELF);
    let impact = |from: &str, to: &str| {
        let new = load(&SHELF.replace(from, to));
        compare(&old, &new).iter().map(|change| change.impact).max()
    };
    assert_eq!(impact("map<string, int>", "map<string, decimal>"), Some(Impact::Compatible));
    assert_eq!(impact(r#"set<"calm" | "wild">"#, "set<string>"), Some(Impact::Compatible));
    assert_eq!(impact("topics:     set<string>", "topics:     [string]"), Some(Impact::Breaking));
    assert_eq!(impact("map<string, int>", "map<string, string>"), Some(Impact::Breaking));
    // A set that nobody wrote is an empty one.
    assert_eq!(impact("    days:", "    more:       set<string>\n    days:"), Some(Impact::Compatible));
}

#[test]
fn documents_and_programs_are_told_what_is_stored() {
    let schema = load(SHELF);
    let page = emit::docs(&schema);
    for told in [
        r"| `topics` | set\<string> (SS) | no | What it is about. (left out when it is empty) |",
        r"| `years` | set\<int> (NS) | no | length 0 to 3, left out when it is empty |",
        r"| `digests` | set\<bytes> (BS) | yes | not empty |",
        r"| `copies` | map\<string, int> (M) | yes |  |",
        r"| `formats` | map\<string, set\<string>> (M) | yes | `[]` when not given |",
    ] {
        assert!(page.lines().any(|line| line == told), "{told}\n{page}");
    }
    let code = emit::rust(&schema, None, &[], &[]);
    for written in [
        "pub topics: ::std::collections::BTreeSet<::std::string::String>,",
        "pub moods: ::std::collections::BTreeSet<Moods>,",
        "pub copies: ::std::collections::BTreeMap<::std::string::String, i64>,",
        "pub fn insert_years(self, members: impl ::std::iter::IntoIterator<Item = impl ::std::convert::Into<i64>>) -> Self {",
        "pub fn remove_copies(self, name: impl ::std::convert::Into<::std::string::String>) -> Self {",
    ] {
        assert!(code.lines().any(|line| line.trim() == written), "{written}\n{code}");
    }
}
