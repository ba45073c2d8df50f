//! A table that was found, and its items → its draft.
//!
//! Groups of items become entities. What one entity stores, others with such a key call the same.

use std::collections::{BTreeMap, BTreeSet};

use larder_model::limits::{GLOBAL_INDEXES_MAX, INDEX_KEY_ATTRIBUTES_MAX};
use larder_model::{
    AttributeValue, IndexDefinition, IndexKind, Item, KeyAttribute, KeySchema, KeyType, Projection,
};

use super::FoundTable;
use super::fields::{Guess, Types, sounds_secret};
use super::holes;
use super::keys::{self, Column, Group, Piece};
use super::names::{self, Taken};
use super::write::{self, EntityDraft, Line, TableDraft, escaped, quoted};
use crate::limits::{ENTITIES_MAX, FIELDS_MAX};
use crate::marks::CHUNK;
use crate::schema::{Naming, Type};

/// How much is guessed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Level {
    Full,
    /// Keys by their beginnings alone, and no equations.
    Careful,
    /// One entity, whose key is what it is.
    Plain,
    /// And whose fields are documents.
    Documents,
}

impl Level {
    pub(super) fn next(self) -> Option<Self> {
        match self {
            Self::Full => Some(Self::Careful),
            Self::Careful => Some(Self::Plain),
            Self::Plain => Some(Self::Documents),
            Self::Documents => None,
        }
    }
}

/// Whether an item is one that a program keeps, and not a note or a part of Larder's own.
pub(super) fn is_record(item: &Item) -> bool {
    let own = [CHUNK, "larder_parts", "larder_packed", "larder_absent", "larder_flight", "larder_probe"];
    !own.iter().any(|name| item.contains(name))
}

/// Why a table cannot be said in the language at all.
pub(super) fn obstacle(table: &FoundTable, naming: Naming) -> Option<String> {
    let label = &table.label;
    let KeySchema { partition, sort } = &table.key;
    let twice = sort.iter().any(|attribute| partition.contains(attribute));
    if partition.len() != 1 || sort.len() > 1 || twice {
        return Some(format!("table {label} has no key that could be read"));
    }
    let unsaid = table.key.attributes().find(|attribute| !sayable(&attribute.name, naming));
    unsaid.map(|attribute| {
        format!("table {label}: its key is called `{}`, which the language cannot say; copy it to a table whose key has a name of a-z, A-Z, 0-9 and `_`", attribute.name)
    })
}

fn sayable(attribute: &str, naming: Naming) -> bool {
    names::field(attribute, naming, &mut Taken::default()).1.is_none()
}

/// What the schema calls the attributes of a table.
type Names = BTreeMap<String, (String, Option<String>)>;

pub(super) struct Frame<'a> {
    found: &'a FoundTable,
    pub(super) key: Vec<&'a KeyAttribute>,
    /// Key attributes of indexes, without those of the table.
    indexed: Vec<&'a KeyAttribute>,
    pub(super) ttl: Option<&'a str>,
    pub(super) names: Names,
    level: Level,
}

pub(super) fn table(found: &FoundTable, level: Level, types: &mut Types, taken: &mut Taken) -> TableDraft {
    let mut draft = TableDraft { name: taken.free(&names::word(&found.label)), ..TableDraft::default() };
    draft.notes.extend(found.notes.iter().cloned());
    let key: Vec<&KeyAttribute> = found.key.attributes().collect();
    let ttl = found.ttl_attribute.as_deref().filter(|ttl| {
        let fits = sayable(ttl, types.naming) && key.iter().all(|attribute| attribute.name != **ttl);
        if !fits {
            draft.notes.push(format!(
                "`{ttl}` says when items end, and the language cannot say that name: `ttl` is left out"
            ));
        }
        fits
    });
    let global: Vec<_> = found.indexes.iter().filter(|index| index.kind == IndexKind::Global).collect();
    let mut indexed: Vec<&KeyAttribute> = Vec::new();
    for attribute in global.iter().flat_map(|index| index.key.attributes()) {
        let seen = key.iter().chain(&indexed).any(|known| known.name == attribute.name);
        if !seen && Some(attribute.name.as_str()) != ttl {
            indexed.push(attribute);
        }
    }
    let items: Vec<&Item> = found.items.iter().filter(|item| is_record(item)).collect();
    let projected = global.iter().flat_map(|index| match &index.projection {
        Projection::Include(names) => names.as_slice(),
        Projection::All | Projection::KeysOnly => &[],
    });
    let projected: Vec<&String> = projected.collect();
    let mut all: Vec<&str> = key.iter().chain(&indexed).map(|attribute| attribute.name.as_str()).collect();
    all.extend(ttl);
    all.extend(projected.iter().map(|name| name.as_str()));
    all.extend(items.iter().flat_map(|item| item.names()).collect::<BTreeSet<&str>>());
    let mut field_names = Taken::default();
    let mut names = Names::new();
    for attribute in all {
        if !names.contains_key(attribute) {
            names.insert(attribute.to_owned(), names::field(attribute, types.naming, &mut field_names));
        }
    }
    let frame = Frame { found, key, indexed, ttl, names, level };
    settings(&frame, &mut draft);
    frame.entities(&items, types, &mut draft);
    frame.unseen(&projected, &mut draft);
    indexes(&frame, &mut draft);
    for note in &mut draft.notes {
        if !note.contains(&found.label) {
            *note = format!("{}: {note}", found.label);
        }
    }
    draft
}

