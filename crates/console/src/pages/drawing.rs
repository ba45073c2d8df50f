//! A schema as a drawing: tables, the entities in them, the indexes that hold those; and lifecycles as states and moves.
//!
//! The same is said in words below each drawing.

use larder_schema::Schema;
use larder_schema::schema::{Entity, Index, KeySource, Lifecycle, State, Table};
use maud::{Markup, html};

use crate::address::Url;

/// Of a letter, in the drawing's own measure.
const LETTER: f64 = 7.3;
const LINE: f64 = 18.0;
const PAD: f64 = 10.0;
const GAP: f64 = 14.0;
/// Between columns, for the lines.
const LANE: f64 = 90.0;
const LETTERS_MAX: usize = 44;

/// A box with a name and lines below it.
struct Card {
    x: f64,
    y: f64,
    width: f64,
    class: &'static str,
    lines: Vec<String>,
}

impl Card {
    fn new(class: &'static str, lines: &[String]) -> Self {
        let lines: Vec<String> = lines.iter().map(|line| short(line)).collect();
        let letters = lines.iter().map(|line| line.chars().count()).max().unwrap_or(0);
        Self { x: 0.0, y: 0.0, width: letters as f64 * LETTER + 2.0 * PAD, class, lines }
    }

    fn height(&self) -> f64 {
        self.lines.len() as f64 * LINE + PAD
    }

    fn middle(&self) -> f64 {
        self.y + self.height() / 2.0
    }

    fn draw(&self) -> Markup {
        html! {
            rect class={ "box " (self.class) } x=(n(self.x)) y=(n(self.y)) width=(n(self.width)) height=(n(self.height())) rx="6" {}
            @for (at, line) in self.lines.iter().enumerate() {
                text class=(if at == 0 { "name" } else { "of" }) x=(n(self.x + PAD)) y=(n(self.y + PAD + at as f64 * LINE + 8.0)) { (line) }
            }
        }
    }
}

pub(super) fn show(schema: &Schema) -> Markup {
    html! {
        @for table in &schema.tables {
            section.card {
                h2 { "Table " (table.name) }
                (of_table(table))
                details { summary { "The same in words" } (table_in_words(schema, table)) }
            }
            @for entity in &table.entities {
                @for lifecycle in &entity.lifecycles {
                    section.card {
                        h2 { "Lifecycle " (lifecycle.name) " of " a href=(Url::to(["board", &schema.system, &entity.name, &lifecycle.name])) { (entity.name) } }
                        (of_lifecycle(entity, lifecycle))
                        details { summary { "The same in words" } (lifecycle_in_words(lifecycle)) }
                    }
                }
            }
        }
    }
}

/// A column of boxes, one below the other.
fn stack(cards: &mut [Card], x: f64) -> (f64, f64) {
    let mut y = 2.0;
    let width = cards.iter().map(|card| card.width).fold(0.0, f64::max);
    for card in cards.iter_mut() {
        (card.x, card.y, card.width) = (x, y, width);
        y += card.height() + GAP;
    }
    (width, y - GAP)
}

/// In the middle of what is higher.
fn lower(cards: &mut [Card], by: f64) {
    cards.iter_mut().for_each(|card| card.y += by.max(0.0) / 2.0);
}

