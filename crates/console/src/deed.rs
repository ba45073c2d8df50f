//! What pages offer to do, as the request that would be sent: so that only what somebody may do is offered, by the decision that is
//! made again when it is done.

use larder::store::ops::{
    CreateBackup, CreateTable, DeleteBackup, DeleteItem, DeleteTable, ExecuteStatement, PutItem, Request,
    RestoreOverrides, RestoreTableFromBackup, RestoreTableToPointInTime, ReturnCapacity, Statement,
    TagResource, UntagResource, UpdateContinuousBackups, UpdateItem, UpdateTable, UpdateTimeToLive,
    WriteOptions,
};
use larder_model::{Item, TableName};

/// Something that changes what is kept. A key is given where it is known.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Deed<'a> {
    Put(&'a TableName),
    Update(&'a TableName, &'a Item),
    Delete(&'a TableName, Option<&'a Item>),
    /// A statement, which may also read.
    Execute(&'a Statement),
    CreateTable(&'a TableName),
    UpdateTable(&'a TableName),
    DeleteTable(&'a TableName),
    TimeToLive(&'a TableName),
    Recovery(&'a TableName),
    Tag(&'a TableName),
    Untag(&'a TableName),
    Backup(&'a TableName),
    RemoveBackup(&'a str),
    /// Into a table of the same name, as far as that is known before one is given.
    Restore(&'a str, &'a TableName),
    RestoreMoment(&'a TableName),
}

impl Deed<'_> {
    pub(crate) fn request(&self) -> Request {
        let options = WriteOptions::default();
        match *self {
            Self::Put(table) => {
                Request::PutItem(PutItem { table: table.clone(), item: Item::new(), options })
            }
            Self::Update(table, key) => {
                let (table, key) = (table.clone(), key.clone());
                Request::UpdateItem(UpdateItem { table, key, update: None, options })
            }
            Self::Delete(table, key) => {
                let (table, key) = (table.clone(), key.cloned().unwrap_or_default());
                Request::DeleteItem(DeleteItem { table, key, options })
            }
            Self::Execute(statement) => Request::ExecuteStatement(Box::new(ExecuteStatement {
                statement: statement.clone(),
                consistent: false,
                limit: None,
                start: None,
                fingerprint: [0; 16],
                return_old_on_failure: false,
                capacity: ReturnCapacity::Total,
            })),
            Self::CreateTable(table) => Request::CreateTable(Box::new(CreateTable {
                table: table.clone(),
                attributes: Vec::new(),
                key: Vec::new(),
                local_indexes: None,
                global_indexes: None,
                billing_mode: None,
                throughput: None,
                on_demand_limits: None,
                stream: None,
                encryption: None,
                class: None,
                deletion_protection: None,
                tags: Vec::new(),
                policy: None,
            })),
            Self::UpdateTable(table) => Request::UpdateTable(Box::new(UpdateTable {
                table: table.clone(),
                attributes: Vec::new(),
                billing_mode: None,
                throughput: None,
                on_demand_limits: None,
                index_changes: None,
                stream: None,
                encryption: None,
                class: None,
                deletion_protection: None,
            })),
            Self::DeleteTable(table) => Request::DeleteTable(DeleteTable { table: table.clone() }),
            Self::TimeToLive(table) => {
                let (table, attribute) = (table.clone(), String::new());
                Request::UpdateTimeToLive(UpdateTimeToLive { table, attribute, enabled: true })
            }
            Self::Recovery(table) => {
                let table = table.clone();
                Request::UpdateContinuousBackups(UpdateContinuousBackups { table, enabled: true, days: None })
            }
            Self::Tag(table) => Request::TagResource(TagResource { table: table.clone(), tags: Vec::new() }),
            Self::Untag(table) => {
                Request::UntagResource(UntagResource { table: table.clone(), keys: Vec::new() })
            }
            Self::Backup(table) => {
                Request::CreateBackup(CreateBackup { table: table.clone(), name: String::new() })
            }
            Self::RemoveBackup(arn) => Request::DeleteBackup(DeleteBackup { arn: arn.to_owned() }),
            Self::Restore(backup, target) => {
                let (backup, target) = (backup.to_owned(), target.clone());
                let overrides = RestoreOverrides::default();
                Request::RestoreTableFromBackup(Box::new(RestoreTableFromBackup {
                    backup,
                    target,
                    overrides,
                }))
            }
            Self::RestoreMoment(table) => {
                let (source, target) = (table.clone(), table.clone());
                let overrides = RestoreOverrides::default();
                let restore = RestoreTableToPointInTime { source, target, at: None, overrides };
                Request::RestoreTableToPointInTime(Box::new(restore))
            }
        }
    }
}
