//! UpdateContinuousBackups, DescribeContinuousBackups and RestoreTableToPointInTime, and what both restores share.

use larder_engine::ops::{
    BillingMode, ContinuousBackups, DescribeContinuousBackups, NewIndex, Request, RestoreOverrides,
    RestoreTableToPointInTime, UpdateContinuousBackups,
};
use larder_model::Arn;

use crate::constraints::{Constraints, described_table, table_name};
use crate::json::{Reader, object};
use crate::members::request;
use crate::refusal::{Read, Refusal};
use crate::shape;

use super::create_table::{Index, Settings, Units, indexes, on_demand, provisioned};
use super::table_description::put_time;

const DAYS_MAX: i64 = 35;

pub(super) fn decode_update(reader: &mut Reader<'_>) -> Read<Request> {
    let mut table = None;
    let (mut enabled, mut days) = (None, None);
    let mut is_specified = false;
    request(reader, |reader, name| {
        match &*name {
            "TableName" => table = shape::text(reader)?,
            "PointInTimeRecoverySpecification" => {
                let class = "PointInTimeRecoverySpecification";
                is_specified = shape::structure(reader, class, |reader, member| {
                    match &*member {
                        "PointInTimeRecoveryEnabled" => enabled = shape::boolean(reader)?,
                        "RecoveryPeriodInDays" => days = shape::integer(reader)?,
                        _ => drop(reader.skip()?),
                    }
                    Ok(())
                })?;
            }
            _ => drop(reader.skip()?),
        }
        Ok(())
    })?;
    let table = described_table(table)?;
    let mut constraints = Constraints::default();
    let path = "pointInTimeRecoverySpecification";
    if is_specified {
        constraints.present(&enabled, &format!("{path}.pointInTimeRecoveryEnabled"));
        if let Some(days) = days {
            let path = format!("{path}.recoveryPeriodInDays");
            constraints.at_least(days.value, 1, &path);
            constraints.at_most(days.value, DAYS_MAX, &path);
        }
    } else {
        constraints.null(path);
    }
    constraints.finish()?;
    let enabled = enabled.unwrap_or(false);
    if !enabled && days.is_some() {
        return Err(Refusal::plain(
            "RecoveryPeriodInDays can only be specified when PointInTimeRecoveryEnabled is true",
        ));
    }
    let days = days.and_then(|days| u8::try_from(days.value).ok());
    Ok(Request::UpdateContinuousBackups(UpdateContinuousBackups { table, enabled, days }))
}

pub(super) fn decode_describe(reader: &mut Reader<'_>) -> Read<Request> {
    let mut table = None;
    request(reader, |reader, name| {
        match &*name {
            "TableName" => table = shape::text(reader)?,
            _ => drop(reader.skip()?),
        }
        Ok(())
    })?;
    Ok(Request::DescribeContinuousBackups(DescribeContinuousBackups { table: described_table(table)? }))
}

pub(super) fn encode(out: &mut Vec<u8>, backups: &ContinuousBackups) {
    object(out, |answer| {
        answer.object("ContinuousBackupsDescription", |description| {
            description.string("ContinuousBackupsStatus", "ENABLED");
            description.object("PointInTimeRecoveryDescription", |description| match &backups.recovery {
                Some(recovery) => {
                    description.string("PointInTimeRecoveryStatus", "ENABLED");
                    description.integer("RecoveryPeriodInDays", i64::from(recovery.days));
                    put_time(description, "EarliestRestorableDateTime", Some(recovery.earliest));
                    put_time(description, "LatestRestorableDateTime", Some(recovery.latest));
                }
                None => description.string("PointInTimeRecoveryStatus", "DISABLED"),
            });
        });
    });
}

