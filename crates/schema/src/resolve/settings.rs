//! Settings: which exist, where they may stand, and what their words mean.
//!
//! [`SETTINGS`] is the one list: checks, completion, hover and the manual read it.

use std::collections::HashMap;

use larder_model::Number;

use crate::ast::{Literal, LiteralKind, Setting};
use crate::diagnostic::{Diagnostic, closest};
use crate::parse::{parse_expression, parse_literal};
use crate::resolve::Context;
use crate::schema::*;
use crate::span::Span;
use crate::token::{Token, TokenKind};

/// Where a setting stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    File,
    Source,
    Store,
    Table,
    Entity,
    Lifecycle,
    Alarms,
    Workload,
    Metrics,
}

#[derive(Clone, Copy, Debug)]
pub struct SettingRule {
    pub name: &'static str,
    pub place: Place,
    /// What may follow the word.
    pub form: &'static str,
    pub meaning: &'static str,
}

const fn rule(place: Place, name: &'static str, form: &'static str, meaning: &'static str) -> SettingRule {
    SettingRule { name, place, form, meaning }
}

/// Every setting there is.
pub const SETTINGS: &[SettingRule] = &[
    rule(Place::File, "naming", "camel | pascal | same", "how names become stored names"),
    rule(
        Place::File,
        "version",
        "N [keep DURATION]",
        "a breaking change makes a new table; the old one stays that long",
    ),
    rule(
        Place::File,
        "budget",
        "MONEY {, MONEY} per month",
        "somebody is told when a month has cost this much",
    ),
    rule(Place::Source, "cost", "MONEY per call", "what a call costs"),
    rule(
        Place::Source,
        "latency",
        "DURATION..DURATION",
        "how long a call takes; its timeout is to be longer",
    ),
    rule(
        Place::Source,
        "pace",
        "N per second|minute|hour|day [burst N]",
        "calls are spread to at most this many",
    ),
    rule(
        Place::Source,
        "retry",
        "N [backoff DURATION..DURATION]",
        "tries again so often, after growing pauses",
    ),
    rule(
        Place::Source,
        "timeout",
        "DURATION | DURATION..DURATION",
        "soft..hard: the stale value is given, then the call is given up",
    ),
    rule(
        Place::Source,
        "breaker",
        "N for DURATION",
        "after N failures in a row the source is left alone that long",
    ),
    rule(
        Place::Store,
        "timeout",
        "DURATION | DURATION..DURATION",
        "short..long: what a cached read waits for the store, and what every other request does; 300ms..10s",
    ),
    rule(
        Place::Store,
        "retry",
        "N [backoff DURATION..DURATION]",
        "a request is sent again so often, after growing pauses; 4 backoff 25ms..1s",
    ),
    rule(
        Place::Store,
        "breaker",
        "N for DURATION",
        "after N failures in a row cached reads go on without the store that long; 5 for 5s, but not of an embedded one",
    ),
    rule(Place::Table, "name", "PARAM | TEMPLATE", "what the store calls the table; params may stand in it"),
    rule(Place::Table, "region", "TEXT", "where it lives"),
    rule(Place::Table, "ttl", "NAME", "the attribute that says when an item ends, in Unix seconds"),
    rule(
        Place::Table,
        "billing",
        "on_demand | provisioned N / N",
        "paid by request, or by read and write units",
    ),
    rule(
        Place::Table,
        "pitr",
        "on | off | DURATION",
        "point-in-time recovery: as many days back, `1d` to `35d`; `on` is `35d`",
    ),
    rule(Place::Table, "encryption", "aws_owned | aws_managed | kms TEXT", "whose key encrypts it at rest"),
    rule(
        Place::Table,
        "on_delete",
        "retain | delete",
        "whether the table outlives its schema, protected from deletion",
    ),
    rule(Place::Table, "class", "standard | infrequent", "the storage class"),
    rule(Place::Table, "stream", "keys | new | old | both | off", "what its change stream shows"),
    rule(
        Place::Table,
        "strict",
        "[on | off]",
        "it holds its entities and nothing else: `larder serve --schema` refuses an item of no entity, and attributes of no field",
    ),
    rule(Place::Table, "tags", "NAME TEXT|PARAM {, NAME TEXT|PARAM}", "tags on the table"),
    rule(
        Place::Entity,
        "ttl",
        "DURATION | PARAM | EXPRESSION",
        "how long an item lives: a duration, or when it ends",
    ),
    rule(
        Place::Entity,
        "writes",
        "through | behind [drain DURATION] [queue N]",
        "before the answer, or after it",
    ),
    rule(Place::Entity, "on_error", "open | closed", "a store that fails is a miss, or an error"),
    rule(
        Place::Entity,
        "oversize",
        "split | compress | skip | refuse [else split|skip|refuse]",
        "what is done with a value over 400 KB",
    ),
    rule(
        Place::Entity,
        "l1",
        "DURATION [size SIZE] | off",
        "kept in the process that long; 64 MB unless said otherwise",
    ),
    rule(Place::Entity, "reads", "eventual | strong", "the consistency of reads"),
    rule(
        Place::Entity,
        "scan",
        "deny | ask | allow",
        "whether the whole table may be read; `ask` shows the price first",
    ),
    rule(
        Place::Entity,
        "log",
        "hit | miss | oversize | write | load | invalidate {, …}",
        "what is logged besides failures",
    ),
    rule(Place::Entity, "stale", "DURATION", "given that long past its time while a new one is fetched"),
    rule(Place::Entity, "grace", "DURATION", "given that long past its time when the source fails"),
    rule(Place::Entity, "refresh", "PERCENT", "fetched again when this share of its life is over"),
    rule(Place::Entity, "negative", "DURATION", "how long an absence is remembered"),
    rule(Place::Entity, "jitter", "PERCENT", "lives vary by this share, so that not all end at once"),
    rule(Place::Entity, "versions", "on | off", "writes carry a version and lose against a newer one"),
    rule(
        Place::Entity,
        "flight",
        "DURATION | off",
        "one load per key across processes, held by a lease of that length",
    ),
    rule(Place::Entity, "compress", "over SIZE | off", "longer values are stored compressed"),
    rule(
        Place::Entity,
        "label",
        "FIELD | TEMPLATE {, …}",
        "what items can be invalidated by, besides their key",
    ),
    rule(
        Place::Entity,
        "checks",
        "strict | record FIELD",
        "a record that breaks a check is refused, or kept as it came, with all that it breaks in FIELD",
    ),
    rule(
        Place::Lifecycle,
        "owner",
        "FIELD",
        "the field that holds who has the lease; `<lifecycle>_owner` unless said otherwise",
    ),
    rule(
        Place::Lifecycle,
        "retry",
        "N [backoff DURATION..DURATION]",
        "how often work is tried again, after growing pauses",
    ),
    rule(Place::Alarms, "error_rate", ">|< PERCENT [for DURATION]", "requests that failed"),
    rule(Place::Alarms, "hit_rate", ">|< PERCENT [for DURATION]", "reads answered without the source"),
    rule(Place::Alarms, "latency", ">|< DURATION [for DURATION]", "how long requests take"),
    rule(Place::Alarms, "throttles", ">|< N [for DURATION]", "requests the store turned away"),
    rule(Place::Alarms, "stuck", ">|< N [for DURATION]", "leases that ran out"),
    rule(Place::Alarms, "queue", ">|< N [for DURATION]", "writes waiting behind"),
    rule(Place::Workload, "requests", "N | N..N per PERIOD", "reads of the cache"),
    rule(Place::Workload, "reads", "N | N..N per PERIOD", "reads of the store"),
    rule(Place::Workload, "writes", "N | N..N per PERIOD", "writes to the store"),
    rule(Place::Workload, "hit_rate", "PERCENT", "requests answered without the source"),
    rule(Place::Workload, "item_size", "SIZE", "an average item"),
    rule(Place::Workload, "stored", "SIZE", "all items together"),
    rule(Place::Metrics, "hit", "NAME", "the metric that counts hits"),
    rule(Place::Metrics, "miss", "NAME", "the metric that counts misses"),
    rule(Place::Metrics, "latency", "NAME", "the metric that measures reads"),
    rule(Place::Metrics, "error", "NAME", "the metric that counts failures"),
    rule(Place::Metrics, "load", "NAME", "the metric that counts calls of the source"),
    rule(Place::Metrics, "write", "NAME", "the metric that counts writes"),
    rule(Place::Metrics, "queue", "NAME", "the metric that tells how many writes wait behind"),
    rule(Place::Metrics, "stuck", "NAME", "the metric that counts leases that ran out"),
    rule(
        Place::Metrics,
        "saved",
        "NAME",
        "the metric that counts calls of a source that hits made unnecessary",
    ),
];

