//! Units consumed, as DynamoDB counts them.
//!
//! A read costs a unit for each 4 KB begun, half of that when it may be eventually consistent; a write costs
//! a unit for each KB begun of the larger of the old and the new item. An index costs what changes in it:
//! nothing when its entry stays as it is, both entries when the entry moves. A transaction doubles the units
//! of the table, not those of its indexes.

use std::sync::Arc;

use larder_model::limits::{READ_UNIT_BYTES, WRITE_UNIT_BYTES};
use larder_model::{IndexDefinition, IndexKind, TableDefinition};

use crate::catalog::Table;
use crate::metrics::{Operation, TableMetrics};
use crate::ops::{Consumed, ReturnCapacity, UnitKind};

pub(crate) fn read_units(bytes: usize, consistent: bool) -> f64 {
    let units = bytes.div_ceil(READ_UNIT_BYTES).max(1) as f64;
    if consistent { units } else { units / 2.0 }
}

pub(crate) fn write_units(bytes: usize) -> f64 {
    bytes.div_ceil(WRITE_UNIT_BYTES).max(1) as f64
}

/// Counts what a read of a table consumed, and says so if that is wanted.
pub(crate) fn count_read(
    table: &Table,
    operation: Operation,
    units: f64,
    wanted: ReturnCapacity,
) -> Option<Consumed> {
    table.metrics.of(operation).consume(UnitKind::Read, units);
    (wanted != ReturnCapacity::None).then(|| Consumed {
        table: table.name().clone(),
        table_units: units,
        indexes: Vec::new(),
        kind: None,
        parts: wanted == ReturnCapacity::Indexes,
    })
}

/// What a request has consumed so far, by table. It is counted once, when the request is decided.
#[derive(Debug, Default)]
pub(crate) struct Meter {
    parts: Vec<Part>,
    /// None for what DynamoDB does for nothing.
    operation: Option<Operation>,
    /// Which units it says they are.
    kind: Option<UnitKind>,
    /// Which units they are counted as.
    counted: Option<UnitKind>,
    wanted: ReturnCapacity,
}

#[derive(Debug)]
struct Part {
    definition: Arc<TableDefinition>,
    metrics: Arc<TableMetrics>,
    units: f64,
    /// By their place in the definition.
    indexes: Vec<(usize, f64)>,
}

impl Meter {
    pub(crate) fn new(operation: Operation, wanted: ReturnCapacity, kind: Option<UnitKind>) -> Self {
        let counted = kind.or(Some(operation.units()));
        Self { parts: Vec::new(), operation: Some(operation), kind, counted, wanted }
    }

    /// For what reads, whatever else its operation does.
    pub(crate) fn of_read(operation: Operation, wanted: ReturnCapacity) -> Self {
        Self { counted: Some(UnitKind::Read), ..Self::new(operation, wanted, None) }
    }

    pub(crate) fn table(&mut self, table: &Table, units: f64) {
        if self.operation.is_some() {
            self.part(table).units += units;
        }
    }

    pub(crate) fn index(&mut self, table: &Table, index: &IndexDefinition, units: f64) {
        let Some(at) = table.definition.indexes.iter().position(|known| known.name == index.name) else {
            return;
        };
        if self.operation.is_none() {
            return;
        }
        let indexes = &mut self.part(table).indexes;
        match indexes.iter_mut().find(|(known, _)| *known == at) {
            Some((_, sum)) => *sum += units,
            None => indexes.push((at, units)),
        }
    }

    /// Counts items that a page returned.
    pub(crate) fn returned(&self, table: &Table, items: usize) {
        if let Some(operation) = self.operation {
            table.metrics.of(operation).returned(items);
        }
    }

    fn part(&mut self, table: &Table) -> &mut Part {
        let known = self.parts.iter().position(|part| Arc::ptr_eq(&part.metrics, &table.metrics));
        let at = known.unwrap_or_else(|| {
            self.parts.push(Part {
                definition: table.definition.clone(),
                metrics: table.metrics.clone(),
                units: 0.0,
                indexes: Vec::new(),
            });
            self.parts.len() - 1
        });
        &mut self.parts[at]
    }

    /// Counts it. A local index is part of its table.
    pub(crate) fn count(&self) {
        let (Some(operation), Some(kind)) = (self.operation, self.counted) else { return };
        for part in &self.parts {
            let mut units = part.units;
            for (at, of_index) in &part.indexes {
                let index = &part.definition.indexes[*at];
                match index.kind {
                    IndexKind::Local => units += of_index,
                    IndexKind::Global => {
                        part.metrics.consume_of_index(operation, kind, &index.name, *of_index);
                    }
                }
            }
            part.metrics.of(operation).consume(kind, units);
        }
    }

    fn answer(self) -> Vec<Consumed> {
        if self.wanted == ReturnCapacity::None {
            return Vec::new();
        }
        let consumed = |part: Part| {
            let indexes = part.indexes.iter().map(|(at, units)| {
                let index = &part.definition.indexes[*at];
                (index.name.clone(), index.kind, *units)
            });
            Consumed {
                indexes: indexes.collect(),
                table: part.definition.name.clone(),
                table_units: part.units,
                kind: self.kind,
                parts: self.wanted == ReturnCapacity::Indexes,
            }
        };
        self.parts.into_iter().map(consumed).collect()
    }

    /// Counts it, and says it if that is wanted: for operations on one table.
    pub(crate) fn one(self) -> Option<Consumed> {
        self.all().into_iter().next()
    }

    /// For operations on several tables, in the order of their names.
    pub(crate) fn all(self) -> Vec<Consumed> {
        self.count();
        let mut answer = self.answer();
        answer.sort_by(|a, b| a.table.cmp(&b.table));
        answer
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