fn settings(frame: &Frame<'_>, draft: &mut TableDraft) {
    let found = frame.found;
    let mut say = |word: &str, value: String| draft.settings.push((word.to_owned(), value));
    say("name", write::param_text(&found.name));
    if let Some(region) = &found.region {
        say("region", quoted(region));
    }
    let key: Vec<&str> = frame.key.iter().map(|attribute| frame.name(&attribute.name)).collect();
    say("key", key.join(" / "));
    if let Some(ttl) = frame.ttl {
        say("ttl", frame.name(ttl).to_owned());
    }
    say("billing", write::billing(found.billing));
    if let Some(days) = found.pitr_days {
        say("pitr", format!("{}d", days.clamp(1, 35)));
    }
    match &found.encryption {
        None => {}
        Some(larder_model::Encryption { kms_key: None }) => say("encryption", "aws_managed".to_owned()),
        Some(larder_model::Encryption { kms_key: Some(key) }) => {
            say("encryption", format!("kms {}", quoted(key)));
        }
    }
    if found.retain {
        say("on_delete", "retain".to_owned());
    }
    if found.class == larder_model::TableClass::StandardInfrequentAccess {
        say("class", "infrequent".to_owned());
    }
    if let Some(view) = found.stream {
        say("stream", write::stream(view).to_owned());
    }
    let mut seen = BTreeSet::new();
    let is_said = |(tag, _): &&(String, _)| names::is_word(tag) && seen.insert(tag.clone());
    let (said, unsaid): (Vec<_>, Vec<_>) = found.tags.iter().partition(is_said);
    if !said.is_empty() {
        let tags: Vec<String> =
            said.iter().map(|(tag, value)| format!("{tag} {}", write::param_text(value))).collect();
        say("tags", tags.join(", "));
    }
    if !unsaid.is_empty() {
        let tags: Vec<String> = unsaid.iter().map(|(tag, _)| format!("`{tag}`")).collect();
        draft.notes.push(format!(
            "the language cannot say the tags {}: they stay on the table as they are",
            tags.join(", ")
        ));
    }
}