fn of_table(table: &Table) -> Markup {
    let key = std::iter::once(&table.partition).chain(&table.sort).map(|key| key.attribute.as_str());
    let mut lines = vec![table.name.clone(), format!("key {}", key.collect::<Vec<_>>().join(" / "))];
    lines.extend(table.ttl.as_ref().map(|ttl| format!("ttl {}", ttl.attribute)));
    let mut first = [Card::new("table", &lines)];
    let entity = |entity: &Entity| Card::new("entity", &[entity.name.clone(), key_of(entity)]);
    let mut entities: Vec<Card> = table.entities.iter().map(entity).collect();
    let index = |index: &Index| Card::new("index", &[index.alias.clone(), index_key(index)]);
    let mut indexes: Vec<Card> = table.indexes.iter().map(index).collect();
    let (first_width, first_height) = stack(&mut first, 2.0);
    let (entities_width, entities_height) = stack(&mut entities, first_width + LANE);
    let (indexes_width, indexes_height) = stack(&mut indexes, first_width + entities_width + 2.0 * LANE);
    let height = first_height.max(entities_height).max(indexes_height);
    lower(&mut first, height - first_height);
    lower(&mut entities, height - entities_height);
    lower(&mut indexes, height - indexes_height);
    let right = if indexes.is_empty() {
        first_width + LANE + entities_width
    } else {
        first_width + entities_width + 2.0 * LANE + indexes_width
    };
    let label = format!(
        "Table {} with {} and {}",
        table.name,
        crate::show::count(table.entities.len() as u64, "kind of record"),
        match table.indexes.len() {
            1 => "1 index".to_owned(),
            many => format!("{many} indexes"),
        },
    );
    html! {
        div.scroll.drawing tabindex="0" role="region" aria-label={ "Drawing of table " (table.name) } {
            svg role="img" aria-label=(label) viewBox={ "0 0 " (n(right + 4.0)) " " (n(height + 4.0)) } width=(n(right + 4.0)) height=(n(height + 4.0)) {
                @for card in &entities { (line(&first[0], card)) }
                @for (card, entity) in entities.iter().zip(&table.entities) {
                    @for (other, index) in indexes.iter().zip(&table.indexes) {
                        @if entity.access(table, Some(index)).is_some() { (line(card, other)) }
                    }
                }
                @for card in first.iter().chain(&entities).chain(&indexes) { (card.draw()) }
            }
        }
    }
}

fn line(from: &Card, to: &Card) -> Markup {
    let (x, y, end, down) = (from.x + from.width, from.middle(), to.x, to.middle());
    let bend = (end - x) / 2.0;
    html! { path.edge d={ "M" (n(x)) " " (n(y)) " C" (n(x + bend)) " " (n(y)) " " (n(end - bend)) " " (n(down)) " " (n(end)) " " (n(down)) } {} }
}

/// States from left to right; moves that go on are above them, moves back below.
fn of_lifecycle(entity: &Entity, lifecycle: &Lifecycle) -> Markup {
    let names: Vec<&str> = lifecycle.states.iter().map(|state| state.name.as_str()).collect();
    let at = |name: &str| names.iter().position(|known| *known == name);
    let moves: Vec<(usize, usize, &str)> = lifecycle
        .transitions
        .iter()
        .flat_map(|it| it.from.iter().map(move |from| (from, &it.to, &it.name)))
        .filter_map(|(from, to, name)| Some((at(from)?, at(to)?, name.as_str())))
        .collect();
    let mut cards: Vec<Card> =
        lifecycle.states.iter().map(|state| Card::new("state", &state_lines(state))).collect();
    // What is farther apart goes in a wider curve.
    let bow = |from: usize, to: usize| 22.0 + 26.0 * from.abs_diff(to) as f64;
    let room = |back: bool| {
        let of = moves.iter().filter(|(from, to, _)| (to <= from) == back);
        of.map(|(from, to, _)| bow(*from, *to)).fold(8.0, f64::max)
    };
    // Above the highest curve is its name.
    let (above, below) = (room(false) + 8.0, room(true));
    let longest = moves.iter().map(|(_, _, name)| name.chars().count()).max().unwrap_or(0) as f64 * LETTER;
    let mut x = 2.0;
    for card in &mut cards {
        (card.x, card.y) = (x, above);
        x += card.width + longest.max(40.0) + GAP;
    }
    let width = cards.last().map_or(0.0, |card| card.x + card.width) + longest / 2.0 + 4.0;
    let bottom = cards.iter().map(|card| card.y + card.height()).fold(0.0, f64::max);
    let height = bottom + below + 6.0;
    let label = format!("States of {} by {}: {}", entity.name, lifecycle.name, names.join(", "));
    let marker = format!("arrow-{}-{}", entity.name, lifecycle.name);
    html! {
        div.scroll.drawing tabindex="0" role="region" aria-label={ "Drawing of lifecycle " (lifecycle.name) " of " (entity.name) } {
            svg role="img" aria-label=(label) viewBox={ "0 0 " (n(width)) " " (n(height)) } width=(n(width)) height=(n(height)) {
                defs { marker.arrow id=(marker) viewBox="0 0 8 8" refX="7" refY="4" markerWidth="8" markerHeight="8" orient="auto" { path d="M0 0L8 4L0 8z" {} } }
                @for (at, (from, to, name)) in moves.iter().enumerate() {
                    // Beginnings and ends that share a side are kept apart.
                    @let shift = (at % 3) as f64 * 10.0 - 10.0;
                    @let (start, end) = (&cards[*from], &cards[*to]);
                    @let back = to <= from;
                    @let (x, ends) = (start.x + start.width / 2.0 + shift + if back { -14.0 } else { 14.0 }, end.x + end.width / 2.0 + shift + if back { 14.0 } else { -14.0 });
                    @let y = if back { bottom_of(start) } else { start.y };
                    @let down = if back { bottom_of(end) } else { end.y };
                    @let peak = if back { bow(*from, *to) + bottom } else { above - bow(*from, *to) };
                    path.edge.move marker-end={ "url(#" (marker) ")" } d={ "M" (n(x)) " " (n(y)) " C" (n(x)) " " (n(peak)) " " (n(ends)) " " (n(peak)) " " (n(ends)) " " (n(down)) } {}
                    text.move x=(n((x + ends) / 2.0)) y=(n(peak * 0.75 + y * 0.25 + if back { 12.0 } else { -4.0 })) text-anchor="middle" { (name) }
                }
                @for card in &cards { (card.draw()) }
            }
        }
    }
}

