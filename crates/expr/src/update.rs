//! The item an update makes of an item.
//!
//! Every right side reads the item as it was, and every list position means what it meant there: a SET past
//! the end appends, appends land in the order of their positions, and a REMOVE of `l[0]` does not move what
//! `l[1]` names. So writes go in path order, and removals last, from the deepest path up.
//!
//! Promise: an update that is given a limit writes no more than that, however often it names a value.

use std::borrow::Cow;
use std::cmp::Reverse;

use larder_model::{AttributeValue, Item, Path, Step};

use crate::{Error, SetOperand, SetValue, Update};

impl Update {
    /// The item as it will be, however large. A missing item starts as its key.
    pub fn apply(&self, item: Option<&Item>, key: &Item) -> Result<Item, Error> {
        self.apply_within(usize::MAX, item, key)
    }

    /// The item as it will be, refused as soon as what is written to it is more than `bytes_max`. With what it had
    /// before, it may still be larger.
    pub fn apply_within(&self, bytes_max: usize, item: Option<&Item>, key: &Item) -> Result<Item, Error> {
        let old = item.unwrap_or(key);
        self.check_operands(old)?;

        let mut room = Room(bytes_max);
        let mut writes = Vec::with_capacity(self.set.len() + self.add.len() + self.delete.len());
        for (path, value) in &self.set {
            writes.push((path, Write::Set(set_value(value, old, &mut room)?)));
        }
        for (_, value) in &self.add {
            // What is added to a number takes its place.
            if !matches!(**value, AttributeValue::N(_)) {
                room.take(value.size())?;
            }
        }
        writes.extend(self.add.iter().map(|(path, value)| (path, Write::Add(value))));
        writes.extend(self.delete.iter().map(|(path, value)| (path, Write::Delete(value))));
        writes.sort_by_key(|(path, _)| *path);

        let mut new = old.clone();
        let mut removals = Vec::with_capacity(self.remove.len());
        for (path, write) in writes {
            match write {
                Write::Set(value) => put(&mut new, path, value.into_owned())?,
                Write::Add(value) => add(&mut new, path, value)?,
                // An emptied set leaves with the removals, so that list elements after it stay where they are.
                Write::Delete(value) if delete(&mut new, path, value)? => removals.push(path),
                Write::Delete(_) => {}
            }
        }
        for path in &self.remove {
            // What the item did not have is left alone, even if an append has since put something there.
            match path.find(old) {
                Some(_) => removals.push(path),
                None => check_parent(old, path)?,
            }
        }
        remove(&mut new, removals);
        Ok(new)
    }

    /// Whether this update makes an item where there is none. One that only removes does not.
    pub fn creates(&self) -> bool {
        let removes_only = self.set.is_empty() && self.add.is_empty();
        !removes_only || (self.remove.is_empty() && self.delete.is_empty())
    }

    /// Every path the update writes: SET, REMOVE, ADD, DELETE, each in the order written.
    pub fn paths(&self) -> impl Iterator<Item = &Path> {
        let set = self.set.iter().map(|(path, _)| path);
        let add = self.add.iter().map(|(path, _)| path);
        let delete = self.delete.iter().map(|(path, _)| path);
        set.chain(&self.remove).chain(add).chain(delete)
    }

    /// Every path whose value the update reads: `SET a = b + :one` is also about `b`.
    pub fn read_paths(&self) -> impl Iterator<Item = &Path> {
        let mut open: Vec<&SetOperand> = Vec::new();
        for (_, value) in &self.set {
            match value {
                SetValue::Is(one) => open.push(one),
                SetValue::Plus(one, other) | SetValue::Minus(one, other) => open.extend([one, other]),
            }
        }
        let mut paths = Vec::new();
        while let Some(operand) = open.pop() {
            match operand {
                SetOperand::Path(path) => paths.push(path),
                SetOperand::Value(_) => {}
                SetOperand::IfNotExists(path, other) => {
                    paths.push(path);
                    open.push(other);
                }
                SetOperand::ListAppend(one, other) => open.extend([&**one, &**other]),
            }
        }
        paths.into_iter()
    }