fn indexes(frame: &Frame<'_>, draft: &mut TableDraft) {
    let mut aliases = Taken::default();
    let mut seen: Vec<&str> = Vec::new();
    for index in &frame.found.indexes {
        let name = index.name.as_str();
        if index.kind == IndexKind::Local {
            draft.notes.push(format!("`{name}` is a local index: the language has no word for it, and `larder apply` leaves it alone"));
            continue;
        }
        let units = match frame.found.billing {
            larder_model::Billing::Provisioned(units) => Some(units),
            larder_model::Billing::OnDemand => None,
        };
        if units.is_some_and(|units| units != index.throughput) {
            let (read, write) = (index.throughput.read, index.throughput.write);
            draft.notes.push(format!("index `{name}` has {read} / {write} units of its own: the language gives an index the units of its table"));
        }
        if index.on_demand_limits.is_some() {
            draft.notes.push(format!(
                "index `{name}` has limits to its on-demand units: the language has no word for them"
            ));
        }
        if let Some(why) = unsaid_index(index, frame, draft.indexes.len(), &seen) {
            draft.notes.push(format!("index `{name}` {why}: it is left out"));
            continue;
        }
        seen.push(name);
        let side = |parts: &[KeyAttribute]| {
            parts.iter().map(|part| frame.name(&part.name)).collect::<Vec<_>>().join(", ")
        };
        let alias = aliases.free(&names::snake(name));
        let mut line = if names::is_word(name) { name.to_owned() } else { quoted(name) };
        if alias != name {
            line.push_str(&format!(" as {alias}"));
        }
        line.push_str(&format!(" {}", side(&index.key.partition)));
        if !index.key.sort.is_empty() {
            line.push_str(&format!(" / {}", side(&index.key.sort)));
        }
        match &index.projection {
            Projection::All => line.push_str(" project all"),
            Projection::KeysOnly => line.push_str(" project keys"),
            Projection::Include(names) => {
                let mut said: Vec<&str> = Vec::new();
                for shown in names {
                    let name_here = frame.name(shown);
                    if Some(shown.as_str()) == frame.ttl {
                        draft.notes.push(format!("index `{name}` shows the TTL attribute, which the language cannot say there: it is left out"));
                    } else if !said.contains(&name_here) {
                        said.push(name_here);
                    }
                }
                // Alone, these words mean something else.
                if let ["all" | "keys"] = said.as_slice() {
                    draft.notes.push(format!(
                        "index `{name}` shows `{}` alone, which the language cannot say: it is left out",
                        said[0]
                    ));
                    said.clear();
                }
                line.push_str(&match said.is_empty() {
                    true => " project keys".to_owned(),
                    false => format!(" project {}", said.join(", ")),
                });
            }
        }
        draft.indexes.push(line);
    }
}

/// Why the language cannot say an index.
fn unsaid_index(
    index: &IndexDefinition,
    frame: &Frame<'_>,
    said: usize,
    seen: &[&str],
) -> Option<&'static str> {
    let KeySchema { partition, sort } = &index.key;
    let names: BTreeSet<&str> = index.key.attributes().map(|attribute| attribute.name.as_str()).collect();
    if partition.is_empty() || partition.len().max(sort.len()) > INDEX_KEY_ATTRIBUTES_MAX {
        return Some("has no key that could be read");
    }
    if names.len() < partition.len() + sort.len() {
        return Some("names an attribute twice");
    }
    // Where an attribute is the TTL, no field can be called so.
    if frame.ttl.is_some_and(|ttl| names.contains(ttl)) {
        return Some("is made of the TTL attribute, which the language cannot say");
    }
    if seen.contains(&index.name.as_str()) {
        return Some("is there twice");
    }
    (said >= GLOBAL_INDEXES_MAX).then_some("is one more than DynamoDB allows")
}