fn bottom_of(card: &Card) -> f64 {
    card.y + card.height()
}

fn state_lines(state: &State) -> Vec<String> {
    let mut lines = vec![state.name.clone()];
    lines.extend(state.lease_millis.map(|millis| format!("lease {}", lasting(millis))));
    lines.extend(state.due_millis.map(|millis| format!("due after {}", lasting(millis))));
    lines
}

fn lasting(millis: i64) -> String {
    for (unit, size) in [("d", 86_400_000), ("h", 3_600_000), ("min", 60_000), ("s", 1000)] {
        if millis % size == 0 {
            return format!("{} {unit}", millis / size);
        }
    }
    format!("{millis} ms")
}

fn key_of(entity: &Entity) -> String {
    let source = |key: &KeySource| match key {
        KeySource::Template(template) => template.source(),
        KeySource::Field(name) => name.clone(),
    };
    let parts: Vec<String> = std::iter::once(&entity.partition).chain(&entity.sort).map(source).collect();
    parts.join(" / ")
}

fn index_key(index: &Index) -> String {
    let names = |keys: &[larder_schema::schema::KeyAttribute]| {
        keys.iter().map(|key| key.attribute.clone()).collect::<Vec<_>>().join(" + ")
    };
    match index.sort.is_empty() {
        true => names(&index.partition),
        false => format!("{} / {}", names(&index.partition), names(&index.sort)),
    }
}

fn table_in_words(schema: &Schema, table: &Table) -> Markup {
    html! {
        ul {
            @for entity in &table.entities {
                @let within: Vec<&str> = table.indexes.iter().filter(|index| entity.access(table, Some(index)).is_some()).map(|index| index.alias.as_str()).collect();
                li {
                    a href=(Url::to(["browse", &schema.system, &entity.name])) { (entity.name) } " has the key " code { (key_of(entity)) }
                    @if let Some(source) = &entity.source { ", comes from " (source) }
                    @if within.is_empty() { ", and is in no index." } @else { ", and is in " (within.join(", ")) "." }
                }
            }
            @for index in &table.indexes { li { "Index " (index.alias) ", in the store " code { (index.name) } ", goes by " code { (index_key(index)) } "." } }
        }
    }
}

fn lifecycle_in_words(lifecycle: &Lifecycle) -> Markup {
    html! {
        ul {
            @if let Some(first) = lifecycle.states.first() { li { "It begins as " b { (first.name) } "." } }
            @for transition in &lifecycle.transitions { li { b { (transition.name) } " goes from " (transition.from.join(" or ")) " to " (transition.to) "." } }
        }
    }
}

fn short(text: &str) -> String {
    match text.char_indices().nth(LETTERS_MAX) {
        Some((at, _)) => format!("{}…", &text[..at]),
        None => text.to_owned(),
    }
}

/// A measure, without more digits than a drawing shows.
fn n(number: f64) -> String {
    let text = format!("{number:.1}");
    text.strip_suffix(".0").map(str::to_owned).unwrap_or(text)
}