/// Blocks that may stand in a file besides tables, types and sources.
pub const BLOCKS: [&str; 6] = ["defaults", "store", "alarms", "workload", "metrics", "grant"];

pub(crate) fn setting_rule(place: Place, name: &str) -> Option<&'static SettingRule> {
    SETTINGS.iter().find(|rule| rule.place == place && rule.name == name)
}

/// Reads a setting's words one after the other.
pub(crate) struct Words<'a> {
    text: &'a str,
    tokens: &'a [Token],
    at: usize,
    problems: Vec<Diagnostic>,
}

impl<'a> Words<'a> {
    pub(crate) fn of(context: &Context<'a>, tokens: &'a [Token]) -> Self {
        let file = tokens.first().map_or(0, |token| token.span.file);
        Self { text: context.text(file), tokens, at: 0, problems: Vec::new() }
    }

    pub(crate) fn peek(&self) -> Option<&'a Token> {
        self.tokens.get(self.at)
    }

    pub(crate) fn is_done(&self) -> bool {
        self.at == self.tokens.len()
    }

    pub(crate) fn span(&self) -> Span {
        self.peek().or(self.tokens.last()).map_or(Span::default(), |token| token.span)
    }

    /// The next word, if it is one.
    pub(crate) fn word(&mut self) -> Option<(&'a str, Span)> {
        let token = self.peek().filter(|token| token.kind == TokenKind::Word)?;
        self.at += 1;
        Some((&self.text[token.span.range()], token.span))
    }

    pub(crate) fn eat(&mut self, wanted: &str) -> bool {
        let here = self.peek().is_some_and(|token| {
            matches!(token.kind, TokenKind::Word | TokenKind::Mark(_))
                && &self.text[token.span.range()] == wanted
        });
        self.at += usize::from(here);
        here
    }

    pub(crate) fn one_of<T: Copy>(&mut self, choices: &[(&str, T)]) -> Option<T> {
        let (word, _) = self.word()?;
        choices.iter().find(|(name, _)| *name == word).map(|(_, value)| *value)
    }

    pub(crate) fn literal(&mut self) -> Option<Literal> {
        match parse_literal(self.text, self.tokens.get(self.at..)?) {
            Ok((literal, taken)) => {
                self.at += taken;
                Some(literal)
            }
            Err(problems) => {
                self.problems.extend(problems.into_iter().filter(|problem| problem.code != "L0003"));
                None
            }
        }
    }

    pub(crate) fn duration(&mut self) -> Option<i64> {
        match self.literal()?.kind {
            LiteralKind::Duration(millis) => Some(millis),
            _ => None,
        }
    }

    fn size(&mut self) -> Option<u64> {
        match self.literal()?.kind {
            LiteralKind::Bytes(bytes) => Some(bytes),
            _ => None,
        }
    }

    fn number(&mut self) -> Option<Number> {
        match self.literal()?.kind {
            LiteralKind::Number(text) => text.parse().ok(),
            _ => None,
        }
    }

    fn count(&mut self) -> Option<u32> {
        self.number()?.to_i64().and_then(|n| u32::try_from(n).ok())
    }

    fn percent(&mut self) -> Option<Number> {
        match self.literal()?.kind {
            LiteralKind::Percent(text) => text.parse().ok(),
            _ => None,
        }
    }

    fn small_percent(&mut self) -> Option<u8> {
        self.percent()?.to_i64().and_then(|n| u8::try_from(n).ok()).filter(|n| (1..=99).contains(n))
    }

    fn money(&mut self) -> Option<Number> {
        match self.literal()?.kind {
            LiteralKind::Money(text) => text.parse().ok(),
            _ => None,
        }
    }

    fn text(&mut self) -> Option<String> {
        match self.literal()?.kind {
            LiteralKind::Text(template) => template.plain(),
            _ => None,
        }
    }

    /// `200ms..500ms`, the first not longer than the second.
    fn durations(&mut self) -> Option<(i64, i64)> {
        let from = self.duration()?;
        if !self.eat("..") && !self.eat("..=") {
            return None;
        }
        let to = self.duration()?;
        (from <= to).then_some((from, to))
    }

    fn switch(&mut self) -> Option<bool> {
        self.one_of(&[("on", true), ("off", false)])
    }
}

