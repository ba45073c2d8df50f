//! ImportTable, DescribeImport and ListImports.

use larder_engine::ops::{
    DescribeImport, ImportCompression, ImportDescription, ImportFormat, ImportSource, ImportTable,
    ListImports, ListImportsOutput, Request, TaskStatus,
};
use larder_model::{Arn, Billing, IndexDefinition, IndexKind, KeyType, TableDefinition, Throughput};

use crate::constraints::{Constraints, broken};
use crate::json::{Object, Reader, list, object};
use crate::members::request;
use crate::refusal::{Read, Refusal};
use crate::shape;

use super::backups::check_arn;
use super::create_table::NewTable;
use super::exports::{Place, check_token, decode_a_list, put_failure, put_next, put_text, status};
use super::table_description::{
    provisioned, put_encryption, put_key_schema, put_on_demand_limits, put_projection, put_time, uuid,
};

const HEADERS_MAX: usize = 255;

/// CSV's own settings as they were given.
#[derive(Debug, Default)]
struct Csv {
    delimiter: Option<String>,
    header: Option<Vec<String>>,
}

pub(super) fn decode(reader: &mut Reader<'_>) -> Read<Request> {
    let (mut place, mut table, mut csv) = (Place::default(), NewTable::default(), Csv::default());
    let (mut token, mut format, mut compression) = (None, None, None);
    let (mut has_source, mut has_table, mut has_csv) = (false, false, false);
    request(reader, |reader, name| {
        match &*name {
            "ClientToken" => token = shape::owned_text(reader)?,
            "S3BucketSource" => {
                has_source = shape::structure(reader, "S3BucketSource", |reader, member| {
                    match &*member {
                        "S3Bucket" => place.bucket = shape::owned_text(reader)?,
                        "S3BucketOwner" => place.owner = shape::owned_text(reader)?,
                        "S3KeyPrefix" => place.prefix = shape::owned_text(reader)?,
                        _ => drop(reader.skip()?),
                    }
                    Ok(())
                })?;
            }
            "InputFormat" => format = shape::text(reader)?,
            "InputFormatOptions" => {
                shape::structure(reader, "InputFormatOptions", |reader, member| {
                    match &*member {
                        "Csv" => {
                            has_csv = shape::structure(reader, "CsvOptions", |reader, member| {
                                match &*member {
                                    "Delimiter" => csv.delimiter = shape::owned_text(reader)?,
                                    "HeaderList" => csv.header = shape::texts(reader)?,
                                    _ => drop(reader.skip()?),
                                }
                                Ok(())
                            })?;
                        }
                        _ => drop(reader.skip()?),
                    }
                    Ok(())
                })?;
            }
            "InputCompressionType" => compression = shape::text(reader)?,
            "TableCreationParameters" => {
                has_table = shape::structure(reader, "TableCreationParameters", |reader, member| {
                    match &*member {
                        // What an import does not take.
                        "LocalSecondaryIndexes"
                        | "Tags"
                        | "ResourcePolicy"
                        | "StreamSpecification"
                        | "TableClass"
                        | "DeletionProtectionEnabled" => drop(reader.skip()?),
                        member => table.read(reader, member)?,
                    }
                    Ok(())
                })?;
            }
            _ => drop(reader.skip()?),
        }
        Ok(())
    })?;
    let mut constraints = Constraints::default();
    check_token(&mut constraints, token.as_deref());
    match has_source {
        true => place.check(&mut constraints, "s3BucketSource.", "s3KeyPrefix"),
        false => constraints.null("s3BucketSource"),
    }
    constraints.present(&format, "inputFormat");
    constraints.one_of(format.as_deref(), "inputFormat", &["DYNAMODB_JSON", "ION", "CSV"]);
    constraints.one_of(compression.as_deref(), "inputCompressionType", &["GZIP", "ZSTD", "NONE"]);
    if !has_table {
        constraints.null("tableCreationParameters");
    }
    csv.check(&mut constraints);
    constraints.finish()?;
    if has_csv && format.as_deref() != Some("CSV") {
        return Err(Refusal::plain("InputFormatOptions of CSV can only be specified for the format CSV"));
    }
    let format = match format.as_deref() {
        Some("CSV") => ImportFormat::Csv {
            delimiter: csv.delimiter.and_then(|delimiter| delimiter.chars().next()),
            header: csv.header,
        },
        Some("ION") => {
            return Err(Refusal::plain(
                "Imports in the format ION are not supported: use DYNAMODB_JSON or CSV",
            ));
        }
        _ => ImportFormat::DynamoDbJson,
    };
    let compression = match compression.as_deref() {
        Some("GZIP") => ImportCompression::Gzip,
        Some("ZSTD") => {
            return Err(Refusal::plain("Imports packed with ZSTD are not supported: use GZIP or NONE"));
        }
        _ => ImportCompression::None,
    };
    let source = ImportSource { place: place.finish(), format, compression };
    Ok(Request::ImportTable(Box::new(ImportTable { token, source, table: table.finish()? })))
}

