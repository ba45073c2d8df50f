//! CreateBackup, DescribeBackup, ListBackups, DeleteBackup and RestoreTableFromBackup.

use larder_engine::ops::{
    BackupDescription, BackupKind, BackupStatus, CreateBackup, DeleteBackup, DescribeBackup, ListBackups,
    ListBackupsOutput, Request, RestoreTableFromBackup,
};
use larder_model::{Arn, Billing, IndexDefinition, IndexKind, Throughput};

use crate::constraints::{Constraints, described_table, table_name};
use crate::json::{Object, Reader, list, object};
use crate::members::request;
use crate::refusal::Read;
use crate::shape;

use super::continuous_backups::{Overrides, check_target};
use super::table_description::{
    provisioned, put_encryption, put_key_schema, put_on_demand_limits, put_projection,
    put_stream_specification, put_time, uuid,
};
use super::time_to_live::put_time_to_live;

const LIMIT_MAX: i64 = 100;
const ARN_CHARS_MIN: usize = 37;
const ARN_CHARS_MAX: usize = 1024;

pub(super) fn decode_create(reader: &mut Reader<'_>) -> Read<Request> {
    let (mut table, mut backup) = (None, None);
    request(reader, |reader, name| {
        match &*name {
            "TableName" => table = shape::text(reader)?,
            "BackupName" => backup = shape::owned_text(reader)?,
            _ => drop(reader.skip()?),
        }
        Ok(())
    })?;
    let table = described_table(table)?;
    let mut constraints = Constraints::default();
    match &backup {
        // The rules are those of table names.
        Some(name) => constraints.name(name, "backupName"),
        None => constraints.null("backupName"),
    }
    constraints.finish()?;
    Ok(Request::CreateBackup(CreateBackup { table, name: backup.unwrap_or_default() }))
}

pub(super) fn decode_describe(reader: &mut Reader<'_>) -> Read<Request> {
    Ok(Request::DescribeBackup(DescribeBackup { arn: backup_arn(reader)? }))
}

pub(super) fn decode_delete(reader: &mut Reader<'_>) -> Read<Request> {
    Ok(Request::DeleteBackup(DeleteBackup { arn: backup_arn(reader)? }))
}

fn backup_arn(reader: &mut Reader<'_>) -> Read<String> {
    let mut arn = None;
    request(reader, |reader, name| {
        match &*name {
            "BackupArn" => arn = shape::owned_text(reader)?,
            _ => drop(reader.skip()?),
        }
        Ok(())
    })?;
    let mut constraints = Constraints::default();
    check_arn(&mut constraints, arn.as_deref(), "backupArn");
    constraints.finish()?;
    Ok(arn.unwrap_or_default())
}

pub(super) fn check_arn(constraints: &mut Constraints, arn: Option<&str>, path: &str) {
    let Some(arn) = arn else { return constraints.null(path) };
    let length = arn.chars().count();
    if length < ARN_CHARS_MIN {
        let rule = format!("Member must have length greater than or equal to {ARN_CHARS_MIN}");
        constraints.broken(arn, path, &rule);
    } else if length > ARN_CHARS_MAX {
        let rule = format!("Member must have length less than or equal to {ARN_CHARS_MAX}");
        constraints.broken(arn, path, &rule);
    }
}

pub(super) fn decode_list(reader: &mut Reader<'_>) -> Read<Request> {
    let (mut table, mut limit, mut kind) = (None, None, None);
    let (mut from, mut before, mut start) = (None, None, None);
    request(reader, |reader, name| {
        match &*name {
            "TableName" => table = shape::text(reader)?,
            "Limit" => limit = shape::integer(reader)?,
            "TimeRangeLowerBound" => from = shape::timestamp(reader)?,
            "TimeRangeUpperBound" => before = shape::timestamp(reader)?,
            "ExclusiveStartBackupArn" => start = shape::owned_text(reader)?,
            "BackupType" => kind = shape::text(reader)?,
            _ => drop(reader.skip()?),
        }
        Ok(())
    })?;
    let table = table.map(|table| described_table(Some(table))).transpose()?;
    let mut constraints = Constraints::default();
    if let Some(limit) = limit {
        constraints.at_least(limit.value, 1, "limit");
        constraints.at_most(limit.value, LIMIT_MAX, "limit");
    }
    if start.is_some() {
        check_arn(&mut constraints, start.as_deref(), "exclusiveStartBackupArn");
    }
    constraints.one_of(kind.as_deref(), "backupType", &["USER", "SYSTEM", "AWS_BACKUP", "ALL"]);
    constraints.finish()?;
    let kinds = match kind.as_deref() {
        None | Some("USER") => vec![BackupKind::User],
        Some("SYSTEM") => vec![BackupKind::System],
        Some("ALL") => vec![BackupKind::User, BackupKind::System],
        // There is no other service here that makes any.
        Some(_) => Vec::new(),
    };
    let limit = limit.and_then(|limit| usize::try_from(limit.value).ok());
    Ok(Request::ListBackups(ListBackups { table, kinds, from, before, limit, start }))
}