impl<'a> Context<'a> {
    /// Runs one setting's reader and says what is wrong when it does not fit.
    pub(crate) fn read_setting<T>(
        &mut self,
        place: Place,
        setting: &'a Setting,
        read: impl FnOnce(&mut Words<'a>) -> Option<T>,
    ) -> Option<T> {
        let mut words = Words::of(self, &setting.values);
        let value = read(&mut words).filter(|_| words.is_done());
        if value.is_some() {
            return value;
        }
        if words.problems.is_empty() {
            self.bad_setting(place, setting);
        } else {
            let problems = std::mem::take(&mut words.problems);
            self.diagnostics.extend(problems);
        }
        None
    }

    pub(crate) fn bad_setting(&mut self, place: Place, setting: &Setting) {
        // What is no token has been reported as such.
        if setting.values.iter().any(|token| token.kind == TokenKind::Unknown) {
            return;
        }
        let form = setting_rule(place, &setting.name.text).map_or("", |rule| rule.form);
        let (span, message) = match (setting.values.first(), setting.values.last()) {
            (Some(first), Some(last)) => {
                let span = first.span.to(last.span);
                let written = &self.text(span.file)[span.range()];
                (span, format!("`{}` cannot be `{written}`", setting.name.text))
            }
            _ => (setting.name.span, format!("`{}` says nothing", setting.name.text)),
        };
        let mut problem =
            Diagnostic::new("L0206", span, message).help(format!("write: {} {form}", setting.name.text));
        let bare = setting
            .values
            .iter()
            .find(|token| token.kind == TokenKind::Number)
            .map(|token| &self.text(token.span.file)[token.span.range()]);
        if let Some(number) = bare.filter(|text| text.bytes().all(|b| b.is_ascii_digit() || b == b'_')) {
            if form.contains("DURATION") {
                problem = problem.help(format!(
                    "a duration has a unit: `{number}s`, `{number}m`, `{number}h`, `{number}d`"
                ));
            } else if form.contains("SIZE") {
                problem = problem.help(format!("a size has a unit: `{number}B`, `{number}KB`, `{number}MB`"));
            } else if form.contains("PERCENT") {
                problem = problem.help(format!("a share has its sign: `{number}%`"));
            }
        } else if setting.name.text == "pitr" && form.contains("DURATION") {
            problem = problem.help("whole days, from `1d` to `35d`");
        }
        self.report(problem);
    }

    /// A setting that does not exist here.
    pub(crate) fn unknown_setting(&mut self, place: Place, setting: &Setting) {
        let name = &setting.name.text;
        let mut problem =
            Diagnostic::new("L0205", setting.name.span, format!("there is no setting `{name}` here"));
        let elsewhere = SETTINGS.iter().find(|rule| rule.name == name);
        if let Some(rule) = elsewhere {
            let place = match rule.place {
                Place::File => "at the top of the file",
                Place::Source => "in a source",
                Place::Store => "in store",
                Place::Table => "in a table",
                Place::Entity => "in an entity",
                Place::Lifecycle => "in a lifecycle",
                Place::Alarms => "in alarms",
                Place::Workload => "in workload",
                Place::Metrics => "in metrics",
            };
            problem = problem.help(format!("`{name}` stands {place}"));
        } else {
            let known = SETTINGS.iter().filter(|rule| rule.place == place).map(|rule| rule.name);
            let known: Vec<&str> = known.collect();
            problem = match closest(name, &known) {
                None if place == Place::Entity => {
                    problem.help(format!("if it is a field, give it a type: `{name}: string`"))
                }
                _ => problem.did_you_mean(name, known),
            };
        }
        self.report(problem);
    }

    /// Says so when a setting stands twice.
    pub(crate) fn check_twice(&mut self, settings: &[Setting]) {
        let mut seen: HashMap<&str, Span> = HashMap::new();
        for setting in settings {
            if let Some(first) = seen.insert(&setting.name.text, setting.name.span) {
                self.report(
                    Diagnostic::new(
                        "L0202",
                        setting.name.span,
                        format!("`{}` is set twice", setting.name.text),
                    )
                    .other(first, "first here")
                    .help("keep one of them"),
                );
            }
        }
    }
}

pub(crate) fn source<'a>(context: &mut Context<'a>, source: &mut Source, setting: &'a Setting) {
    match setting.name.text.as_str() {
        "cost" => {
            let cost = context.read_setting(Place::Source, setting, |words| {
                let cost = words.money()?;
                (words.eat("per") && words.eat("call")).then_some(cost)
            });
            source.cost = cost.or(source.cost);
        }
        "latency" => source.latency_millis = context.read_setting(Place::Source, setting, Words::durations),
        "pace" => {
            source.pace = context.read_setting(Place::Source, setting, |words| {
                let calls = words.count().filter(|calls| *calls > 0)?;
                if !words.eat("per") {
                    return None;
                }
                let per_millis = words.one_of(&[
                    ("second", 1000),
                    ("minute", 60_000),
                    ("hour", 3_600_000),
                    ("day", 86_400_000),
                ])?;
                let burst = if words.eat("burst") { words.count().filter(|burst| *burst > 0)? } else { 1 };
                Some(Pace { calls, per_millis, burst })
            });
        }
        "retry" => source.retry = context.read_setting(Place::Source, setting, retry),
        "timeout" => source.timeout_millis = context.read_setting(Place::Source, setting, timeout),
        "breaker" => source.breaker = context.read_setting(Place::Source, setting, breaker),
        _ => context.unknown_setting(Place::Source, setting),
    }
}

