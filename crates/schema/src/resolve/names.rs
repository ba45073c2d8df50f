//! First pass: who is called what; then the rest is asked for, table by table.

use crate::ast::{self, Item, LiteralKind, Setting, TemplatePart};
use crate::diagnostic::Diagnostic;
use crate::resolve::settings::{self, BLOCKS, Place, TableSettings, Words};
use crate::resolve::types::{TypeScope, literal_value};
use crate::resolve::{Context, advice, tables, types};
use crate::schema::*;
use crate::span::Span;
use crate::symbols::SymbolKind;
use crate::token::TokenKind;
use crate::value::Value;

pub(super) fn resolve<'a>(
    context: &mut Context<'a>,
    items: &'a [Item],
    environment: &Environment,
) -> Option<Schema> {
    let mut schema = Schema {
        system: String::new(),
        docs: Vec::new(),
        naming: Naming::default(),
        version: None,
        params: Vec::new(),
        types: Vec::new(),
        sources: Vec::new(),
        store: StoreLimits::default(),
        tables: Vec::new(),
        grants: Vec::new(),
        alarms: Vec::new(),
        budgets: Vec::new(),
        workload: None,
        metrics: None,
    };
    define_all(context, items);
    system(context, items, &mut schema);
    file_settings(context, items, &mut schema);
    for item in items {
        match item {
            Item::Param(item) => schema.params.extend(param(context, item, environment)),
            Item::Source { name, settings: words, docs } => {
                let mut source = Source { name: name.text.clone(), docs: docs.clone(), ..Source::default() };
                context.check_twice(words);
                for setting in words {
                    settings::source(context, &mut source, setting);
                }
                if let (Some((_, longest)), Some((_, hard))) = (source.latency_millis, source.timeout_millis)
                    && hard < longest
                {
                    let span = words.iter().find(|setting| setting.name.text == "timeout");
                    context.report(
                        Diagnostic::new(
                            "L0512",
                            span.map_or(name.span, |setting| setting.span),
                            format!("`{}` is given up before it answers", name.text),
                        )
                        .note("a call takes as long as `latency` says, and longer than `timeout` lets it")
                        .help("make the timeout longer than the longest call"),
                    );
                }
                schema.sources.push(source);
            }
            _ => {}
        }
    }
    let defaults = defaults(context, items);
    let scope = TypeScope::new(items, schema.naming);
    schema.types = types::definitions(context, items, &scope);
    for item in items {
        if let Item::Table(table) = item
            && let Some(table) = tables::table(context, table, &defaults, &scope, &schema)
        {
            schema.tables.push(table);
        }
    }
    same_names(context, items, &schema);
    blocks(context, items, &mut schema);
    advice::give(context, items, &schema);
    Some(schema)
}

fn define_all(context: &mut Context<'_>, items: &[Item]) {
    for item in items {
        match item {
            Item::Param(param) => context.define(SymbolKind::Param, &param.name.text, &param.name),
            Item::Source { name, .. } => context.define(SymbolKind::Source, &name.text, name),
            Item::Type(item) => {
                context.define(SymbolKind::Type, &item.name.text, &item.name);
                if Type::NAMES.contains(&item.name.text.as_str()) {
                    context.report(
                        Diagnostic::new(
                            "L0203",
                            item.name.span,
                            format!("`{}` is a type already", item.name.text),
                        )
                        .help("give it another name"),
                    );
                }
                for field in &item.fields {
                    context.define(
                        SymbolKind::Field,
                        &format!("{}.{}", item.name.text, field.name.text),
                        &field.name,
                    );
                }
            }
            Item::Table(table) => {
                context.define(SymbolKind::Table, &table.name.text, &table.name);
                define_table(context, table);
            }
            Item::System { .. } | Item::Include { .. } | Item::Block(_) | Item::Setting(_) => {}
        }
    }
}

fn define_table(context: &mut Context<'_>, table: &ast::Table) {
    for index in &table.indexes {
        let alias = index.alias.as_ref().unwrap_or(&index.name);
        context.define(SymbolKind::Index, &format!("{}.{}", table.name.text, alias.text), alias);
    }
    for entity in &table.entities {
        let path = &entity.name.text;
        context.define(SymbolKind::Entity, path, &entity.name);
        for field in &entity.fields {
            context.define(SymbolKind::Field, &format!("{path}.{}", field.name.text), &field.name);
        }
        for lifecycle in &entity.lifecycles {
            let path = format!("{path}.{}", lifecycle.name.text);
            context.define(SymbolKind::Lifecycle, &path, &lifecycle.name);
            for state in &lifecycle.states {
                context.define(SymbolKind::State, &format!("{path}.{}", state.name.text), &state.name);
            }
            for transition in &lifecycle.transitions {
                context.define(
                    SymbolKind::Transition,
                    &format!("{path}.{}", transition.name.text),
                    &transition.name,
                );
            }
        }
    }
    for collection in &table.collections {
        context.define(SymbolKind::Collection, &collection.name.text, &collection.name);
    }
}