impl Frame<'_> {
    fn name<'n>(&'n self, attribute: &'n str) -> &'n str {
        self.names.get(attribute).map_or(attribute, |(name, _)| name)
    }

    pub(super) fn is_indexed(&self, attribute: &str) -> bool {
        self.indexed.iter().any(|known| known.name == attribute)
    }

    fn line(&self, attribute: &str, kind: &Type) -> Line {
        let (name, stored) = self.names.get(attribute).cloned().unwrap_or_default();
        Line { stored, ..Line::new(name, kind.to_string()) }
    }

    fn entities(&self, items: &[&Item], types: &mut Types, draft: &mut TableDraft) {
        let whole = || Group { items: items.to_vec(), columns: vec![Column::Field; self.key.len()] };
        let mut groups = match self.level {
            Level::Full => keys::groups(&self.key, items, true),
            Level::Careful => keys::groups(&self.key, items, false),
            Level::Plain | Level::Documents => vec![whole()],
        };
        if groups.is_empty() || groups.len() > ENTITIES_MAX {
            groups = vec![whole()];
        }
        let entity_names = self.entity_names(&groups, &mut types.taken);
        // What one entity stores, others with such a key call the same.
        let mut shared: BTreeMap<(usize, String, usize), String> = BTreeMap::new();
        let links: Vec<Vec<Vec<Option<holes::Link>>>> =
            groups.iter().map(|group| self.links(group)).collect();
        for (group, links) in groups.iter().zip(&links) {
            for (at, (column, links)) in group.columns.iter().zip(links).enumerate() {
                for (hole, link) in links.iter().enumerate() {
                    if let Some(link) = link {
                        let place = (at, holes::skeleton(column), hole);
                        shared.entry(place).or_insert_with(|| self.name(&link.attribute).to_owned());
                    }
                }
            }
        }
        for ((group, links), name) in groups.iter().zip(&links).zip(&entity_names) {
            let entity = self.entity(group, links, &shared, name, types);
            draft.entities.push(entity);
        }
        if self.ttl.is_some() && draft.entities.iter().all(|entity| entity.ttl.is_none()) {
            let first = &mut draft.entities[0];
            self.given_ttl(
                first,
                "guessed: no item with a TTL was seen; write how long one lives, as in `ttl 7d`, or leave it",
            );
        }
        if self.level <= Level::Careful {
            self.collections(&groups, &mut types.taken, draft);
        }
    }

    fn entity_names(&self, groups: &[Group<'_>], taken: &mut Taken) -> Vec<String> {
        let table = names::pascal(&names::singular(&names::snake(&self.found.label)));
        let first = |group: &Group<'_>| beginning(group.columns.first()).unwrap_or_else(|| table.clone());
        let plain = ["Meta", "Metadata", "Profile", "Info", "Root", "Head", "Detail", "Details", "Data", "A"];
        let names = groups.iter().map(|group| {
            let first = first(group);
            let alone = groups
                .iter()
                .filter(|other| beginning(other.columns.first()) == beginning(group.columns.first()))
                .count()
                == 1;
            match beginning(group.columns.get(1)) {
                Some(second) if !alone && !plain.contains(&second.as_str()) && second != first => {
                    format!("{first}{second}")
                }
                _ => first,
            }
        });
        names.map(|name| taken.free(&name)).collect()
    }

    /// The attribute behind each hole of each column, if there is one.
    fn links(&self, group: &Group<'_>) -> Vec<Vec<Option<holes::Link>>> {
        let is_own = |name: &str| {
            self.key.iter().all(|key| key.name != name)
                && Some(name) != self.ttl
                && !name.starts_with("larder_")
        };
        let all: BTreeSet<&str> =
            group.items.iter().flat_map(|item| item.names()).filter(|name| is_own(name)).collect();
        // An attribute that is there for an index is a copy.
        let (copies, own): (Vec<&str>, Vec<&str>) = all.into_iter().partition(|name| self.is_indexed(name));
        let column = |column: &Column<'_>| match column {
            Column::Field => Vec::new(),
            Column::Template(pieces) => {
                let last = pieces.len() - 1;
                let holes = pieces.iter().enumerate().filter_map(|(at, piece)| match piece {
                    Piece::Hole(hole) => Some((at, hole)),
                    Piece::Text(_) => None,
                });
                holes
                    .map(|(at, hole)| {
                        holes::link(hole, &group.items, at == last, own.iter().chain(&copies).copied())
                    })
                    .collect()
            }
        };
        group.columns.iter().map(column).collect()
    }

    fn entity(
        &self,
        group: &Group<'_>,
        links: &[Vec<Option<holes::Link>>],
        shared: &BTreeMap<(usize, String, usize), String>,
        name: &str,
        types: &mut Types,
    ) -> EntityDraft {
        let mut entity = EntityDraft { name: name.to_owned(), ..EntityDraft::default() };
        let mut seen: BTreeMap<&str, Vec<&AttributeValue>> = BTreeMap::new();
        for (attribute, value) in group.items.iter().flat_map(|item| item.iter()) {
            seen.entry(attribute).or_default().push(value);
        }
        let is_field = |name: &str| Some(name) != self.ttl && !name.starts_with("larder_");
        seen.retain(|name, _| is_field(name));
        for (column, attribute) in group.columns.iter().zip(&self.key) {
            let values = seen.remove(attribute.name.as_str()).unwrap_or_default();
            if *column == Column::Field {
                entity.lines.push(self.key_line(name, attribute, &values, types));
            }
        }
        let keys = entity.lines.len();
        let mut fields: Vec<(&str, Line, Type)> = Vec::new();
        for (attribute, values) in &seen {
            let in_key = links.iter().flatten().flatten().any(|link| link.attribute == *attribute);
            let (mut line, mut kind) = self.field(name, attribute, values, group.items.len(), types);
            // Keys are open to what was not seen.
            if in_key && matches!(kind, Type::Choice(_)) {
                kind = Type::String;
                line = Line { note: None, kind: kind.to_string(), ..line };
            }
            fields.push((attribute, line, kind));
        }
        if fields.len() > FIELDS_MAX / 2 {
            let many = fields.len();
            // What most items have says most.
            fields.sort_by_key(|(attribute, ..)| {
                (!self.is_indexed(attribute), usize::MAX - seen[attribute].len())
            });
            fields.truncate(FIELDS_MAX / 2);
            entity.notes.push(format!("{many} attributes were seen; the {} most frequent are here, the others are kept as they are.", FIELDS_MAX / 2));
        }
        let mut inputs = Vec::new();
        let key = self.key_text(group, links, shared, &mut fields, &mut inputs, &entity);
        if self.level == Level::Full {
            self.equations(group, links, &key, &mut fields);
        }
        self.ttl(group, &fields, &mut entity);
        entity.key = group.columns.iter().any(|column| *column != Column::Field).then(|| key.join(" / "));
        entity.lines.splice(keys..keys, inputs);
        entity.lines.extend(fields.into_iter().map(|(_, line, _)| line));
        entity
    }

    fn key_line(
        &self,
        owner: &str,
        attribute: &KeyAttribute,
        values: &[&AttributeValue],
        types: &mut Types,
    ) -> Line {
        let guess = types.guess(owner, &attribute.name, values);
        let (kind, note) = of_key(attribute.kind, guess, values.is_empty());
        let mut line = self.line(&attribute.name, &kind);
        line.note = note;
        if matches!(kind, Type::String | Type::Bytes) {
            line.check("nonempty");
        }
        line
    }

    fn field(
        &self,
        owner: &str,
        attribute: &str,
        values: &[&AttributeValue],
        items: usize,
        types: &mut Types,
    ) -> (Line, Type) {
        let indexed = self.indexed.iter().find(|known| known.name == attribute);
        let guess = match self.level {
            Level::Documents if indexed.is_none() => Guess::json("guessed no further"),
            _ => types.guess(owner, attribute, values),
        };
        let (kind, note) = match indexed {
            Some(known) => of_key(known.kind, guess, values.is_empty()),
            None => (guess.kind, guess.note),
        };
        let mut line = self.line(attribute, &kind);
        line.note = note;
        line.optional = values.len() < items && !matches!(kind, Type::Set(_));
        if indexed.is_some() && matches!(kind, Type::String | Type::Bytes) {
            line.check("nonempty");
        }
        if indexed.is_none() && sounds_secret(&line.name) && kind.is_text() {
            line.check("secret");
        }
        (line, kind)
    }

    /// The text of each key attribute: a template, or the field of its name.
    fn key_text(
        &self,
        group: &Group<'_>,
        links: &[Vec<Option<holes::Link>>],
        shared: &BTreeMap<(usize, String, usize), String>,
        fields: &mut [(&str, Line, Type)],
        inputs: &mut Vec<Line>,
        entity: &EntityDraft,
    ) -> Vec<String> {
        let mut taken = Taken::default();
        for line in entity.lines.iter().chain(fields.iter().map(|(_, line, _)| line)) {
            taken.free(&line.name);
        }
        let mut texts = Vec::new();
        for (at, (column, attribute)) in group.columns.iter().zip(&self.key).enumerate() {
            let Column::Template(pieces) = column else {
                texts.push(self.name(&attribute.name).to_owned());
                continue;
            };
            let mut text = String::new();
            let mut hole_at = 0;
            for (place, piece) in pieces.iter().enumerate() {
                let hole = match piece {
                    Piece::Text(constant) => {
                        text.push_str(&escaped(constant));
                        continue;
                    }
                    Piece::Hole(hole) => hole,
                };
                let is_last = place + 1 == pieces.len();
                let link = links[at].get(hole_at).and_then(Option::as_ref);
                let field = link.and_then(|link| {
                    let (_, line, kind) = fields.iter_mut().find(|(name, ..)| *name == link.attribute)?;
                    holes::linked(hole, link, kind, is_last, line)
                });
                let written = field.unwrap_or_else(|| {
                    let known =
                        shared.get(&(at, holes::skeleton(column), hole_at)).filter(|name| !taken.has(name));
                    let wanted = known.cloned().unwrap_or_else(|| holes::name(pieces, place));
                    let (line, written) = holes::input(hole, &wanted, &mut taken);
                    inputs.push(line);
                    written
                });
                text.push_str(&written);
                hole_at += 1;
            }
            texts.push(format!("\"{text}\""));
        }
        texts
    }

    fn collections(&self, groups: &[Group<'_>], taken: &mut Taken, draft: &mut TableDraft) {
        if self.key.len() < 2 {
            return;
        }
        let partition = |entity: &EntityDraft| {
            entity.key.as_ref().map(|key| key.split(" / ").next().unwrap_or_default().to_owned())
        };
        let mut done: Vec<String> = Vec::new();
        for at in 0..groups.len() {
            let Some(key) = partition(&draft.entities[at]).filter(|key| !done.contains(key)) else {
                continue;
            };
            let values = |group: &Group<'_>| -> Vec<AttributeValue> {
                group.items.iter().filter_map(|item| item.get(&self.key[0].name).cloned()).collect()
            };
            let own = values(&groups[at]);
            let members: Vec<usize> = (0..groups.len())
                .filter(|other| partition(&draft.entities[*other]).as_ref() == Some(&key))
                .filter(|other| {
                    *other == at || values(&groups[*other]).iter().any(|value| own.contains(value))
                })
                .collect();
            done.push(key);
            if members.len() > 1 {
                let members: Vec<String> =
                    members.iter().map(|at| draft.entities[*at].name.clone()).collect();
                let stem = shared_start(&members);
                let stem = if stem.is_empty() { members[0].clone() } else { stem };
                let wanted = if taken.has(&stem) { format!("{stem}Collection") } else { stem };
                draft.collections.push((taken.free(&wanted), members));
            }
        }
    }

    /// Attributes that an index needs and no sampled item has.
    fn unseen(&self, projected: &[&String], draft: &mut TableDraft) {
        let has = |draft: &TableDraft, name: &str| {
            draft
                .entities
                .iter()
                .flat_map(|entity| &entity.lines)
                .any(|line| !line.is_input && line.name == name)
        };
        for attribute in &self.indexed {
            if has(draft, self.name(&attribute.name)) {
                continue;
            }
            let (kind, note) = of_key(attribute.kind, Guess::json(""), true);
            let mut line = self.line(&attribute.name, &kind);
            line.optional = true;
            line.note = note;
            if matches!(kind, Type::String | Type::Bytes) {
                line.check("nonempty");
            }
            draft.entities[0].lines.push(line);
        }
        for attribute in projected {
            let is_key = self.key.iter().any(|key| key.name == **attribute);
            if is_key || Some(attribute.as_str()) == self.ttl || has(draft, self.name(attribute)) {
                continue;
            }
            let mut line = self.line(attribute, &Type::Json);
            line.optional = true;
            line.note = Some("an index shows it, and no value was seen".to_owned());
            draft.entities[0].lines.push(line);
        }
    }
}