    /// ADD and DELETE are held against the old item first: a wrong type wins over a wrong path elsewhere.
    fn check_operands(&self, old: &Item) -> Result<(), Error> {
        use AttributeValue::{Bs, L, N, Ns, Ss};
        let mismatch = || if self.legacy { Error::UpdateTypeMismatch } else { Error::OperandType };
        for (path, value) in &self.add {
            let fits = matches!(
                (path.find(old), &**value),
                (None, _)
                    | (Some(N(_)), N(_))
                    | (Some(Ss(_)), Ss(_))
                    | (Some(Ns(_)), Ns(_))
                    | (Some(Bs(_)), Bs(_))
                    | (Some(L(_)), L(_))
            );
            if !fits {
                return Err(mismatch());
            }
        }
        for (path, value) in &self.delete {
            let fits = matches!(
                (path.find(old), &**value),
                (None, _) | (Some(Ss(_)), Ss(_)) | (Some(Ns(_)), Ns(_)) | (Some(Bs(_)), Bs(_))
            );
            if !fits {
                return Err(mismatch());
            }
        }
        Ok(())
    }
}

/// What may still be written. No two paths of an update overlap, so all that it sets is in the item it makes.
struct Room(usize);

impl Room {
    fn take(&mut self, bytes: usize) -> Result<(), Error> {
        self.0 = self.0.checked_sub(bytes).ok_or(Error::ItemTooLarge)?;
        Ok(())
    }
}

enum Write<'a> {
    Set(Cow<'a, AttributeValue>),
    Add(&'a AttributeValue),
    Delete(&'a AttributeValue),
}

/// The value of a right side, once there is room for it. What is not changed is lent.
fn set_value<'a>(
    value: &'a SetValue,
    old: &'a Item,
    room: &mut Room,
) -> Result<Cow<'a, AttributeValue>, Error> {
    let numbers = |left, right| match (operand(left, old)?, operand(right, old)?) {
        (AttributeValue::N(left), AttributeValue::N(right)) => Ok((*left, *right)),
        _ => Err(Error::OperandType),
    };
    let number = match value {
        SetValue::Is(SetOperand::ListAppend(head, tail)) => return append(head, tail, old, room),
        SetValue::Is(value) => {
            let value = operand(value, old)?;
            room.take(value.size())?;
            return Ok(Cow::Borrowed(value));
        }
        SetValue::Plus(left, right) => {
            let (left, right) = numbers(left, right)?;
            left.checked_add(right)?
        }
        SetValue::Minus(left, right) => {
            let (left, right) = numbers(left, right)?;
            left.checked_sub(right)?
        }
    };
    room.take(number.size())?;
    Ok(Cow::Owned(AttributeValue::N(number)))
}

fn append<'a>(
    head: &SetOperand,
    tail: &SetOperand,
    old: &Item,
    room: &mut Room,
) -> Result<Cow<'a, AttributeValue>, Error> {
    let (AttributeValue::L(head), AttributeValue::L(tail)) = (operand(head, old)?, operand(tail, old)?)
    else {
        return Err(Error::OperandType);
    };
    for value in head.iter().chain(tail) {
        room.take(1 + value.size())?;
    }
    Ok(Cow::Owned(AttributeValue::L([head.as_slice(), tail].concat())))
}

fn operand<'a>(operand_: &'a SetOperand, old: &'a Item) -> Result<&'a AttributeValue, Error> {
    match operand_ {
        SetOperand::Path(path) => path.find(old).ok_or(Error::MissingAttribute),
        SetOperand::Value(value) => Ok(value),
        SetOperand::IfNotExists(path, default) => match path.find(old) {
            Some(value) => Ok(value),
            None => operand(default, old),
        },
        // A list that is appended is the whole of a right side.
        SetOperand::ListAppend(..) => Err(Error::OperandType),
    }
}

/// Where the last step of a path leads.
enum Place<'a> {
    Field(&'a mut Item, &'a str),
    Element(&'a mut Vec<AttributeValue>, usize),
}

fn place<'a>(item: &'a mut Item, path: &'a Path) -> Result<Place<'a>, Error> {
    let Some((last, parents)) = path.steps.split_last() else {
        return Ok(Place::Field(item, &path.root));
    };
    let mut parent = item.get_mut(&path.root);
    for step in parents {
        parent = match (parent, step) {
            (Some(AttributeValue::M(map)), Step::Field(name)) => map.get_mut(name),
            (Some(AttributeValue::L(list)), Step::Index(at)) => list.get_mut(*at),
            _ => None,
        };
    }
    match (parent, last) {
        (Some(AttributeValue::M(map)), Step::Field(name)) => Ok(Place::Field(map, name)),
        (Some(AttributeValue::L(list)), Step::Index(at)) => Ok(Place::Element(list, *at)),
        _ => Err(Error::DocumentPath),
    }
}