pub(crate) fn store<'a>(context: &mut Context<'a>, store: &mut StoreLimits, setting: &'a Setting) {
    match setting.name.text.as_str() {
        "timeout" => {
            let read = context
                .read_setting(Place::Store, setting, |words| timeout(words).filter(|(short, _)| *short > 0));
            store.timeout_millis = read.unwrap_or(store.timeout_millis);
        }
        "retry" => {
            store.retry = context.read_setting(Place::Store, setting, retry).unwrap_or(store.retry);
        }
        "breaker" => store.breaker = context.read_setting(Place::Store, setting, breaker),
        _ => context.unknown_setting(Place::Store, setting),
    }
}

fn timeout(words: &mut Words<'_>) -> Option<(i64, i64)> {
    let short = words.duration()?;
    let long = if words.eat("..") || words.eat("..=") { words.duration()? } else { short };
    (short <= long).then_some((short, long))
}

fn breaker(words: &mut Words<'_>) -> Option<Breaker> {
    let failures = words.count().filter(|n| *n > 0)?;
    words.eat("for").then_some(())?;
    Some(Breaker { failures, rest_millis: words.duration()? })
}

pub(crate) fn retry(words: &mut Words<'_>) -> Option<Retry> {
    let attempts = words.count()?;
    let backoff_millis = if words.eat("backoff") { words.durations()? } else { (100, 10_000) };
    Some(Retry { attempts, backoff_millis })
}

