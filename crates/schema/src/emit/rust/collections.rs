//! Collections: what is read, what is written, the key of the partition, the handle.

use super::entities::one_or_tuple;
use super::names::{identifier, plural, snake};
use super::{Member, Module, Presence, docs, fill, quoted};
use crate::schema::{Collection, Entity, KeySource, Table};

impl<'a> Module<'a> {
    pub(super) fn collection(&mut self, table: &'a Table, collection: &'a Collection) {
        let members: Vec<&Entity> =
            table.entities.iter().filter(|entity| collection.members.contains(&entity.name)).collect();
        // As the layer has it: a member of which there is one stands for all.
        let lead = members.iter().find(|entity| is_single(entity)).or(members.first());
        let Some((lead, access)) = lead.and_then(|lead| Some((*lead, lead.access(table, None)?))) else {
            return;
        };
        let name = self.known[collection.name.as_str()].clone();
        let key = self.names.claim(&[format!("{name}Key")]);
        let arguments = access.arguments.iter().filter_map(|argument| lead.field(&argument.name));
        let key_members: Vec<Member<'_>> =
            arguments.map(|field| self.member(&lead.name, field, &field.name, Presence::Always)).collect();
        self.key(&key, &format!("What a [`{name}`] is found by."), &key_members);
        let asked: Vec<&str> = key_members.iter().map(|member| member.kind.as_str()).collect();

        let new = self.names.claim(&[format!("New{name}")]);
        let (mut read, mut written, mut take, mut give) = Default::default();
        for entity in members {
            let (record, made) = (&self.known[entity.name.as_str()], &self.new_names[entity.name.as_str()]);
            self.collected(entity, &name, record, made, [&mut read, &mut written, &mut take, &mut give]);
        }
        let handle = self.handle_name(&collection.name, "Collection");
        let made = format!("{handle} {{ collection: self.system.collection_of() }}");
        self.method(&plural(&snake(&collection.name)), &handle, &collection.docs, &made);
        self.write(
            "
$docs#[derive(Clone, Debug, PartialEq, Default)]
pub struct $Horse {
$read}

/// What is given to write a [`$Horse`]: what is left out stays as it is.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct $New {
$written}

impl ::larder::Gather for $Horse {
    const COLLECTION: &'static str = $label;
    type Key = $Key;
    type Ask = $ask;
    type New = $New;

    fn read(mut members: ::larder::Members) -> ::std::result::Result<Self, ::larder::Error> {
        ::std::result::Result::Ok(Self {
$take        })
    }

    fn members(new: $New) -> ::std::vec::Vec<(::std::string::String, ::larder::Fields)> {
        let mut members = ::std::vec::Vec::new();
$give        members
    }
}

$docs#[derive(Clone, Debug)]
pub struct $Horses {
    collection: ::larder::Collection<$Horse>,
}

impl ::std::ops::Deref for $Horses {
    type Target = ::larder::Collection<$Horse>;

    fn deref(&self) -> &Self::Target {
        &self.collection
    }
}
",
            &[
                ("docs", &docs("", &collection.docs)),
                ("Horse", &name),
                ("New", &new),
                ("read", &read),
                ("written", &written),
                ("label", &quoted(&collection.name)),
                ("Key", &key),
                ("ask", &one_or_tuple(&asked)),
                ("take", &take),
                ("give", &give),
                ("Horses", &handle),
            ],
        );
    }

    /// What one member adds: to the struct that is read, to the one that is written, and to what fills them.
    fn collected(&self, entity: &Entity, collection: &str, record: &str, new: &str, code: [&mut String; 4]) {
        let [read, written, take, give] = code;
        // The results of a horse are `results`.
        let short = record.strip_prefix(collection).filter(|rest| !rest.is_empty()).unwrap_or(record);
        let (name, many, function) = match is_single(entity) {
            true => (identifier(&snake(short)), "::std::option::Option", "one"),
            false => (identifier(&plural(&snake(short))), "::std::vec::Vec", "all"),
        };
        let label = quoted(&entity.name);
        let about = docs("    ", &entity.docs);
        read.push_str(&format!("{about}    pub {name}: {many}<{record}>,\n"));
        written.push_str(&format!("{about}    pub {name}: {many}<{new}>,\n"));
        take.push_str(&format!("            {name}: members.{function}()?,\n"));
        give.push_str(&fill(
            "        members.extend(new.$name.into_iter().map(|one| ($label.to_owned(), ::larder::Given::into_fields(one))));
",
            &[("name", &name), ("label", &label)],
        ));
    }
}

/// Whether a partition has one record of the entity at most.
fn is_single(entity: &Entity) -> bool {
    match &entity.sort {
        None => true,
        Some(KeySource::Template(template)) => template.holes().next().is_none(),
        Some(KeySource::Field(_)) => false,
    }
}
