//! Sample records: made from a schema, valid by all of its checks, and the same each time.
//!
//! A value follows from the seed, the number of the record and the name of its field, so that records of two entities
//! which share a field belong together: a horse's results and its parents. A name says what its value looks like: a
//! `company_name` is a company's, a `week` one of the year. Where a name says nothing, any valid value will do.
//!
//! Promises:
//! - What is given passes every check, can be written, and reads back as its entity; no two have one key.
//! - Fields that transitions set are left to them: a record is in the first state of its lifecycles.
//! - A check that cannot be met is named, with its field.

mod pattern;
mod words;

use std::collections::{BTreeMap, BTreeSet};

use jiff::civil::Date;
use jiff::{SignedDuration, Timestamp};
use larder_model::{AttributeValue, Item, Number};

use crate::schema::{
    CheckMode, Checks, Entity, Field, Fields, KeySource, NumberRange, Precision, Schema, Table, Type,
};
use crate::value::{Value, number_to_f64};

/// Records are of this time: what is made must not depend on when.
const NOW: Timestamp = Timestamp::constant(1_768_471_200, 0);
const TODAY: Date = Date::constant(2026, 1, 15);
const TRIES_MAX: u64 = 64;
/// From this try on, a text of the key says the record's number.
const NUMBERED_TRY: u64 = 8;

/// Makes records of one entity.
///
/// ```
/// use larder_schema::{Environment, NoFiles, Sampler, Schema};
///
/// let text = r#"
/// system shops
/// table shops {
///   key  pk
///   entity Shop {
///     key  "SHOP#{code}"
///     input code: string match /[A-Z]{2}[0-9]{4}/
///     name:       string nonempty
///   }
/// }
/// "#;
/// let schema = Schema::load("shops.larder", text, &mut NoFiles, &Environment::new()).schema.unwrap();
/// let mut sampler = Sampler::new(&schema, "Shop", 1).expect("it is declared");
/// let (first, second) = (sampler.sample()?, sampler.sample()?);
/// assert_ne!(first["code"], second["code"]);
/// assert!(schema.violations(schema.entity("Shop").unwrap().1, &first).is_empty());
/// # Ok::<(), larder_schema::Unsampled>(())
/// ```
#[derive(Debug)]
pub struct Sampler<'a> {
    schema: &'a Schema,
    table: &'a Table,
    entity: &'a Entity,
    seed: u64,
    made: u64,
    keys: BTreeSet<Vec<String>>,
}

/// Why no sample was made.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{path}: no sample was found in {TRIES_MAX} tries: {cause}")]
pub struct Unsampled {
    /// `Menu.lunches[2].price`
    pub path: String,
    /// What must hold and did not.
    pub cause: String,
}

impl<'a> Sampler<'a> {
    /// `None` when the schema has no such entity.
    pub fn new(schema: &'a Schema, entity: &str, seed: u64) -> Option<Self> {
        let (table, entity) = schema.entity(entity)?;
        Some(Self { schema, table, entity, seed, made: 0, keys: BTreeSet::new() })
    }

    /// The given fields of the next record.
    pub fn sample(&mut self) -> Result<Fields, Unsampled> {
        let mut last = None;
        for attempt in 0..TRIES_MAX {
            let fields = self.fields(attempt);
            let is_new = self.key_of(&fields).map(|key| self.keys.insert(key));
            last = match is_new {
                Ok(true) => {
                    self.made += 1;
                    return Ok(fields);
                }
                Ok(false) => {
                    let cause = format!("no other key than those of the first {}", self.keys.len());
                    Some(Unsampled { path: self.entity.name.clone(), cause })
                }
                Err(error) => Some(error),
            };
        }
        Err(last.expect("it was tried"))
    }

    /// The key of a record in which nothing is wrong.
    fn key_of(&self, fields: &Fields) -> Result<Vec<String>, Unsampled> {
        let Self { schema, table, entity, .. } = self;
        if let Some(violation) = schema.violations(entity, fields).into_iter().next() {
            return Err(Unsampled { path: violation.path, cause: violation.rule });
        }
        let wrong = |cause: String| Unsampled { path: entity.name.clone(), cause };
        let mut all = fields.clone();
        for field in entity.fields.iter().filter(|field| field.is_given()) {
            if let (false, Some(default)) = (all.contains_key(&field.name), &field.checks.default) {
                all.insert(field.name.clone(), default.clone());
            }
        }
        entity.compute(&mut all, NOW, true);
        let item = schema.write_item(table, entity, &all).map_err(|error| wrong(error.to_string()))?;
        match schema.entity_of(table, &item) {
            Some(found) if found.name == entity.name => Ok(key_texts(table, &item)),
            Some(found) => Err(wrong(format!("its key is one of {}", found.name))),
            None => Err(wrong("its key cannot be read back".to_owned())),
        }
    }