fn listed<'a, T>(words: &mut Words<'a>, mut one: impl FnMut(&mut Words<'a>) -> Option<T>) -> Option<Vec<T>> {
    let mut all = vec![one(words)?];
    while words.eat(",") {
        all.push(one(words)?);
    }
    Some(all)
}

/// What the settings of a table come to.
#[derive(Clone, Debug, Default)]
pub(crate) struct TableSettings {
    pub(crate) name: Option<(ParamText, Span)>,
    pub(crate) region: Option<String>,
    pub(crate) ttl: Option<crate::ast::Name>,
    pub(crate) billing: Billing,
    pub(crate) pitr: Option<Pitr>,
    pub(crate) encryption: Encryption,
    pub(crate) on_delete: OnDelete,
    pub(crate) class: Option<TableClass>,
    pub(crate) stream: Option<StreamView>,
    pub(crate) strict: bool,
    pub(crate) tags: Vec<(String, ParamText)>,
}

pub(crate) fn table<'a>(context: &mut Context<'a>, table: &mut TableSettings, setting: &'a Setting) {
    match setting.name.text.as_str() {
        "name" => {
            if let Some((text, span)) = context.param_text(setting) {
                table.name = Some((text, span));
            }
        }
        "region" => table.region = context.read_setting(Place::Table, setting, Words::text),
        "ttl" => {
            table.ttl = context.read_setting(Place::Table, setting, |words| {
                let (text, span) = words.word()?;
                Some(crate::ast::Name { text: text.to_owned(), span })
            });
        }
        "billing" => {
            let billing = context.read_setting(Place::Table, setting, |words| {
                if words.eat("on_demand") {
                    return Some(Billing::OnDemand);
                }
                if !words.eat("provisioned") {
                    return None;
                }
                let read = words.count().filter(|n| *n > 0)?;
                if !words.eat("/") {
                    return None;
                }
                Some(Billing::Provisioned { read, write: words.count().filter(|n| *n > 0)? })
            });
            table.billing = billing.unwrap_or_default();
        }
        "pitr" => {
            let pitr = context.read_setting(Place::Table, setting, |words| {
                if words.eat("on") {
                    return Some(Some(Pitr { days: 35 }));
                }
                if words.eat("off") {
                    return Some(None);
                }
                let days = words.duration().filter(|millis| millis % 86_400_000 == 0)? / 86_400_000;
                let days = u32::try_from(days).ok().filter(|days| (1..=35).contains(days))?;
                Some(Some(Pitr { days }))
            });
            table.pitr = pitr.flatten();
        }
        "encryption" => {
            let encryption = context.read_setting(Place::Table, setting, |words| {
                if words.eat("aws_owned") {
                    return Some(Encryption::AwsOwned);
                }
                if words.eat("aws_managed") {
                    return Some(Encryption::AwsManaged);
                }
                words.eat("kms").then_some(())?;
                Some(Encryption::Kms(words.text()?))
            });
            table.encryption = encryption.unwrap_or_default();
        }
        "on_delete" => {
            let choices = [("retain", OnDelete::Retain), ("delete", OnDelete::Delete)];
            let read = context.read_setting(Place::Table, setting, |words| words.one_of(&choices));
            table.on_delete = read.unwrap_or_default();
        }
        "class" => {
            let choices =
                [("standard", TableClass::Standard), ("infrequent", TableClass::StandardInfrequentAccess)];
            table.class = context.read_setting(Place::Table, setting, |words| words.one_of(&choices));
        }
        "stream" => {
            let choices = [
                ("keys", Some(StreamView::KeysOnly)),
                ("new", Some(StreamView::NewImage)),
                ("old", Some(StreamView::OldImage)),
                ("both", Some(StreamView::NewAndOldImages)),
                ("off", None),
            ];
            table.stream =
                context.read_setting(Place::Table, setting, |words| words.one_of(&choices)).flatten();
        }
        "strict" => {
            let read = context.read_setting(Place::Table, setting, |words| {
                // The word alone says it.
                let off = words.eat("off");
                Some(!off && (words.eat("on") || words.is_done()))
            });
            table.strict = read.unwrap_or_default();
        }
        "tags" => table.tags = context.tags(setting),
        _ => context.unknown_setting(Place::Table, setting),
    }
}

