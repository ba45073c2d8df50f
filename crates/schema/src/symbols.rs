//! What a schema names, where, and where it is used: for editors.

use std::fmt::Write as _;

use crate::cost::{Money, grouped, halved, index_price};
use crate::equation::duration_source;
use crate::schema::*;
use crate::span::Span;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SymbolKind {
    Param,
    Type,
    Source,
    Table,
    Index,
    Entity,
    Field,
    Lifecycle,
    State,
    Transition,
    Collection,
}

impl SymbolKind {
    pub fn word(self) -> &'static str {
        match self {
            Self::Param => "param",
            Self::Type => "type",
            Self::Source => "source",
            Self::Table => "table",
            Self::Index => "index",
            Self::Entity => "entity",
            Self::Field => "field",
            Self::Lifecycle => "lifecycle",
            Self::State => "state",
            Self::Transition => "transition",
            Self::Collection => "collection",
        }
    }

    /// Entities, types and collections become Rust types side by side.
    pub(crate) fn shares_names_with(self, other: Self) -> bool {
        let types = [Self::Type, Self::Entity, Self::Collection];
        let members = [Self::Field, Self::Lifecycle];
        self == other
            || (types.contains(&self) && types.contains(&other))
            || (members.contains(&self) && members.contains(&other))
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Symbol {
    pub kind: SymbolKind,
    /// Unique within its kind: `Race`, `Race.race_id`, `Shop.crawl.progress`, `keiba_data.by_type`.
    pub path: String,
    pub name: String,
    /// Where it is named.
    pub span: Span,
    pub references: Vec<Span>,
}

/// The symbol named or used at a place, and the span of its name there.
pub fn symbol_at(symbols: &[Symbol], file: u32, at: usize) -> Option<(&Symbol, Span)> {
    symbols.iter().find_map(|symbol| {
        let spans = std::iter::once(&symbol.span).chain(&symbol.references);
        spans.copied().find(|span| span.contains(file, at)).map(|span| (symbol, span))
    })
}

/// What an editor shows for a symbol, as Markdown: an entity with an example of its key.
pub fn hover(schema: &Schema, symbol: &Symbol) -> String {
    let mut out = format!("**{}** `{}`\n", symbol.kind.word(), symbol.name);
    let parts: Vec<&str> = symbol.path.split('.').collect();
    match symbol.kind {
        SymbolKind::Entity => {
            if let Some((table, entity)) = schema.entity(&symbol.path) {
                docs(&mut out, &entity.docs);
                let _ = writeln!(out, "\n{}", key_line(table, entity));
                if let Some(ttl) = &entity.ttl {
                    let _ = writeln!(out, "\nlives {}", ttl_text(ttl));
                }
            }
        }
        SymbolKind::Field => {
            let field = match schema.entity(parts[0]) {
                Some((_, entity)) => parts.get(1).and_then(|name| entity.field(name)),
                None => schema.type_definition(parts[0]).and_then(|kind| {
                    kind.fields.iter().find(|field| Some(&field.name.as_str()) == parts.get(1))
                }),
            };
            if let Some(field) = field {
                docs(&mut out, &field.docs);
                let optional = if field.optional { "?" } else { "" };
                let _ = writeln!(out, "\n`{}{optional}`", field.kind);
                if let Some(equation) = &field.equation {
                    let _ = writeln!(out, "\n`= {}`", equation.source());
                }
                if field.is_stored() && field.attribute != field.name {
                    let _ = writeln!(out, "\nstored as `{}`", field.attribute);
                }
            }
        }
        SymbolKind::Table => {
            if let Some(table) = schema.table(&symbol.path) {
                docs(&mut out, &table.docs);
                for entity in &table.entities {
                    let _ = writeln!(out, "\n{}: {}", entity.name, key_line(table, entity));
                }
            }
        }
        SymbolKind::Index => {
            let index = schema.table(parts[0]).and_then(|table| {
                table.indexes.iter().find(|index| Some(&index.alias.as_str()) == parts.get(1))
            });
            if let Some(index) = index {
                docs(&mut out, &index.docs);
                let names = |parts: &[KeyAttribute]| {
                    parts.iter().map(|part| part.attribute.clone()).collect::<Vec<_>>().join(", ")
                };
                let sort = names(&index.sort);
                let sort = if sort.is_empty() { sort } else { format!(" / `{sort}`") };
                let _ = writeln!(out, "\n`{}`{sort}", names(&index.partition));
            }
            if let (Some(table), Some(index)) = (schema.table(parts[0]), index) {
                for entity in &table.entities {
                    out.push_str(&price_line(schema, table, index, entity).unwrap_or_default());
                }
            }
        }
        SymbolKind::Param => {
            if let Some(param) = schema.param(&symbol.path) {
                docs(&mut out, &param.docs);
                if let Some(variable) = &param.variable {
                    let _ = writeln!(out, "\nfrom the environment: `{variable}`");
                }
            }
        }
        SymbolKind::State => {
            let state = schema.entity(parts[0]).and_then(|(_, entity)| {
                let lifecycle = entity.lifecycle(parts.get(1)?)?;
                lifecycle.states.iter().find(|state| Some(&state.name.as_str()) == parts.get(2))
            });
            if let Some(state) = state {
                docs(&mut out, &state.docs);
                let _ = writeln!(out, "\nwritten `{}`", state.template.example());
            }
        }
        SymbolKind::Type
        | SymbolKind::Source
        | SymbolKind::Lifecycle
        | SymbolKind::Transition
        | SymbolKind::Collection => {}
    }
    out
}

/// What an index costs for an entity that is in it.
fn price_line(schema: &Schema, table: &Table, index: &Index, entity: &Entity) -> Option<String> {
    let price = index_price(schema, table, index, entity)?;
    let (write, read) = price.million.unzip();
    let told = |units: String, million: Option<Money>| match million {
        Some(million) => format!("{units} ({million} a million)"),
        None => units,
    };
    let writes = told(format!("{} write units", price.write_units), write);
    let reads = told(format!("{} read units", halved(price.read_halves.into())), read);
    let bytes = grouped(price.bytes.into());
    Some(format!(
        "\n{}: about {bytes} bytes; a write takes {writes} more, an entry read {reads}\n",
        entity.name
    ))
}

fn docs(out: &mut String, docs: &[String]) {
    if !docs.is_empty() {
        let _ = writeln!(out, "\n{}", docs.join("\n"));
    }
}

/// `` `PK` = `RACE#race` / `SK` = `METADATA` ``
fn key_line(table: &Table, entity: &Entity) -> String {
    let part = |attribute: &KeyAttribute, source: &KeySource| {
        let example = key_example(entity, source);
        format!("`{}` = `{example}`", attribute.attribute)
    };
    let mut line = part(&table.partition, &entity.partition);
    if let (Some(attribute), Some(source)) = (&table.sort, &entity.sort) {
        line = format!("{line} / {}", part(attribute, source));
    }
    line
}

/// A key as it might look.
pub fn key_example(entity: &Entity, source: &KeySource) -> String {
    match source {
        KeySource::Template(template) => template.example(),
        KeySource::Field(name) => match entity.field(name) {
            Some(Field { equation: Some(crate::equation::Expr::Template(template)), .. }) => {
                template.example()
            }
            Some(field) => format!("{{{name}: {}}}", field.kind),
            None => name.clone(),
        },
    }
}

/// How long an item lives, in words.
pub fn ttl_text(ttl: &Ttl) -> String {
    match ttl {
        Ttl::After { millis } => duration_source(*millis),
        Ttl::Param(name) => format!("`{name}`"),
        Ttl::Value(expression) => format!("`{}`", expression.source()),
    }
}
