//! The part of an item that some paths reach.
//!
//! Lists keep only the elements that were asked for, closed up, in the order they have in the item: `l[2],
//! l[0]` of `[a, b, c]` is `[a, c]`.

use larder_model::{AttributeValue, Item, Path, Step};

use crate::{Projection, Update};

impl Projection {
    /// The attributes of `item` at the paths; what is not there is left out.
    pub fn apply(&self, item: &Item) -> Item {
        pick(self.paths.iter(), item)
    }
}

/// What an update touches, as it is in `item`: for `UPDATED_OLD` and `UPDATED_NEW`.
pub fn touched(update: &Update, item: &Item) -> Item {
    pick(update.paths(), item)
}

fn pick<'a>(paths: impl Iterator<Item = &'a Path>, item: &Item) -> Item {
    let mut paths: Vec<&Path> = paths.collect();
    // Sorted, the paths below one place are neighbours, and list positions ascend.
    paths.sort();
    let mut picked = Item::new();
    let mut rest = paths.as_slice();
    while let Some(first) = rest.first() {
        let (group, after) = rest.split_at(rest.partition_point(|path| path.root <= first.root));
        rest = after;
        if let Some(value) = item.get(&first.root).and_then(|value| part(value, group, 0)) {
            picked.insert(&*first.root, value);
        }
    }
    picked
}

/// The part of `value` that `paths` reach, all of them being the same before step `depth`.
fn part(value: &AttributeValue, paths: &[&Path], depth: usize) -> Option<AttributeValue> {
    if paths.iter().any(|path| path.steps.len() == depth) {
        return Some(value.clone());
    }
    let mut map = Item::new();
    let mut list = Vec::new();
    let mut rest = paths;
    while let Some(first) = rest.first() {
        let step = &first.steps[depth];
        let (group, after) = rest.split_at(rest.partition_point(|path| path.steps[depth] <= *step));
        rest = after;
        match (value, step) {
            (AttributeValue::M(fields), Step::Field(name)) => {
                if let Some(found) = fields.get(name).and_then(|inner| part(inner, group, depth + 1)) {
                    map.insert(&**name, found);
                }
            }
            (AttributeValue::L(elements), Step::Index(at)) => {
                list.extend(elements.get(*at).and_then(|inner| part(inner, group, depth + 1)));
            }
            _ => {}
        }
    }
    match value {
        AttributeValue::M(_) if !map.is_empty() => Some(AttributeValue::M(map)),
        AttributeValue::L(_) if !list.is_empty() => Some(AttributeValue::L(list)),
        _ => None,
    }
}