impl Csv {
    fn check(&self, constraints: &mut Constraints) {
        let path = "inputFormatOptions.csv";
        if let Some(delimiter) = &self.delimiter {
            let mut letters = delimiter.chars();
            if !matches!((letters.next(), letters.next()), (Some(',' | ';' | ':' | '|' | '\t' | ' '), None)) {
                let rule = r"Member must satisfy regular expression pattern: [,;:|\t ]";
                constraints.broken(delimiter, &format!("{path}.delimiter"), rule);
            }
        }
        let Some(header) = &self.header else { return };
        if header.is_empty() || header.len() > HEADERS_MAX {
            let rule = format!("Member must have length between 1 and {HEADERS_MAX}, both included");
            constraints.broken(&format!("[{}]", header.join(", ")), &format!("{path}.headerList"), &rule);
        }
        let is_name = |name: &&String| {
            !name.is_empty()
                && name.bytes().all(|byte| matches!(byte, b' '..=b'~') && !b"\",".contains(&byte))
        };
        constraints.extend(header.iter().filter(|name| !is_name(name)).map(|name| {
            let rule = r"Member must satisfy regular expression pattern: [\x20-\x21\x23-\x2B\x2D-\x7E]*";
            broken(name, &format!("{path}.headerList"), rule)
        }));
    }
}

pub(super) fn decode_describe(reader: &mut Reader<'_>) -> Read<Request> {
    let mut arn = None;
    request(reader, |reader, name| {
        match &*name {
            "ImportArn" => arn = shape::owned_text(reader)?,
            _ => drop(reader.skip()?),
        }
        Ok(())
    })?;
    let mut constraints = Constraints::default();
    check_arn(&mut constraints, arn.as_deref(), "importArn");
    constraints.finish()?;
    Ok(Request::DescribeImport(DescribeImport { arn: arn.unwrap_or_default() }))
}

pub(super) fn decode_list(reader: &mut Reader<'_>) -> Read<Request> {
    let (table, limit, start) = decode_a_list(reader, "PageSize", "pageSize")?;
    Ok(Request::ListImports(ListImports { table, limit, start }))
}

pub(super) fn encode(out: &mut Vec<u8>, import: &ImportDescription) {
    object(out, |answer| {
        answer.object("ImportTableDescription", |description| put_description(description, import));
    });
}

fn format(import: &ImportDescription) -> &'static str {
    match import.source.format {
        ImportFormat::DynamoDbJson => "DYNAMODB_JSON",
        ImportFormat::Csv { .. } => "CSV",
    }
}