pub(super) fn decode_restore(reader: &mut Reader<'_>) -> Read<Request> {
    let (mut source, mut source_arn, mut target) = (None, None, None);
    let (mut latest, mut at) = (None, None);
    let mut overrides = Overrides::default();
    request(reader, |reader, name| {
        match &*name {
            "SourceTableName" => source = shape::text(reader)?,
            "SourceTableArn" => source_arn = shape::text(reader)?,
            "TargetTableName" => target = shape::text(reader)?,
            "UseLatestRestorableTime" => latest = shape::boolean(reader)?,
            "RestoreDateTime" => at = shape::timestamp(reader)?,
            _ => overrides.read(reader, &name)?,
        }
        Ok(())
    })?;
    let mut constraints = Constraints::default();
    if let Some(source) = source.as_deref() {
        constraints.name(source, "sourceTableName");
    }
    check_target(&mut constraints, target.as_deref());
    overrides.check(&mut constraints);
    constraints.finish()?;
    let source = match (source, source_arn) {
        (Some(source), None) => table_name(Some(source))?,
        (None, Some(arn)) => Arn::table_said(&arn).ok_or_else(|| {
            Refusal::Plain(format!("Invalid TableArn: Invalid ResourceArn provided as input {arn}"))
        })?,
        (None, None) => {
            return Err(Refusal::plain("Either SourceTableName or SourceTableArn must be specified"));
        }
        (Some(_), Some(_)) => {
            return Err(Refusal::plain("Only one of SourceTableName and SourceTableArn can be specified"));
        }
    };
    if latest.unwrap_or(false) == at.is_some() {
        return Err(Refusal::plain(
            "Exactly one of UseLatestRestorableTime and RestoreDateTime must be specified",
        ));
    }
    let target = table_name(target)?;
    let overrides = overrides.finish()?;
    Ok(Request::RestoreTableToPointInTime(Box::new(RestoreTableToPointInTime {
        source,
        target,
        at,
        overrides,
    })))
}

pub(super) fn check_target(constraints: &mut Constraints, target: Option<&str>) {
    match target {
        Some(target) => constraints.name(target, "targetTableName"),
        None => constraints.null("targetTableName"),
    }
}

/// What a restored table shall have otherwise, as it was given.
#[derive(Debug, Default)]
pub(super) struct Overrides {
    billing: Option<String>,
    throughput: Option<Units>,
    on_demand: Option<Units>,
    local: Option<Vec<Index>>,
    global: Option<Vec<Index>>,
    settings: Settings,
}

impl Overrides {
    pub(super) fn read(&mut self, reader: &mut Reader<'_>, name: &str) -> Read<()> {
        match name {
            "BillingModeOverride" => self.billing = shape::owned_text(reader)?,
            "ProvisionedThroughputOverride" => self.throughput = provisioned(reader)?,
            "OnDemandThroughputOverride" => self.on_demand = on_demand(reader)?,
            "LocalSecondaryIndexOverride" => self.local = indexes(reader, "LocalSecondaryIndex")?,
            "GlobalSecondaryIndexOverride" => self.global = indexes(reader, "GlobalSecondaryIndex")?,
            "SSESpecificationOverride" => self.settings.read(reader, "SSESpecification")?,
            _ => drop(reader.skip()?),
        }
        Ok(())
    }

    pub(super) fn check(&self, constraints: &mut Constraints) {
        let modes = ["PROVISIONED", "PAY_PER_REQUEST"];
        constraints.one_of(self.billing.as_deref(), "billingModeOverride", &modes);
        if let Some(units) = self.throughput {
            units.check(constraints, "provisionedThroughputOverride");
        }
        for (at, index) in self.global.iter().flatten().enumerate() {
            index.check_global(constraints, &format!("globalSecondaryIndexOverride.{}.member", at + 1));
        }
        for (at, index) in self.local.iter().flatten().enumerate() {
            index.check_local(constraints, &format!("localSecondaryIndexOverride.{}.member", at + 1));
        }
        self.settings.check_encryption(constraints);
    }

    pub(super) fn finish(self) -> Read<RestoreOverrides> {
        let new = |indexes: Option<Vec<Index>>| -> Read<Option<Vec<NewIndex>>> {
            indexes.map(|indexes| indexes.into_iter().map(Index::into_new).collect()).transpose()
        };
        Ok(RestoreOverrides {
            billing_mode: self.billing.as_deref().map(|mode| match mode {
                "PAY_PER_REQUEST" => BillingMode::OnDemand,
                _ => BillingMode::Provisioned,
            }),
            throughput: self.throughput.map(Units::throughput),
            on_demand_limits: self.on_demand.and_then(Units::limits),
            local_indexes: new(self.local)?,
            global_indexes: new(self.global)?,
            encryption: self.settings.encryption(),
        })
    }
}