/// What the settings of an entity come to, names in them not yet looked up.
#[derive(Clone, Debug, Default)]
pub(crate) struct EntitySettings {
    pub(crate) policy: Policy,
    pub(crate) ttl: Option<TtlWritten>,
    pub(crate) scan_span: Option<Span>,
    pub(crate) l1_span: Option<Span>,
    pub(crate) labels: Vec<(LabelWritten, Span)>,
    pub(crate) record: Option<crate::ast::Name>,
}

#[derive(Clone, Debug)]
pub(crate) enum LabelWritten {
    Name(crate::ast::Name),
    Template(crate::ast::Template),
}

#[derive(Clone, Debug)]
pub(crate) struct TtlWritten {
    pub(crate) expression: crate::ast::Expr,
    pub(crate) span: Span,
}

pub(crate) fn entity<'a>(context: &mut Context<'a>, entity: &mut EntitySettings, setting: &'a Setting) {
    let policy = &mut entity.policy;
    match setting.name.text.as_str() {
        "ttl" => {
            let file = setting.span.file;
            if setting.values.is_empty() {
                context.bad_setting(Place::Entity, setting);
                return;
            }
            match parse_expression(context.text(file), &setting.values) {
                Ok(expression) => entity.ttl = Some(TtlWritten { span: expression.span, expression }),
                Err(problems) => context.diagnostics.extend(problems),
            }
        }
        "writes" => {
            let writes = context.read_setting(Place::Entity, setting, |words| {
                if words.eat("through") {
                    return Some(Writes::Through);
                }
                words.eat("behind").then_some(())?;
                let (mut drain_millis, mut queue) = (5000, 1000);
                loop {
                    if words.eat("drain") {
                        drain_millis = words.duration()?;
                    } else if words.eat("queue") {
                        queue = words.count().filter(|n| *n > 0)?;
                    } else {
                        return Some(Writes::Behind { drain_millis, queue });
                    }
                }
            });
            policy.writes = writes.unwrap_or(policy.writes);
        }
        "on_error" => {
            let choices = [("open", OnError::Open), ("closed", OnError::Closed)];
            let read = context.read_setting(Place::Entity, setting, |words| words.one_of(&choices));
            policy.on_error = read.unwrap_or(policy.on_error);
        }
        "oversize" => {
            let choices = [
                ("split", OversizeStep::Split),
                ("compress", OversizeStep::Compress),
                ("skip", OversizeStep::Skip),
                ("refuse", OversizeStep::Refuse),
            ];
            let read = context.read_setting(Place::Entity, setting, |words| {
                let first = words.one_of(&choices)?;
                let otherwise = if words.eat("else") { Some(words.one_of(&choices)?) } else { None };
                let pointless =
                    matches!(first, OversizeStep::Skip | OversizeStep::Refuse) && otherwise.is_some();
                (!pointless && otherwise != Some(OversizeStep::Compress))
                    .then_some(Oversize { first, otherwise })
            });
            policy.oversize = read.unwrap_or(policy.oversize);
        }
        "l1" => {
            let read = context.read_setting(Place::Entity, setting, |words| {
                if words.eat("off") {
                    return Some(None);
                }
                let millis = words.duration()?;
                let bytes_max = if words.eat("size") { words.size()? } else { 64 * 1024 * 1024 };
                Some(Some(L1 { millis, bytes_max }))
            });
            policy.l1 = read.flatten();
            entity.l1_span = Some(setting.span);
        }
        "reads" => {
            let choices = [("eventual", Consistency::Eventual), ("strong", Consistency::Strong)];
            let read = context.read_setting(Place::Entity, setting, |words| words.one_of(&choices));
            policy.reads = read.unwrap_or(policy.reads);
        }
        "scan" => {
            let choices = [("deny", Scan::Deny), ("ask", Scan::Ask), ("allow", Scan::Allow)];
            let read = context.read_setting(Place::Entity, setting, |words| words.one_of(&choices));
            policy.scan = read.unwrap_or(policy.scan);
            entity.scan_span = Some(setting.span);
        }
        "log" => {
            let choices = [
                ("hit", LogEvent::Hit),
                ("miss", LogEvent::Miss),
                ("oversize", LogEvent::Oversize),
                ("write", LogEvent::Write),
                ("load", LogEvent::Load),
                ("invalidate", LogEvent::Invalidate),
            ];
            let read = context
                .read_setting(Place::Entity, setting, |words| listed(words, |words| words.one_of(&choices)));
            policy.log = read.unwrap_or_default();
        }
        "stale" => policy.stale_millis = context.read_setting(Place::Entity, setting, Words::duration),
        "grace" => policy.grace_millis = context.read_setting(Place::Entity, setting, Words::duration),
        "refresh" => {
            policy.refresh_percent = context.read_setting(Place::Entity, setting, Words::small_percent);
        }
        "negative" => policy.negative_millis = context.read_setting(Place::Entity, setting, Words::duration),
        "jitter" => {
            policy.jitter_percent = context.read_setting(Place::Entity, setting, Words::small_percent);
        }
        "versions" => {
            policy.versions = context.read_setting(Place::Entity, setting, Words::switch).unwrap_or(false);
        }
        "flight" => {
            let read = context.read_setting(Place::Entity, setting, |words| {
                if words.eat("off") { Some(None) } else { words.duration().map(Some) }
            });
            policy.flight_millis = read.flatten();
        }
        "compress" => {
            let read = context.read_setting(Place::Entity, setting, |words| {
                if words.eat("off") {
                    return Some(None);
                }
                words.eat("over").then_some(())?;
                words.size().map(Some)
            });
            policy.compress_over = read.flatten();
        }
        "label" => {
            let read = context.read_setting(Place::Entity, setting, |words| {
                listed(words, |words| {
                    let span = words.span();
                    if words.peek()?.kind == TokenKind::Text {
                        let LiteralKind::Text(template) = words.literal()?.kind else { return None };
                        return Some((LabelWritten::Template(template), span));
                    }
                    let (text, span) = words.word()?;
                    Some((LabelWritten::Name(crate::ast::Name { text: text.to_owned(), span }), span))
                })
            });
            entity.labels = read.unwrap_or_default();
        }
        "checks" => {
            let read = context.read_setting(Place::Entity, setting, |words| {
                if words.eat("strict") {
                    return Some(None);
                }
                words.eat("record").then_some(())?;
                let (text, span) = words.word()?;
                Some(Some(crate::ast::Name { text: text.to_owned(), span }))
            });
            entity.record = read.flatten();
        }
        _ => context.unknown_setting(Place::Entity, setting),
    }
}