/// What a description and a summary have alike.
fn put_head(head: &mut Object<'_>, import: &ImportDescription) {
    let table = &import.table.name;
    head.string("ImportArn", &Arn::import(table, &import.id).to_string());
    head.string("ImportStatus", status(&import.status));
    head.string("TableArn", &Arn::table(table).to_string());
    head.object("S3BucketSource", |source| {
        let place = &import.source.place;
        put_text(source, "S3BucketOwner", place.owner.as_deref());
        source.string("S3Bucket", &place.bucket);
        put_text(source, "S3KeyPrefix", place.prefix.as_deref());
    });
    head.string("InputFormat", format(import));
    put_time(head, "StartTime", Some(import.started));
    put_time(head, "EndTime", import.ended);
}

fn put_description(description: &mut Object<'_>, import: &ImportDescription) {
    put_head(description, import);
    description.string("TableId", &uuid(import.table_id));
    put_text(description, "ClientToken", import.token.as_deref());
    if let ImportFormat::Csv { delimiter, header } = &import.source.format
        && (delimiter.is_some() || header.is_some())
    {
        description.object("InputFormatOptions", |options| {
            options.object("Csv", |csv| {
                if let Some(delimiter) = delimiter {
                    csv.string("Delimiter", &delimiter.to_string());
                }
                if let Some(header) = header {
                    csv.strings("HeaderList", header.iter().map(String::as_str));
                }
            });
        });
    }
    let compression = match import.source.compression {
        ImportCompression::None => "NONE",
        ImportCompression::Gzip => "GZIP",
    };
    description.string("InputCompressionType", compression);
    description.object("TableCreationParameters", |parameters| put_parameters(parameters, &import.table));
    let counts = import.counts;
    description.integer("ErrorCount", number(counts.errors));
    if import.status != TaskStatus::InProgress {
        description.integer("ProcessedSizeBytes", number(counts.bytes));
        description.integer("ProcessedItemCount", number(counts.processed));
        description.integer("ImportedItemCount", number(counts.imported));
    }
    put_failure(description, &import.status);
}

fn number(count: u64) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

fn put_parameters(parameters: &mut Object<'_>, table: &TableDefinition) {
    parameters.string("TableName", table.name.as_str());
    list(
        parameters.member("AttributeDefinitions"),
        &table.attributes,
        |out, (name, kind): &(String, KeyType)| {
            object(out, |attribute| {
                attribute.string("AttributeName", name);
                attribute.string("AttributeType", kind.name());
            });
        },
    );
    put_key_schema(parameters, &table.key);
    let mode = if table.billing == Billing::OnDemand { "PAY_PER_REQUEST" } else { "PROVISIONED" };
    parameters.string("BillingMode", mode);
    put_units(parameters, provisioned(table.billing));
    put_on_demand_limits(parameters, table.on_demand_limits);
    if table.encryption.is_some() {
        put_encryption(parameters, table);
    }
    let indexes: Vec<&IndexDefinition> =
        table.indexes.iter().filter(|index| index.kind == IndexKind::Global).collect();
    if indexes.is_empty() {
        return;
    }
    list(parameters.member("GlobalSecondaryIndexes"), indexes, |out, index| {
        object(out, |answer| {
            answer.string("IndexName", index.name.as_str());
            put_key_schema(answer, &index.key);
            put_projection(answer, &index.projection);
            put_units(answer, provisioned(table.billing).map(|_| index.throughput));
            put_on_demand_limits(answer, index.on_demand_limits);
        });
    });
}

fn put_units(answer: &mut Object<'_>, throughput: Option<Throughput>) {
    let Some(throughput) = throughput else { return };
    answer.object("ProvisionedThroughput", |units| {
        units.integer("ReadCapacityUnits", throughput.read);
        units.integer("WriteCapacityUnits", throughput.write);
    });
}

pub(super) fn encode_list(out: &mut Vec<u8>, output: &ListImportsOutput) {
    object(out, |answer| {
        list(answer.member("ImportSummaryList"), &output.imports, |out, import| {
            object(out, |summary| put_head(summary, import));
        });
        if let Some(last) = &output.last {
            put_next(answer, last);
        }
    });
}
