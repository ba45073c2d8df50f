//! The actions there are, as the service authorization reference lists them: what a policy can name, whether or not an
//! operation here needs it.

use crate::resource::ResourceKind;

/// The kinds of resources that an action, written as in a policy, can be done to; `None` if DynamoDB has no such
/// action. An action with no kinds is about no one resource.
pub fn kinds_of(action: &str) -> Option<&'static [ResourceKind]> {
    let (service, name) = action.split_once(':')?;
    let is_ours = service.eq_ignore_ascii_case("dynamodb");
    let found = ACTIONS.iter().find(|(known, _)| is_ours && known.eq_ignore_ascii_case(name));
    found.map(|(_, kinds)| *kinds)
}

const TABLE: &[ResourceKind] = &[ResourceKind::Table];
const INDEXED: &[ResourceKind] = &[ResourceKind::Table, ResourceKind::Index];
const STREAM: &[ResourceKind] = &[ResourceKind::Stream];
const TABLE_OR_STREAM: &[ResourceKind] = &[ResourceKind::Table, ResourceKind::Stream];
const BACKUP: &[ResourceKind] = &[ResourceKind::Backup];
const GLOBAL_TABLE: &[ResourceKind] = &[ResourceKind::GlobalTable];
const GLOBAL_AND_TABLE: &[ResourceKind] = &[ResourceKind::GlobalTable, ResourceKind::Table];

/// Every action that an operation of DynamoDB or its streams needs, as the service authorization reference has it.
pub const ACTIONS: &[(&str, &[ResourceKind])] = &[
    ("BatchGetItem", TABLE),
    ("BatchWriteItem", TABLE),
    ("ConditionCheckItem", TABLE),
    ("CreateBackup", TABLE),
    ("CreateGlobalTable", GLOBAL_AND_TABLE),
    ("CreateTable", TABLE),
    ("DeleteBackup", BACKUP),
    ("DeleteItem", TABLE),
    ("DeleteResourcePolicy", TABLE_OR_STREAM),
    ("DeleteTable", TABLE),
    ("DescribeBackup", BACKUP),
    ("DescribeContinuousBackups", TABLE),
    ("DescribeContributorInsights", INDEXED),
    ("DescribeEndpoints", &[]),
    ("DescribeExport", &[ResourceKind::Export]),
    ("DescribeGlobalTable", GLOBAL_TABLE),
    ("DescribeGlobalTableSettings", GLOBAL_TABLE),
    ("DescribeImport", &[ResourceKind::Import]),
    ("DescribeKinesisStreamingDestination", TABLE),
    ("DescribeLimits", &[]),
    ("DescribeStream", STREAM),
    ("DescribeTable", TABLE),
    ("DescribeTableReplicaAutoScaling", TABLE),
    ("DescribeTimeToLive", TABLE),
    ("DisableKinesisStreamingDestination", TABLE),
    ("EnableKinesisStreamingDestination", TABLE),
    ("ExportTableToPointInTime", TABLE),
    ("GetItem", TABLE),
    ("GetRecords", STREAM),
    ("GetResourcePolicy", TABLE_OR_STREAM),
    ("GetShardIterator", STREAM),
    ("ImportTable", TABLE),
    ("ListBackups", &[]),
    ("ListContributorInsights", &[]),
    ("ListExports", TABLE),
    ("ListGlobalTables", &[]),
    ("ListImports", TABLE),
    ("ListStreams", &[]),
    ("ListTables", &[]),
    ("ListTagsOfResource", TABLE_OR_STREAM),
    ("PartiQLDelete", TABLE),
    ("PartiQLInsert", TABLE),
    ("PartiQLSelect", INDEXED),
    ("PartiQLUpdate", TABLE),
    ("PutItem", TABLE),
    ("PutResourcePolicy", TABLE_OR_STREAM),
    ("Query", INDEXED),
    ("RestoreTableFromBackup", &[ResourceKind::Backup, ResourceKind::Table]),
    ("RestoreTableToPointInTime", TABLE),
    ("Scan", INDEXED),
    ("TagResource", TABLE_OR_STREAM),
    ("UntagResource", TABLE_OR_STREAM),
    ("UpdateContinuousBackups", TABLE),
    ("UpdateContributorInsights", INDEXED),
    ("UpdateGlobalTable", GLOBAL_AND_TABLE),
    ("UpdateGlobalTableSettings", GLOBAL_AND_TABLE),
    ("UpdateItem", TABLE),
    ("UpdateKinesisStreamingDestination", TABLE),
    ("UpdateTable", TABLE),
    ("UpdateTableReplicaAutoScaling", TABLE),
    ("UpdateTimeToLive", TABLE),
];