fn system(context: &mut Context<'_>, items: &[Item], schema: &mut Schema) {
    let mut first: Option<Span> = None;
    for item in items {
        let Item::System { name, docs } = item else { continue };
        if let Some(first) = first {
            context.report(
                Diagnostic::new("L0204", name.span, "a schema describes one system")
                    .other(first, "it was named here")
                    .help("keep one `system` line"),
            );
            continue;
        }
        first = Some(name.span);
        schema.system = name.text.clone();
        schema.docs = docs.clone();
    }
    if first.is_none() && !context.broken {
        context.report(
            Diagnostic::new("L0204", Span::default(), "this schema does not say which system it describes")
                .help("begin the file with `system NAME`"),
        );
    }
}

fn file_settings<'a>(context: &mut Context<'a>, items: &'a [Item], schema: &mut Schema) {
    let mut seen: Vec<&Setting> = Vec::new();
    for item in items {
        let Item::Setting(setting) = item else { continue };
        if let Some(first) = seen.iter().find(|first| first.name.text == setting.name.text) {
            context.report(
                Diagnostic::new("L0202", setting.name.span, format!("`{}` is set twice", setting.name.text))
                    .other(first.name.span, "first here")
                    .help("keep one of them"),
            );
        }
        seen.push(setting);
        settings::file(context, schema, setting);
    }
}

fn param(context: &mut Context<'_>, item: &ast::Param, environment: &Environment) -> Option<Param> {
    let Some(kind) = ParamKind::ALL.into_iter().find(|kind| kind.name() == item.kind.text) else {
        context.report(
            Diagnostic::new("L0307", item.kind.span, format!("a param cannot be a `{}`", item.kind.text))
                .did_you_mean(&item.kind.text, ParamKind::ALL.map(ParamKind::name)),
        );
        return None;
    };
    let wanted = match kind {
        ParamKind::String => Type::String,
        ParamKind::Int => Type::Int,
        ParamKind::Bool => Type::Bool,
        ParamKind::Duration => Type::Duration,
    };
    let Some(default) = literal_value(&item.default, &wanted) else {
        context.report(
            Diagnostic::new("L0307", item.default.span, format!("this is not a {}", kind.name()))
                .other(item.kind.span, "the param's type"),
        );
        return None;
    };
    let mut unit = None;
    if let Some(name) = &item.unit {
        unit = Unit::ALL.into_iter().find(|unit| unit.name() == name.text);
        if unit.is_none() || kind != ParamKind::Duration {
            let mut problem =
                Diagnostic::new("L0307", name.span, format!("`in {}` does not fit here", name.text));
            problem = if kind == ParamKind::Duration {
                problem.did_you_mean(&name.text, Unit::ALL.map(Unit::name))
            } else {
                problem.note(format!("a unit is for a duration, and this is a {}", kind.name()))
            };
            context.report(problem);
        }
    }
    let param = Param {
        name: item.name.text.clone(),
        docs: item.docs.clone(),
        kind,
        default,
        variable: item.variable.as_ref().map(|name| name.text.clone()),
        unit,
    };
    if let (Err(problem), Some(variable)) = (param.value(environment), &item.variable) {
        context.report(
            Diagnostic::new("L0308", variable.span, problem.to_string())
                .help(format!("change {} in the environment, or unset it to use the default", variable.text)),
        );
    }
    Some(param)
}

/// Settings that hold where nothing else is said.
#[derive(Clone, Debug, Default)]
pub(super) struct Defaults<'a> {
    pub(super) table: Vec<&'a Setting>,
    pub(super) entity: Vec<&'a Setting>,
}

fn defaults<'a>(context: &mut Context<'a>, items: &'a [Item]) -> Defaults<'a> {
    let mut defaults = Defaults::default();
    for item in items {
        let Item::Block(block) = item else { continue };
        if block.name.text != "defaults" {
            continue;
        }
        context.check_twice(&block.settings);
        for setting in &block.settings {
            let name = setting.name.text.as_str();
            // A default name or TTL would give every table the same one.
            let own = matches!(name, "name" | "ttl" | "label");
            if !own && settings::setting_rule(Place::Entity, name).is_some() {
                defaults.entity.push(setting);
            } else if !own && settings::setting_rule(Place::Table, name).is_some() {
                defaults.table.push(setting);
            } else if own {
                context.report(
                    Diagnostic::new("L0205", setting.name.span, format!("`{name}` has no default"))
                        .help("say it where it holds"),
                );
            } else {
                context.unknown_setting(Place::Entity, setting);
            }
        }
    }
    defaults
}