    fn fields(&self, attempt: u64) -> Fields {
        let entity = self.entity;
        let later: BTreeSet<&str> = entity
            .lifecycles
            .iter()
            .flat_map(|lifecycle| {
                let set = lifecycle.transitions.iter().flat_map(|transition| &transition.set);
                set.map(|(name, _)| name.as_str()).chain([lifecycle.held_in.as_str()])
            })
            .collect();
        let mut fields = Fields::new();
        for field in entity.fields.iter().filter(|field| field.is_given()) {
            let can_wait = field.optional || field.checks.default.is_some();
            let recorded = matches!(&entity.policy.checks, CheckMode::Record(into) if *into == field.name);
            let waits = later.contains(field.name.as_str()) || recorded || field.checks.valid.is_some();
            // That a set may be empty says nothing of what is usual.
            let is_set = matches!(field.kind, Type::Set(_));
            if can_wait && (waits || (field.checks.default.is_some() && !is_set)) {
                continue;
            }
            let mut random = self.random(&field.name, attempt);
            if (field.optional || (is_set && can_wait)) && random.below(4) == 0 {
                continue;
            }
            let value = self.value(&entity.name, field, &field.name, &fields, attempt);
            fields.insert(field.name.clone(), value);
        }
        fields
    }

    fn random(&self, path: &str, attempt: u64) -> Random {
        let mut random = Random(self.seed ^ self.made.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        for byte in path.bytes() {
            random.0 = random.0.wrapping_mul(0x0100_0000_01b3) ^ u64::from(byte);
            random.next();
        }
        random.0 ^= attempt.wrapping_mul(0xd134_2543_de82_ef95);
        random.next();
        random
    }

    /// A value of a field. `known` is what the record has already; `path` tells one value of a name from another.
    fn value(&self, owner: &str, field: &Field, path: &str, known: &Fields, attempt: u64) -> Value {
        let is_inside = path != field.name;
        // A lunch is of the week its menu is of.
        if is_inside
            && let Some(value) = known.get(&field.name)
            && self.entity.field(&field.name).is_some_and(|outer| outer.kind == field.kind)
        {
            return value.clone();
        }
        let random = self.random(path, attempt);
        let mut maker = Maker { sampler: self, owner, name: &field.name, path, known, attempt, random };
        maker.make(&field.kind, &field.checks)
    }

    fn is_in_key(&self, name: &str) -> bool {
        let mut sources = std::iter::once(&self.entity.partition).chain(self.entity.sort.as_ref());
        sources.any(|source| match source {
            KeySource::Field(field) => field == name,
            KeySource::Template(template) => template.holes().any(|hole| hole.field == name),
        })
    }
}

/// One value being made.
struct Maker<'a> {
    sampler: &'a Sampler<'a>,
    owner: &'a str,
    name: &'a str,
    path: &'a str,
    known: &'a Fields,
    attempt: u64,
    random: Random,
}