fn check_parent(item: &Item, path: &Path) -> Result<(), Error> {
    let Some((last, parents)) = path.steps.split_last() else { return Ok(()) };
    let parent = parents.iter().fold(item.get(&path.root), |parent, step| match (parent, step) {
        (Some(AttributeValue::M(map)), Step::Field(name)) => map.get(name),
        (Some(AttributeValue::L(list)), Step::Index(at)) => list.get(*at),
        _ => None,
    });
    match (parent, last) {
        (Some(AttributeValue::M(_)), Step::Field(_)) | (Some(AttributeValue::L(_)), Step::Index(_)) => Ok(()),
        _ => Err(Error::DocumentPath),
    }
}

fn put(item: &mut Item, path: &Path, value: AttributeValue) -> Result<(), Error> {
    match place(item, path)? {
        Place::Field(map, name) => match map.get_mut(name) {
            Some(slot) => *slot = value,
            None => {
                map.insert(name, value);
            }
        },
        Place::Element(list, at) => match list.get_mut(at) {
            Some(slot) => *slot = value,
            None => list.push(value),
        },
    }
    Ok(())
}

fn find_mut<'a>(item: &'a mut Item, path: &'a Path) -> Result<Option<&'a mut AttributeValue>, Error> {
    Ok(match place(item, path)? {
        Place::Field(map, name) => map.get_mut(name),
        Place::Element(list, at) => list.get_mut(at),
    })
}

fn add(item: &mut Item, path: &Path, value: &AttributeValue) -> Result<(), Error> {
    let Some(slot) = find_mut(item, path)? else {
        return put(item, path, value.clone());
    };
    match (slot, value) {
        (AttributeValue::N(number), AttributeValue::N(more)) => *number = number.checked_add(*more)?,
        (AttributeValue::Ss(set), AttributeValue::Ss(more)) => set.extend(more.iter().cloned()),
        (AttributeValue::Ns(set), AttributeValue::Ns(more)) => set.extend(more.iter().copied()),
        (AttributeValue::Bs(set), AttributeValue::Bs(more)) => set.extend(more.iter().cloned()),
        (AttributeValue::L(list), AttributeValue::L(more)) => list.extend(more.iter().cloned()),
        _ => return Err(Error::OperandType),
    }
    Ok(())
}

/// Takes members out of a set, and says whether none are left.
fn delete(item: &mut Item, path: &Path, value: &AttributeValue) -> Result<bool, Error> {
    let Some(slot) = find_mut(item, path)? else { return Ok(false) };
    Ok(match (slot, value) {
        (AttributeValue::Ss(set), AttributeValue::Ss(less)) => {
            set.retain(|member| !less.contains(member));
            set.is_empty()
        }
        (AttributeValue::Ns(set), AttributeValue::Ns(less)) => {
            set.retain(|member| !less.contains(member));
            set.is_empty()
        }
        (AttributeValue::Bs(set), AttributeValue::Bs(less)) => {
            set.retain(|member| !less.contains(member));
            set.is_empty()
        }
        _ => return Err(Error::OperandType),
    })
}

/// Removes what the paths lead to. The deepest go first, since what leaves a list moves what comes after it; those of
/// one list go together, since each would move all that comes after it.
fn remove(item: &mut Item, mut paths: Vec<&Path>) {
    paths.sort_by_key(|path| (Reverse(path.steps.len()), *path));
    let parent = |path: &Path| path.steps.len().saturating_sub(1);
    let siblings = |one: &&Path, two: &&Path| {
        one.steps.len() == two.steps.len()
            && one.root == two.root
            && one.steps[..parent(one)] == two.steps[..parent(two)]
    };
    for group in paths.chunk_by(siblings) {
        match place(item, group[0]) {
            Ok(Place::Element(list, _)) => remove_elements(list, group),
            Ok(Place::Field(..)) => {
                for path in group {
                    if let Ok(Place::Field(map, name)) = place(item, path) {
                        map.remove(name);
                    }
                }
            }
            Err(_) => {}
        }
    }
}

/// The last steps of `paths` are positions in `list`, in order.
fn remove_elements(list: &mut Vec<AttributeValue>, paths: &[&Path]) {
    let mut positions = paths.iter().filter_map(|path| match path.steps.last() {
        Some(Step::Index(at)) => Some(*at),
        _ => None,
    });
    let mut next = positions.next();
    let mut at = 0;
    list.retain(|_| {
        let leaves = next == Some(at);
        if leaves {
            next = positions.next();
        }
        at += 1;
        !leaves
    });
}
