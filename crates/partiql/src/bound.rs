//! Statements whose parameters are filled in and whose parts have been checked, as far as that goes without a table.

use std::collections::BTreeSet;
use std::sync::Arc;

use larder_expr::{Condition, Projection};
use larder_model::{IndexName, Item, Path, Step, TableName};

#[derive(Clone, Debug, PartialEq)]
pub enum Statement {
    Select(Select),
    /// `EXISTS(SELECT …)`, which a transaction of writes may hold.
    Exists(Select),
    Insert(Insert),
    Update(Update),
    Delete(Delete),
}

#[derive(Clone, Debug, PartialEq)]
pub struct Select {
    pub table: TableName,
    pub index: Option<IndexName>,
    /// Absent for `*`.
    pub columns: Option<Columns>,
    pub condition: Option<Condition>,
    pub order: Vec<Order>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Order {
    pub attribute: Arc<str>,
    pub descending: bool,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Insert {
    pub table: TableName,
    pub item: Item,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Update {
    pub table: TableName,
    pub update: larder_expr::Update,
    pub condition: Option<Condition>,
    pub returning: Option<Returning>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Delete {
    pub table: TableName,
    pub condition: Option<Condition>,
    /// The old item is returned.
    pub returning: bool,
}

/// `RETURNING ALL OLD *` and the like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Returning {
    AllOld,
    ModifiedOld,
    AllNew,
    ModifiedNew,
}

/// What a SELECT returns of an item.
#[derive(Clone, Debug, PartialEq)]
pub struct Columns(pub Vec<Column>);

/// A value of an item, and the name it is returned under.
#[derive(Clone, Debug, PartialEq)]
pub struct Column {
    pub name: String,
    pub path: Path,
}

impl Statement {
    pub fn table(&self) -> &TableName {
        match self {
            Self::Select(select) | Self::Exists(select) => &select.table,
            Self::Insert(insert) => &insert.table,
            Self::Update(update) => &update.table,
            Self::Delete(delete) => &delete.table,
        }
    }

    pub fn table_mut(&mut self) -> &mut TableName {
        match self {
            Self::Select(select) | Self::Exists(select) => &mut select.table,
            Self::Insert(insert) => &mut insert.table,
            Self::Update(update) => &mut update.table,
            Self::Delete(delete) => &mut delete.table,
        }
    }

    /// The attributes that it names, each by the first part of its path; not those that `*` stands for.
    pub fn attributes(&self) -> BTreeSet<&str> {
        let mut names = BTreeSet::new();
        let condition = match self {
            Self::Select(select) | Self::Exists(select) => {
                let columns = select.columns.iter().flat_map(|columns| &columns.0);
                names.extend(columns.map(|column| &*column.path.root));
                names.extend(select.order.iter().map(|order| &*order.attribute));
                select.condition.as_ref()
            }
            Self::Insert(insert) => {
                names.extend(insert.item.names());
                None
            }
            Self::Update(update) => {
                names.extend(update.update.paths().map(|path| &*path.root));
                names.extend(update.update.read_paths().map(|path| &*path.root));
                update.condition.as_ref()
            }
            Self::Delete(delete) => delete.condition.as_ref(),
        };
        names.extend(condition.into_iter().flat_map(Condition::paths).map(|path| &*path.root));
        names
    }

    /// Whether it reads, and nothing else. `EXISTS` goes with writes.
    pub fn is_read(&self) -> bool {
        matches!(self, Self::Select(_))
    }
}

impl Column {
    /// A path is returned under its last name, with the positions that follow it: `a.b[1]` as `b[1]`.
    pub fn of(path: Path) -> Self {
        let mut name = path.root.to_string();
        for step in &path.steps {
            match step {
                Step::Field(field) => name = field.to_string(),
                Step::Index(at) => name.push_str(&format!("[{at}]")),
            }
        }
        Self { name, path }
    }
}

impl Columns {
    /// The attributes that they are of, each once.
    pub fn roots(&self) -> Projection {
        let mut roots: Vec<Arc<str>> = Vec::new();
        for Column { path, .. } in &self.0 {
            if !roots.contains(&path.root) {
                roots.push(Arc::clone(&path.root));
            }
        }
        let path = |root| Path { root, steps: Vec::new() };
        Projection { paths: roots.into_iter().map(path).collect() }
    }

    /// Whether they are attributes as they are, so that their roots are all there is to them.
    pub fn are_whole(&self) -> bool {
        self.0.iter().all(|column| column.path.steps.is_empty())
    }

    /// What there is of them in an item.
    pub fn apply(&self, item: &Item) -> Item {
        let found = self.0.iter().filter_map(|column| Some((&column.name, column.path.find(item)?)));
        found.map(|(name, value)| (name.as_str(), value.clone())).collect()
    }
}

#[cfg(test)]
mod tests {
    use larder_model::AttributeValue;

    use super::*;

    fn path(root: &str, steps: &[Step]) -> Path {
        Path { root: root.into(), steps: steps.to_vec() }
    }

    #[test]
    fn a_path_is_returned_under_its_last_name() {
        for (steps, name) in [
            (vec![], "a"),
            (vec![Step::Field("b".into())], "b"),
            (vec![Step::Field("b".into()), Step::Index(2)], "b[2]"),
            (vec![Step::Index(0), Step::Index(1)], "a[0][1]"),
            (vec![Step::Index(0), Step::Field("c".into())], "c"),
        ] {
            assert_eq!(Column::of(path("a", &steps)).name, name);
        }
    }

    #[test]
    fn what_is_not_there_is_left_out() {
        let inner: Item = [("b", AttributeValue::from(5))].into_iter().collect();
        let item: Item = [("a", AttributeValue::M(inner))].into_iter().collect();
        let columns = Columns(vec![
            Column::of(path("a", &[Step::Field("b".into())])),
            Column::of(path("a", &[Step::Field("none".into())])),
            Column::of(path("z", &[])),
        ]);
        let expected: Item = [("b", AttributeValue::from(5))].into_iter().collect();
        assert_eq!(columns.apply(&item), expected);
        let roots: Vec<String> = columns.roots().paths.iter().map(ToString::to_string).collect();
        assert_eq!(roots, ["a", "z"]);
    }
}