pub(super) fn decode_restore(reader: &mut Reader<'_>) -> Read<Request> {
    let (mut backup, mut target) = (None, None);
    let mut overrides = Overrides::default();
    request(reader, |reader, name| {
        match &*name {
            "BackupArn" => backup = shape::owned_text(reader)?,
            "TargetTableName" => target = shape::text(reader)?,
            _ => overrides.read(reader, &name)?,
        }
        Ok(())
    })?;
    let mut constraints = Constraints::default();
    check_arn(&mut constraints, backup.as_deref(), "backupArn");
    check_target(&mut constraints, target.as_deref());
    overrides.check(&mut constraints);
    constraints.finish()?;
    Ok(Request::RestoreTableFromBackup(Box::new(RestoreTableFromBackup {
        backup: backup.unwrap_or_default(),
        target: table_name(target)?,
        overrides: overrides.finish()?,
    })))
}

pub(super) fn encode_create(out: &mut Vec<u8>, backup: &BackupDescription) {
    object(out, |answer| answer.object("BackupDetails", |details| put_details(details, backup)));
}

pub(super) fn encode_list(out: &mut Vec<u8>, output: &ListBackupsOutput) {
    object(out, |answer| {
        list(answer.member("BackupSummaries"), &output.backups, |out, backup| {
            object(out, |summary| {
                put_source(summary, backup);
                put_details(summary, backup);
            });
        });
        if let Some(last) = &output.last {
            answer.string("LastEvaluatedBackupArn", last);
        }
    });
}

pub(super) fn encode(out: &mut Vec<u8>, backup: &BackupDescription) {
    object(out, |answer| {
        answer.object("BackupDescription", |description| {
            description.object("BackupDetails", |details| put_details(details, backup));
            description.object("SourceTableDetails", |details| put_source_details(details, backup));
            description.object("SourceTableFeatureDetails", |features| put_features(features, backup));
        });
    });
}

fn put_details(details: &mut Object<'_>, backup: &BackupDescription) {
    details.string("BackupArn", &backup.arn);
    details.string("BackupName", &backup.name);
    details.integer("BackupSizeBytes", backup.bytes);
    let status = match backup.status {
        BackupStatus::Creating => "CREATING",
        BackupStatus::Available => "AVAILABLE",
        BackupStatus::Deleted => "DELETED",
    };
    details.string("BackupStatus", status);
    let kind = match backup.kind {
        BackupKind::User => "USER",
        BackupKind::System => "SYSTEM",
    };
    details.string("BackupType", kind);
    put_time(details, "BackupCreationDateTime", Some(backup.created));
    put_time(details, "BackupExpiryDateTime", backup.expires);
}

fn put_source(details: &mut Object<'_>, backup: &BackupDescription) {
    details.string("TableName", backup.table.name.as_str());
    details.string("TableId", &uuid(backup.table_id));
    details.string("TableArn", &Arn::table(&backup.table.name).to_string());
}

fn put_source_details(details: &mut Object<'_>, backup: &BackupDescription) {
    let table = &*backup.table;
    put_source(details, backup);
    details.integer("TableSizeBytes", backup.bytes);
    put_key_schema(details, &table.key);
    put_time(details, "TableCreationDateTime", Some(backup.table_created));
    put_units(details, provisioned(table.billing));
    put_on_demand_limits(details, table.on_demand_limits);
    details.integer("ItemCount", backup.item_count);
    let mode = if table.billing == Billing::OnDemand { "PAY_PER_REQUEST" } else { "PROVISIONED" };
    details.string("BillingMode", mode);
}

fn put_features(features: &mut Object<'_>, backup: &BackupDescription) {
    let table = &*backup.table;
    for (kind, member) in
        [(IndexKind::Local, "LocalSecondaryIndexes"), (IndexKind::Global, "GlobalSecondaryIndexes")]
    {
        let indexes: Vec<&IndexDefinition> =
            table.indexes.iter().filter(|index| index.kind == kind).collect();
        if indexes.is_empty() {
            continue;
        }
        list(features.member(member), indexes, |out, index| {
            object(out, |answer| {
                answer.string("IndexName", index.name.as_str());
                put_key_schema(answer, &index.key);
                put_projection(answer, &index.projection);
                if index.kind == IndexKind::Global {
                    put_units(answer, provisioned(table.billing).map(|_| index.throughput));
                    put_on_demand_limits(answer, index.on_demand_limits);
                }
            });
        });
    }
    put_stream_specification(features, "StreamDescription", table);
    put_time_to_live(features, &backup.time_to_live);
    put_encryption(features, table);
}

/// Zeros when billing is on demand.
fn put_units(answer: &mut Object<'_>, throughput: Option<Throughput>) {
    let throughput = throughput.unwrap_or_default();
    answer.object("ProvisionedThroughput", |units| {
        units.integer("ReadCapacityUnits", throughput.read);
        units.integer("WriteCapacityUnits", throughput.write);
    });
}
