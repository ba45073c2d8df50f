//! What an action is done to, and its ARN.

use larder_model::{IndexName, TableName};
use larder_ops::StreamId;

/// A region and an account, as ARNs have them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place<'a> {
    pub region: &'a str,
    pub account: &'a str,
}

/// What an action is done to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Resource<'a> {
    /// Actions such as `ListStreams` are about no one resource; only `*` in a policy covers that.
    Any,
    /// What `ListTables` is about.
    EveryTable,
    Table(&'a TableName),
    Index(&'a TableName, &'a IndexName),
    Stream(&'a StreamId),
    /// A backup, an export or an import, as the request's ARN names it.
    Backup(&'a str),
    Export(&'a str),
    Import(&'a str),
}

/// The kinds of resources in policies, by the names of the service authorization reference.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResourceKind {
    Table,
    Index,
    Stream,
    Backup,
    Export,
    Import,
    GlobalTable,
}

impl ResourceKind {
    /// Which kind an ARN names, of whatever account and region.
    pub fn of_arn(arn: &str) -> Option<Self> {
        let parts: Vec<&str> = arn.splitn(6, ':').collect();
        let ["arn", partition, service @ "dynamodb", _, _, resource] = parts.as_slice() else { return None };
        if !partition.starts_with("aws") || service.is_empty() {
            return None;
        }
        let mut steps = resource.splitn(4, '/');
        match (steps.next()?, steps.next(), steps.next(), steps.next()) {
            ("table", Some(_), None, _) => Some(Self::Table),
            ("table", Some(_), Some("index"), Some(_)) => Some(Self::Index),
            ("table", Some(_), Some("stream"), Some(_)) => Some(Self::Stream),
            ("table", Some(_), Some("backup"), Some(_)) => Some(Self::Backup),
            ("table", Some(_), Some("export"), Some(_)) => Some(Self::Export),
            ("table", Some(_), Some("import"), Some(_)) => Some(Self::Import),
            ("global-table", Some(_), None, _) => Some(Self::GlobalTable),
            _ => None,
        }
    }
}

impl Resource<'_> {
    /// Its ARN, where tables whose names do not say where they are, are at `place`.
    pub fn arn(&self, place: Place<'_>) -> String {
        let table = |name: &TableName| {
            let Place { region, account } = place_of(name, place);
            format!("arn:aws:dynamodb:{region}:{account}:table/{name}")
        };
        match self {
            Self::Any => "*".to_owned(),
            Self::EveryTable => format!("arn:aws:dynamodb:{}:{}:table/*", place.region, place.account),
            Self::Table(name) => table(name),
            Self::Index(name, index) => format!("{}/index/{index}", table(name)),
            Self::Stream(stream) => format!("{}/stream/{}", table(&stream.table), stream.label.to_label()),
            Self::Backup(arn) | Self::Export(arn) | Self::Import(arn) => (*arn).to_owned(),
        }
    }

    /// Whose it is.
    pub(crate) fn account<'a>(&'a self, place: Place<'a>) -> &'a str {
        match self {
            Self::Backup(arn) | Self::Export(arn) | Self::Import(arn) => {
                arn.split(':').nth(4).unwrap_or_default()
            }
            Self::Any | Self::EveryTable => place.account,
            Self::Table(name) | Self::Index(name, _) => place_of(name, place).account,
            Self::Stream(stream) => place_of(&stream.table, place).account,
        }
    }

    pub fn kind(&self) -> Option<ResourceKind> {
        match self {
            Self::Any | Self::EveryTable => None,
            Self::Table(_) => Some(ResourceKind::Table),
            Self::Index(..) => Some(ResourceKind::Index),
            Self::Stream(_) => Some(ResourceKind::Stream),
            Self::Backup(_) => Some(ResourceKind::Backup),
            Self::Export(_) => Some(ResourceKind::Export),
            Self::Import(_) => Some(ResourceKind::Import),
        }
    }

    /// The table it is, or is a part of.
    pub(crate) fn table(&self) -> Option<&TableName> {
        match self {
            Self::Table(name) | Self::Index(name, _) => Some(name),
            Self::Any
            | Self::EveryTable
            | Self::Stream(_)
            | Self::Backup(_)
            | Self::Export(_)
            | Self::Import(_) => None,
        }
    }

    /// Where it is: what is about no one resource is the caller's own, and the names of others do not say where unless
    /// that is elsewhere than `unsaid`.
    pub fn place<'a>(&self, own: Place<'a>, unsaid: Place<'a>) -> Place<'a> {
        match self {
            Self::Any | Self::EveryTable => own,
            Self::Table(_)
            | Self::Index(..)
            | Self::Stream(_)
            | Self::Backup(_)
            | Self::Export(_)
            | Self::Import(_) => unsaid,
        }
    }
}

fn place_of<'a>(name: &'a TableName, place: Place<'a>) -> Place<'a> {
    if name.says_place() { Place { region: name.region(), account: name.account() } } else { place }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arns_tell_their_kind() {
        for (rest, expected) in [
            ("table/orders", Some(ResourceKind::Table)),
            ("table/orders/index/by_day", Some(ResourceKind::Index)),
            ("table/orders/stream/2026-10-09T12:34:56.789", Some(ResourceKind::Stream)),
            ("table/orders/backup/01234567890123-abcdefgh", Some(ResourceKind::Backup)),
            ("table/orders/export/01234567890123-abcdefgh", Some(ResourceKind::Export)),
            ("table/orders/import/01234567890123-abcdefgh", Some(ResourceKind::Import)),
            ("table/orders/other/1", None),
            ("table", None),
            ("tables/orders", None),
        ] {
            let arn = format!("arn:aws:dynamodb:us-east-1:123456789012:{rest}");
            assert_eq!(ResourceKind::of_arn(&arn), expected, "{rest}");
        }
        assert_eq!(
            ResourceKind::of_arn("arn:aws:dynamodb::123456789012:global-table/orders"),
            Some(ResourceKind::GlobalTable)
        );
        assert_eq!(ResourceKind::of_arn("arn:aws:s3:::bucket"), None);
        assert_eq!(ResourceKind::of_arn("orders"), None);
    }
}