impl Maker<'_> {
    fn make(&mut self, kind: &Type, checks: &Checks) -> Value {
        match kind {
            Type::String => Value::Text(self.text(checks)),
            Type::Url => Value::Text(self.url(checks)),
            Type::Choice(choices) => Value::Text(self.random.pick(choices).cloned().unwrap_or_default()),
            Type::Uuid { .. } => Value::Text(self.uuid()),
            Type::Int | Type::Sequence => Value::Number(self.number(checks, 0)),
            Type::Decimal => Value::Number(self.number(checks, 2)),
            Type::Float => {
                let decimals =
                    if words::is_of(self.name, &["lat", "lon", "latitude", "longitude"]) { 4 } else { 2 };
                Value::Float(number_to_f64(&self.number(checks, decimals)))
            }
            Type::Bool => Value::Bool(self.random.below(2) == 0),
            Type::Bytes => {
                let length = self.length(checks, 16);
                Value::Bytes((0..length).map(|_| self.random.next() as u8).collect())
            }
            Type::Json => Value::Raw(self.document()),
            Type::Date => {
                let days = i64::try_from(self.random.below(365)).unwrap_or(0);
                Value::Date(TODAY.checked_sub(SignedDuration::from_hours(24 * days)).unwrap_or(TODAY))
            }
            Type::Datetime => Value::Datetime(self.moment().to_zoned(jiff::tz::TimeZone::UTC).datetime()),
            Type::Instant(Precision::Seconds) | Type::Epoch | Type::Zoned => Value::Instant(self.moment()),
            Type::Instant(Precision::Millis | Precision::Micros) => {
                let millis = i64::try_from(self.random.below(1000)).unwrap_or(0);
                let moment = self.moment();
                Value::Instant(moment.checked_add(SignedDuration::from_millis(millis)).unwrap_or(moment))
            }
            Type::Duration => {
                let seconds = self.number(checks, 0).to_i64().unwrap_or(60);
                Value::Duration(SignedDuration::from_secs(seconds))
            }
            Type::List(of) => {
                let members = self.length(checks, 4).max(1);
                Value::List((0..members).map(|at| self.member(at, &of.kind)).collect())
            }
            Type::Set(of) => {
                let wanted = self.length(checks, 4).max(1);
                let mut members: Vec<Value> = Vec::new();
                // A choice has no more than it has.
                for at in 0..wanted * 8 {
                    let member = self.member(at, of);
                    if members.len() < wanted && !members.contains(&member) {
                        members.push(member);
                    }
                }
                Value::List(members)
            }
            Type::Map(of) => {
                let members = self.length(checks, 4).max(1);
                let name = |at: usize| match (words::ANY[at % words::ANY.len()], at / words::ANY.len()) {
                    (word, 0) => word.to_owned(),
                    (word, round) => format!("{word} {round}"),
                };
                Value::Map((0..members).map(|at| (name(at), self.member(at, &of.kind))).collect())
            }
            Type::Named(name) => self.members(name),
        }
    }

    fn member(&self, at: usize, kind: &Type) -> Value {
        let path = format!("{}[{at}]", self.path);
        let random = self.sampler.random(&path, self.attempt);
        Maker { path: &path, random, ..*self }.make(kind, &Checks::default())
    }

    fn members(&mut self, name: &str) -> Value {
        let definition = self.sampler.schema.type_definition(name);
        let mut map = BTreeMap::new();
        for field in definition.iter().flat_map(|definition| &definition.fields) {
            if field.optional && self.random.below(4) == 0 {
                continue;
            }
            let path = format!("{}.{}", self.path, field.name);
            let value = self.sampler.value(name, field, &path, self.known, self.attempt);
            map.insert(field.attribute.clone(), value);
        }
        Value::Map(map)
    }

    /// Moments of one record follow each other in the order of its fields.
    fn moment(&mut self) -> Timestamp {
        let mut record = self.sampler.random("a moment of this record", 0);
        let moments = self.known.values().filter(|value| value.as_instant().is_some()).count() as u64;
        let since = record.below(30 * 24 * 60).saturating_sub(moments * 60);
        let seconds = i64::try_from(since * 60 + self.random.below(60 * 60)).unwrap_or(0);
        NOW.checked_sub(SignedDuration::from_secs(seconds)).unwrap_or(NOW)
    }

    fn text(&mut self, checks: &Checks) -> String {
        let mut text = match &checks.pattern {
            Some(pattern) => self.matching(pattern.as_str()),
            None => self.plain_text(),
        };
        if checks.lower {
            text = text.to_lowercase();
        }
        if checks.upper {
            text = text.to_uppercase();
        }
        if checks.pattern.is_none() {
            let (min, max) = checks.len.unwrap_or((0, None));
            let length = text.chars().count().max(min).min(max.unwrap_or(usize::MAX));
            text = text.chars().cycle().take(length).collect();
        }
        text
    }

    /// A word for the name that matches, or else any text that does.
    fn matching(&mut self, pattern: &str) -> String {
        let words = words::of(self.owner, self.name).unwrap_or_default();
        if let Ok(regex) = regex_lite::Regex::new(&format!("^(?:{pattern})$"))
            && self.attempt < NUMBERED_TRY
        {
            let fitting: Vec<&&str> = words.iter().filter(|word| regex.is_match(word)).collect();
            if let Some(word) = self.random.pick(&fitting) {
                return (**word).to_owned();
            }
        }
        pattern::matching(pattern, &mut self.random).unwrap_or_default()
    }

    fn plain_text(&mut self) -> String {
        let in_key = self.path == self.name && self.sampler.is_in_key(self.name);
        let numbered = in_key && self.attempt >= NUMBERED_TRY;
        if words::is_of(self.name, &["id", "isbn", "code", "number"]) {
            return format!("{:010}", self.random.below(10_000_000_000));
        }
        let Some(word) = words::of(self.owner, self.name).and_then(|list| self.random.pick(list)) else {
            let word = self.random.pick(words::ANY).copied().unwrap_or_default();
            return if in_key { format!("{word}-{}", self.random.below(100_000)) } else { word.to_owned() };
        };
        let number = self.sampler.made + 1;
        match word.split_once('.').filter(|_| numbered) {
            Some((first, rest)) => format!("{first}{number}.{rest}"),
            None if numbered => format!("{word}-{number}"),
            // A key is read by people and programs: no spaces in it.
            None if in_key => word.to_lowercase().replace(' ', "-"),
            None => (*word).to_owned(),
        }
    }

    fn url(&mut self, checks: &Checks) -> String {
        if let Some(pattern) = &checks.pattern {
            return self.matching(pattern.as_str());
        }
        let host = ["domain", "host"].iter().find_map(|name| self.known.get(*name).and_then(Value::as_str));
        let host =
            host.or_else(|| self.random.pick(words::DOMAINS).copied()).unwrap_or("example.com").to_owned();
        let word = self.random.pick(words::ANY).copied().unwrap_or_default();
        let end = if self.name.contains("pdf") { ".pdf" } else { "" };
        format!("https://{host}/{word}/{}{end}", self.random.below(1_000_000))
    }

    fn uuid(&mut self) -> String {
        let (high, low) = (self.random.next(), self.random.next());
        let high = high & 0xffff_ffff_ffff_0fff | 0x4000;
        let low = low & 0x3fff_ffff_ffff_ffff | 0x8000_0000_0000_0000;
        let text = format!("{high:016x}{low:016x}");
        format!("{}-{}-{}-{}-{}", &text[..8], &text[8..12], &text[12..16], &text[16..20], &text[20..])
    }

    fn document(&mut self) -> AttributeValue {
        let name =
            self.random.pick(words::of("", self.name).unwrap_or(words::ANY)).copied().unwrap_or_default();
        let number = i64::try_from(self.random.below(18)).unwrap_or(0) + 1;
        let document = [("name", AttributeValue::from(name)), ("number", AttributeValue::from(number))];
        AttributeValue::M(
            document.into_iter().map(|(name, value)| (name.to_owned(), value)).collect::<Item>(),
        )
    }

    fn length(&mut self, checks: &Checks, most: usize) -> usize {
        let (min, max) = checks.len.unwrap_or((usize::from(checks.nonempty), None));
        let max = max.unwrap_or(min.max(most)).min(min + most);
        min + usize::try_from(self.random.below((max - min) as u64 + 1)).unwrap_or(0)
    }

    /// A number with so many decimals: as its name suggests where its checks allow that.
    fn number(&mut self, checks: &Checks, decimals: u32) -> Number {
        let (low, high) = words::numbers(self.name);
        let bound = |number: Option<Number>| number.as_ref().map(number_to_f64);
        let range = checks.range.unwrap_or(NumberRange { min: None, max: None, max_included: false });
        let (min, max) = (bound(range.min), bound(range.max));
        for decimals in decimals..=decimals + 9 {
            let scale = 10f64.powi(decimals as i32);
            let least = min.map(|min| (min * scale).ceil() as i64).max(checks.positive.then_some(1));
            let most = max.map(|max| {
                let most = (max * scale).floor();
                most as i64 - i64::from(!range.max_included && most == max * scale)
            });
            let (mut from, mut to) = ((low * scale) as i64, (high * scale) as i64);
            let fits = least.is_none_or(|least| least <= to) && most.is_none_or(|most| most >= from);
            (from, to) = match (least, most) {
                _ if fits => (from.max(least.unwrap_or(from)), to.min(most.unwrap_or(to))),
                (Some(least), most) => (least, most.unwrap_or(i64::MAX).min(least.saturating_add(to - from))),
                (None, most) => (most.unwrap_or(to).saturating_sub(to - from), most.unwrap_or(to)),
            };
            if from <= to {
                let width = to.abs_diff(from).saturating_add(1);
                let number = from.saturating_add_unsigned(self.random.below(width));
                if let Ok(number) = format!("{number}e-{decimals}").parse() {
                    return number;
                }
            }
        }
        range.min.unwrap_or_else(|| Number::from(1))
    }
}

fn key_texts(table: &Table, item: &Item) -> Vec<String> {
    let keys = std::iter::once(&table.partition).chain(table.sort.as_ref());
    keys.filter_map(|key| item.get(&key.attribute)).map(|value| format!("{value:?}")).collect()
}

/// Numbers that look random and are the same for the same beginning.
#[derive(Clone, Copy, Debug)]
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Less than `end`, which is not 0.
    fn below(&mut self, end: u64) -> u64 {
        self.next() % end.max(1)
    }

    fn pick<'a, T>(&mut self, all: &'a [T]) -> Option<&'a T> {
        all.get(usize::try_from(self.below(all.len() as u64)).unwrap_or(0))
    }
}

#[cfg(test)]
mod tests;
