//! The item an update makes of an item.
//!
//! Every right side reads the item as it was, and every list position means what it meant there: a SET past
//! the end appends, appends land in the order of their positions, and a REMOVE of `l[0]` does not move what
//! `l[1]` names. So writes go in path order, and removals last, from the highest path down.

use larder_model::{AttributeValue, Item, Path, Step};

use crate::{Error, SetOperand, SetValue, Update};

impl Update {
    /// The item as it will be. A missing item starts as its key.
    pub fn apply(&self, item: Option<&Item>, key: &Item) -> Result<Item, Error> {
        let old = item.unwrap_or(key);
        self.check_operands(old)?;

        let mut writes = Vec::with_capacity(self.set.len() + self.add.len() + self.delete.len());
        for (path, value) in &self.set {
            writes.push((path, Write::Set(set_value(value, old)?)));
        }
        writes.extend(self.add.iter().map(|(path, value)| (path, Write::Add(value))));
        writes.extend(self.delete.iter().map(|(path, value)| (path, Write::Delete(value))));
        writes.sort_by_key(|(path, _)| *path);

        let mut new = old.clone();
        let mut removals = Vec::with_capacity(self.remove.len());
        for (path, write) in writes {
            match write {
                Write::Set(value) => put(&mut new, path, value)?,
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
        removals.sort_by(|left, right| right.cmp(left));
        for path in removals {
            remove(&mut new, path);
        }
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

    /// ADD and DELETE are held against the old item first: a wrong type wins over a wrong path elsewhere.
    fn check_operands(&self, old: &Item) -> Result<(), Error> {
        use AttributeValue::{Bs, L, N, Ns, Ss};
        let mismatch = || if self.legacy { Error::UpdateTypeMismatch } else { Error::OperandType };
        for (path, value) in &self.add {
            let fits = matches!(
                (path.find(old), value),
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
                (path.find(old), value),
                (None, _) | (Some(Ss(_)), Ss(_)) | (Some(Ns(_)), Ns(_)) | (Some(Bs(_)), Bs(_))
            );
            if !fits {
                return Err(mismatch());
            }
        }
        Ok(())
    }
}

enum Write<'a> {
    Set(AttributeValue),
    Add(&'a AttributeValue),
    Delete(&'a AttributeValue),
}

fn set_value(value: &SetValue, old: &Item) -> Result<AttributeValue, Error> {
    let numbers = |left, right| match (operand(left, old)?, operand(right, old)?) {
        (AttributeValue::N(left), AttributeValue::N(right)) => Ok((left, right)),
        _ => Err(Error::OperandType),
    };
    match value {
        SetValue::Is(value) => operand(value, old),
        SetValue::Plus(left, right) => {
            let (left, right) = numbers(left, right)?;
            Ok(AttributeValue::N(left.checked_add(right)?))
        }
        SetValue::Minus(left, right) => {
            let (left, right) = numbers(left, right)?;
            Ok(AttributeValue::N(left.checked_sub(right)?))
        }
    }
}

fn operand(operand_: &SetOperand, old: &Item) -> Result<AttributeValue, Error> {
    match operand_ {
        SetOperand::Path(path) => path.find(old).cloned().ok_or(Error::MissingAttribute),
        SetOperand::Value(value) => Ok(value.clone()),
        SetOperand::IfNotExists(path, default) => match path.find(old) {
            Some(value) => Ok(value.clone()),
            None => operand(default, old),
        },
        SetOperand::ListAppend(head, tail) => match (operand(head, old)?, operand(tail, old)?) {
            (AttributeValue::L(mut head), AttributeValue::L(tail)) => {
                head.extend(tail);
                Ok(AttributeValue::L(head))
            }
            _ => Err(Error::OperandType),
        },
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

fn remove(item: &mut Item, path: &Path) {
    match place(item, path) {
        Ok(Place::Field(map, name)) => {
            map.remove(name);
        }
        Ok(Place::Element(list, at)) if at < list.len() => {
            list.remove(at);
        }
        _ => {}
    }
}