/// What a key begins with, as a name.
fn beginning(column: Option<&Column<'_>>) -> Option<String> {
    let Some(Column::Template(pieces)) = column else { return None };
    let Some(Piece::Text(text)) = pieces.first() else { return None };
    let text = text.trim_matches(|c: char| !c.is_ascii_alphanumeric());
    (!text.is_empty()).then(|| names::pascal(text))
}

/// The type of a key attribute, which the table has declared.
fn of_key(declared: KeyType, guess: Guess, unseen: bool) -> (Type, Option<String>) {
    match guess.kind.key_type() {
        // Keys are open to what was not seen.
        Some(KeyType::S) if declared == KeyType::S && matches!(guess.kind, Type::Choice(_)) => {
            (Type::String, None)
        }
        Some(kind) if kind == declared => (guess.kind, guess.note),
        _ => {
            let kind = match declared {
                KeyType::S => Type::String,
                KeyType::N if unseen => Type::Int,
                KeyType::N => Type::Decimal,
                KeyType::B => Type::Bytes,
            };
            (kind, unseen.then(|| "no value was seen".to_owned()))
        }
    }
}

/// The words that all names begin with: `Horse` of `HorseResults` and `HorseParent`.
fn shared_start(names: &[String]) -> String {
    let Some(first) = names.first() else { return String::new() };
    let length = (0..=first.len())
        .rev()
        .find(|length| names.iter().all(|name| name.get(..*length) == first.get(..*length)))
        .unwrap_or(0);
    let ends_word =
        |end: &usize| first[*end..].starts_with(|c: char| c.is_ascii_uppercase()) || *end == first.len();
    let end = (1..=length).rev().filter(|end| first.is_char_boundary(*end)).find(ends_word).unwrap_or(0);
    first[..end].to_owned()
}
