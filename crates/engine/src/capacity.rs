//! Units consumed, as DynamoDB counts them.
//!
//! A read costs a unit for each 4 KB begun, half of that when it may be eventually consistent; a write costs
//! a unit for each KB begun of the larger of the old and the new item. An index costs what changes in it:
//! nothing when its entry stays as it is, both entries when the entry moves. A transaction doubles the units
//! of the table, not those of its indexes.

use larder_model::limits::{READ_UNIT_BYTES, WRITE_UNIT_BYTES};
use larder_model::{IndexKind, IndexName, TableName};

use crate::ops::{Consumed, ReturnCapacity, UnitKind};

pub(crate) fn read_units(bytes: usize, consistent: bool) -> f64 {
    let units = bytes.div_ceil(READ_UNIT_BYTES).max(1) as f64;
    if consistent { units } else { units / 2.0 }
}

pub(crate) fn write_units(bytes: usize) -> f64 {
    bytes.div_ceil(WRITE_UNIT_BYTES).max(1) as f64
}

/// What a request has consumed so far, by table.
#[derive(Debug, Default)]
pub(crate) struct Meter {
    tables: Vec<Consumed>,
    kind: Option<UnitKind>,
    wanted: ReturnCapacity,
}

impl Meter {
    pub(crate) fn new(wanted: ReturnCapacity, kind: Option<UnitKind>) -> Self {
        Self { tables: Vec::new(), kind, wanted }
    }

    pub(crate) fn wanted(&self) -> bool {
        self.wanted != ReturnCapacity::None
    }

    pub(crate) fn table(&mut self, table: &TableName, units: f64) {
        if self.wanted() {
            self.entry(table).table_units += units;
        }
    }

    pub(crate) fn index(&mut self, table: &TableName, index: &IndexName, kind: IndexKind, units: f64) {
        if !self.wanted() {
            return;
        }
        let indexes = &mut self.entry(table).indexes;
        match indexes.iter_mut().find(|(name, _, _)| name == index) {
            Some((_, _, sum)) => *sum += units,
            None => indexes.push((index.clone(), kind, units)),
        }
    }

    fn entry(&mut self, table: &TableName) -> &mut Consumed {
        let at = self.tables.iter().position(|consumed| &consumed.table == table).unwrap_or_else(|| {
            self.tables.push(Consumed {
                table: table.clone(),
                table_units: 0.0,
                indexes: Vec::new(),
                kind: self.kind,
                parts: self.wanted == ReturnCapacity::Indexes,
            });
            self.tables.len() - 1
        });
        &mut self.tables[at]
    }

    /// For operations on one table.
    pub(crate) fn one(self) -> Option<Consumed> {
        self.tables.into_iter().next()
    }

    /// For operations on several tables, in the order of their names.
    pub(crate) fn all(mut self) -> Vec<Consumed> {
        self.tables.sort_by(|a, b| a.table.cmp(&b.table));
        self.tables
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_are_rounded_up_and_never_zero() {
        for (bytes, consistent, units) in
            [(0, true, 1.0), (0, false, 0.5), (4096, true, 1.0), (4097, true, 2.0), (4097, false, 1.0)]
        {
            assert_eq!(read_units(bytes, consistent), units, "{bytes}");
        }
        for (bytes, units) in [(0, 1.0), (1024, 1.0), (1025, 2.0)] {
            assert_eq!(write_units(bytes), units, "{bytes}");
        }
    }
}
