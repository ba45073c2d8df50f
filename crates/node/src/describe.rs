//! A schema as `lib/system.js` needs it: what each field is, what keys and partitions are made of, what can be called.

use larder::Schema;
use larder_schema::schema::{Lifecycle, Type};
use larder_schema::{Access, Argument, Entity, Table};
use serde_json::{Map, Value as Json, json};

pub(crate) fn describe(schema: &Schema) -> Json {
    let mut entities = Map::new();
    let mut collections = Map::new();
    for table in &schema.tables {
        for entity in &table.entities {
            entities.insert(entity.name.clone(), describe_entity(schema, table, entity));
        }
        for collection in &table.collections {
            let mut members = collection.members.iter().filter_map(|member| schema.entity(member));
            let key = members.next().map(|(table, entity)| partition_fields(table, entity));
            let described = json!({ "members": collection.members, "key": key });
            collections.insert(collection.name.clone(), described);
        }
    }
    let types = schema.types.iter().map(|definition| {
        let fields: Map<String, Json> =
            definition.fields.iter().map(|field| (field.name.clone(), kind(&field.kind))).collect();
        (definition.name.clone(), Json::Object(fields))
    });
    json!({
        "system": schema.system,
        "types": types.collect::<Map<_, _>>(),
        "entities": entities,
        "collections": collections,
    })
}

fn describe_entity(schema: &Schema, table: &Table, entity: &Entity) -> Json {
    let fields = entity.fields.iter().map(|field| {
        let described = json!({
            "kind": kind(&field.kind),
            "given": field.is_given(),
            "secret": schema.reveals_secret(entity, field),
        });
        (field.name.clone(), described)
    });
    let aliases = table.indexes.iter().filter_map(|index| {
        let access = entity.access(table, Some(index))?;
        Some((index.alias.clone(), describe_access(&access)))
    });
    let lifecycles = entity.lifecycles.iter().map(|lifecycle| {
        let group: Vec<Json> = group(table, entity, lifecycle).iter().map(argument).collect();
        let transitions: Vec<&str> = lifecycle.transitions.iter().map(|one| one.name.as_str()).collect();
        (lifecycle.name.clone(), json!({ "group": group, "transitions": transitions }))
    });
    json!({
        "key": entity.key_names(),
        "fields": fields.collect::<Map<_, _>>(),
        "table": entity.access(table, None).map(|access| describe_access(&access)),
        "indexes": aliases.collect::<Map<_, _>>(),
        "lifecycles": lifecycles.collect::<Map<_, _>>(),
    })
}

/// The fields that name the partition of a collection.
fn partition_fields(table: &Table, entity: &Entity) -> Vec<String> {
    let access = entity.access(table, None);
    access
        .map(|access| access.arguments.into_iter().map(|argument| argument.name).collect())
        .unwrap_or_default()
}

fn describe_access(access: &Access) -> Json {
    let partition: Vec<Json> = access.arguments.iter().map(argument).collect();
    json!({ "partition": partition, "sort": access.sort.as_ref().map(|sort| kind(&sort.kind)) })
}

fn argument(argument: &Argument) -> Json {
    json!({ "name": argument.name, "kind": kind(&argument.kind) })
}

/// What the index that holds a lifecycle's state is parted by.
pub(crate) fn group(table: &Table, entity: &Entity, lifecycle: &Lifecycle) -> Vec<Argument> {
    let holds = |index: &&larder_schema::schema::Index| {
        index.sort.first().is_some_and(|key| key.attribute == lifecycle.attribute)
    };
    let access = table.indexes.iter().find(holds).and_then(|index| entity.access(table, Some(index)));
    access.map(|access| access.arguments).unwrap_or_default()
}

fn kind(of: &Type) -> Json {
    match of {
        Type::Int | Type::Sequence => "int".into(),
        Type::Float => "float".into(),
        Type::Decimal => "decimal".into(),
        Type::Bool => "bool".into(),
        Type::Bytes => "bytes".into(),
        Type::Json => "json".into(),
        Type::Instant(_) | Type::Epoch => "instant".into(),
        Type::Duration => "duration".into(),
        Type::String
        | Type::Uuid { .. }
        | Type::Url
        | Type::Choice(_)
        | Type::Date
        | Type::Datetime
        | Type::Zoned => "text".into(),
        Type::List(inner) => json!({ "list": kind(&inner.kind) }),
        Type::Set(inner) => json!({ "set": kind(inner) }),
        Type::Map(inner) => json!({ "map": kind(&inner.kind) }),
        Type::Named(name) => json!({ "type": name }),
    }
}