pub(crate) fn alarm<'a>(context: &mut Context<'a>, setting: &'a Setting) -> Option<Alarm> {
    let Some(metric) = AlarmMetric::ALL.into_iter().find(|metric| metric.name() == setting.name.text) else {
        context.unknown_setting(Place::Alarms, setting);
        return None;
    };
    context.read_setting(Place::Alarms, setting, |words| {
        let above = if words.eat(">") { true } else { words.eat("<").then_some(false)? };
        let threshold = match metric {
            AlarmMetric::ErrorRate | AlarmMetric::HitRate => Threshold::Percent(words.percent()?),
            AlarmMetric::Latency => Threshold::Millis(words.duration()?),
            AlarmMetric::Throttles | AlarmMetric::Stuck | AlarmMetric::Queue => {
                Threshold::Count(words.number()?)
            }
        };
        let lasting_millis = if words.eat("for") { Some(words.duration()?) } else { None };
        Some(Alarm { metric, above, threshold, lasting_millis })
    })
}

pub(crate) fn workload<'a>(context: &mut Context<'a>, workload: &mut Workload, setting: &'a Setting) {
    let rate = |words: &mut Words<'_>| {
        let figure = |words: &mut Words<'_>| {
            words.number().map(|n| crate::value::number_to_f64(&n)).filter(|n| *n >= 0.0)
        };
        let from = figure(words)?;
        let to = if words.eat("..") || words.eat("..=") { figure(words)? } else { from };
        words.eat("per").then_some(())?;
        let (word, _) = words.word()?;
        let per = Period::ALL.into_iter().find(|period| period.name() == word)?;
        (from <= to).then_some(Rate { from, to, per })
    };
    match setting.name.text.as_str() {
        "requests" => workload.requests = context.read_setting(Place::Workload, setting, rate),
        "reads" => workload.reads = context.read_setting(Place::Workload, setting, rate),
        "writes" => workload.writes = context.read_setting(Place::Workload, setting, rate),
        "hit_rate" => {
            let hundred = Number::from(100);
            workload.hit_rate_percent = context
                .read_setting(Place::Workload, setting, |words| words.percent().filter(|n| *n <= hundred));
        }
        "item_size" => workload.item_bytes = context.read_setting(Place::Workload, setting, Words::size),
        "stored" => workload.stored_bytes = context.read_setting(Place::Workload, setting, Words::size),
        _ => context.unknown_setting(Place::Workload, setting),
    }
}