fn same_names(context: &mut Context<'_>, items: &[Item], schema: &Schema) {
    for (at, table) in schema.tables.iter().enumerate() {
        let same = schema.tables[..at].iter().find(|other| other.stored_name == table.stored_name);
        if let Some(other) = same {
            let span_of = |name: &str| {
                items.iter().find_map(|item| match item {
                    Item::Table(table) if table.name.text == name => Some(table.name.span),
                    _ => None,
                })
            };
            let (Some(span), Some(first)) = (span_of(&table.name), span_of(&other.name)) else { continue };
            context.report(
                Diagnostic::new("L0202", span, "two tables have the same name in the store")
                    .other(first, "the first is here")
                    .help("give each a `name` of its own"),
            );
        }
    }
}

fn blocks<'a>(context: &mut Context<'a>, items: &'a [Item], schema: &mut Schema) {
    let mut seen: Vec<&ast::Name> = Vec::new();
    for item in items {
        let Item::Block(block) = item else { continue };
        let name = block.name.text.as_str();
        if name != "grant" {
            if let Some(first) = seen.iter().find(|first| first.text == name) {
                context.report(
                    Diagnostic::new("L0202", block.name.span, format!("there are two `{name}` blocks"))
                        .other(first.span, "the first is here")
                        .help("put them together"),
                );
            }
            seen.push(&block.name);
        }
        if !matches!(name, "metrics" | "grant")
            && let Some(extra) = block.values.first()
        {
            context.report(Diagnostic::new("L0003", extra.span, format!("expected `{{` after `{name}`")));
        }
        match name {
            "defaults" => {}
            "alarms" => {
                for setting in &block.settings {
                    schema.alarms.extend(settings::alarm(context, setting));
                }
            }
            "store" => {
                context.check_twice(&block.settings);
                for setting in &block.settings {
                    settings::store(context, &mut schema.store, setting);
                }
            }
            "workload" => {
                let mut workload = Workload::default();
                context.check_twice(&block.settings);
                for setting in &block.settings {
                    settings::workload(context, &mut workload, setting);
                }
                schema.workload = Some(workload);
            }
            "metrics" => metrics(context, block, schema),
            "grant" => grant(context, block, schema),
            _ => context.report(
                Diagnostic::new("L0205", block.name.span, format!("there is no block called `{name}`"))
                    .did_you_mean(name, BLOCKS.into_iter().chain(["table", "type", "source"])),
            ),
        }
    }
}

fn metrics<'a>(context: &mut Context<'a>, block: &'a ast::Block, schema: &mut Schema) {
    let mut words = Words::of(context, &block.values);
    let namespace = match words.literal().map(|literal| literal.kind) {
        Some(LiteralKind::Text(template)) if words.is_done() => template.plain(),
        _ => None,
    };
    let Some(namespace) = namespace else {
        context.report(
            Diagnostic::new("L0206", block.name.span, "metrics need a namespace")
                .help("write: metrics \"NAME\" { … }"),
        );
        return;
    };
    context.check_twice(&block.settings);
    let names = block.settings.iter().filter_map(|setting| settings::metric(context, setting)).collect();
    schema.metrics = Some(Metrics { namespace, names });
}

/// `grant app { get, put }`, `grant reader on disclosures { get, query }`
fn grant<'a>(context: &mut Context<'a>, block: &'a ast::Block, schema: &mut Schema) {
    let mut words = Words::of(context, &block.values);
    let Some((name, _)) = words.word() else {
        context.report(
            Diagnostic::new("L0206", block.name.span, "a grant needs a name")
                .help("write: grant NAME { get, put, … }"),
        );
        return;
    };
    let mut tables = Vec::new();
    if words.eat("on") {
        while let Some((table, span)) = words.word() {
            if schema.table(table).is_some() {
                tables.push(table.to_owned());
                context.refer(SymbolKind::Table, table, span);
            } else {
                let known: Vec<String> = schema.tables.iter().map(|table| table.name.clone()).collect();
                let name = ast::Name { text: table.to_owned(), span };
                context.unknown("table", &name, known.iter().map(String::as_str));
            }
            words.eat(",");
        }
    }
    let mut actions = Vec::new();
    for setting in &block.settings {
        match Action::ALL.into_iter().find(|action| action.name() == setting.name.text) {
            Some(action) if actions.contains(&action) => context.report(
                Diagnostic::new(
                    "L0202",
                    setting.name.span,
                    format!("`{}` is granted twice", setting.name.text),
                )
                .help("keep one of them"),
            ),
            Some(action) => actions.push(action),
            None => context.report(
                Diagnostic::new(
                    "L0702",
                    setting.name.span,
                    format!("nobody can be granted `{}`", setting.name.text),
                )
                .did_you_mean(&setting.name.text, Action::ALL.map(Action::name)),
            ),
        }
    }
    schema.grants.push(Grant { name: name.to_owned(), actions, tables });
}