pub(crate) fn metric<'a>(context: &mut Context<'a>, setting: &'a Setting) -> Option<(MetricKind, String)> {
    let Some(kind) = MetricKind::ALL.into_iter().find(|kind| kind.name() == setting.name.text) else {
        context.unknown_setting(Place::Metrics, setting);
        return None;
    };
    let name = context.read_setting(Place::Metrics, setting, |words| match words.peek()?.kind {
        TokenKind::Text => words.text(),
        _ => words.word().map(|(text, _)| text.to_owned()),
    })?;
    Some((kind, name))
}

/// `naming`, `version` and `budget`.
pub(crate) fn file<'a>(context: &mut Context<'a>, schema: &mut Schema, setting: &'a Setting) {
    match setting.name.text.as_str() {
        "naming" => {
            let choices = [("camel", Naming::Camel), ("pascal", Naming::Pascal), ("same", Naming::Same)];
            let read = context.read_setting(Place::File, setting, |words| words.one_of(&choices));
            schema.naming = read.unwrap_or_default();
        }
        "version" => {
            schema.version = context.read_setting(Place::File, setting, |words| {
                let number = words.count().filter(|n| *n > 0)?;
                let keep_millis = if words.eat("keep") { Some(words.duration()?) } else { None };
                Some(Version { number, keep_millis })
            });
        }
        "budget" => {
            let read = context.read_setting(Place::File, setting, |words| {
                let budgets = listed(words, Words::money)?;
                let rising = budgets.windows(2).all(|pair| pair[0] < pair[1]);
                (words.eat("per") && words.eat("month") && rising).then_some(budgets)
            });
            schema.budgets = read.unwrap_or_default();
        }
        _ => context.unknown_setting(Place::File, setting),
    }
}