impl<'a> Context<'a> {
    /// `name table_name` or `name "lunch-cache-{stage}"`.
    pub(crate) fn param_text(&mut self, setting: &'a Setting) -> Option<(ParamText, Span)> {
        let words = Words::of(self, &setting.values);
        let span = words.span();
        match words.peek()?.kind {
            TokenKind::Text | TokenKind::Word if setting.values.len() == 1 => {
                self.param_value(&setting.values[0]).map(|text| (text, span))
            }
            _ => {
                self.bad_setting(Place::Table, setting);
                None
            }
        }
    }

    fn param_value(&mut self, token: &'a crate::token::Token) -> Option<ParamText> {
        let mut words = Words::of(self, std::slice::from_ref(token));
        if let Some((name, span)) = words.word() {
            return self.param_part(name, span).map(|part| ParamText(vec![part]));
        }
        let LiteralKind::Text(template) = words.literal()?.kind else { return None };
        let mut parts = Vec::new();
        for part in &template.parts {
            match part {
                TemplatePart::Text(text) => parts.push(ParamPart::Text(text.clone())),
                TemplatePart::Hole { name, format, .. } => {
                    if let Some(format) = format {
                        self.report(
                            Diagnostic::new("L0104", format.span, "a param takes no format")
                                .help("leave it out"),
                        );
                    }
                    parts.push(self.param_part(&name.text, name.span)?);
                }
            }
        }
        Some(ParamText(parts))
    }

    fn param_part(&mut self, name: &str, span: Span) -> Option<ParamPart> {
        let known: Vec<String> = self
            .symbols
            .iter()
            .filter(|symbol| symbol.kind == SymbolKind::Param)
            .map(|symbol| symbol.path.clone())
            .chain(["version".to_owned()])
            .collect();
        if known.iter().any(|param| param == name) {
            self.refer(SymbolKind::Param, name, span);
            return Some(ParamPart::Param(name.to_owned()));
        }
        let name = ast::Name { text: name.to_owned(), span };
        self.unknown("param", &name, known.iter().map(String::as_str));
        None
    }

    /// `tags Name "Weather", Environment stage`
    pub(crate) fn tags(&mut self, setting: &'a Setting) -> Vec<(String, ParamText)> {
        let mut tags = Vec::new();
        let mut rest = setting.values.as_slice();
        loop {
            let [name, value, more @ ..] = rest else {
                self.bad_setting(Place::Table, setting);
                return tags;
            };
            let key = match name.kind {
                TokenKind::Word => self.text(name.span.file)[name.span.range()].to_owned(),
                TokenKind::Text => {
                    let mut words = Words::of(self, std::slice::from_ref(name));
                    match words.literal().map(|literal| literal.kind) {
                        Some(LiteralKind::Text(template)) => template.plain().unwrap_or_default(),
                        _ => String::new(),
                    }
                }
                _ => String::new(),
            };
            if key.is_empty() || !matches!(value.kind, TokenKind::Word | TokenKind::Text) {
                self.bad_setting(Place::Table, setting);
                return tags;
            }
            if let Some(text) = self.param_value(value) {
                tags.push((key, text));
            }
            match more {
                [] => return tags,
                [comma, more @ ..] if comma.kind == TokenKind::Mark(",") => rest = more,
                _ => {
                    self.bad_setting(Place::Table, setting);
                    return tags;
                }
            }
        }
    }
}

/// The name a table has in the store, checked as far as it can be without an environment.
pub(super) fn stored_name(
    context: &mut Context<'_>,
    table: &ast::Table,
    written: &TableSettings,
    schema: &Schema,
) -> ParamText {
    let by_itself = (ParamText::text(&table.name.text), table.name.span);
    let (text, span) = written.name.as_ref().unwrap_or(&by_itself);
    let mut sample = String::new();
    for part in &text.0 {
        match part {
            ParamPart::Text(piece) => sample.push_str(piece),
            ParamPart::Param(name) => match schema.param(name).map(|param| &param.default) {
                Some(Value::Text(default)) => sample.push_str(default),
                Some(_) | None => sample.push('1'),
            },
        }
    }
    if larder_model::TableName::new(sample.clone()).is_err() {
        context.report(
            Diagnostic::new("L0511", *span, format!("a table cannot be called `{sample}`"))
                .note("a name has 3 to 255 characters of a-z, A-Z, 0-9, `_`, `.` and `-`"),
        );
    }
    text.clone()
}
