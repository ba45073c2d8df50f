//! Items through the SDK: bound expressions as text, and values both ways.
//!
//! A request whose answer is lost may have been carried out, and is told apart from one that never left: the
//! first is [`Error::Unanswered`], the second [`Error::Unreachable`].
//!
//! The SDK sends by itself again what failed. Where that could carry out a write twice, or have it refused because of what it did
//! itself, a lost answer is left to the caller: see [`NotTwice`].

use std::collections::HashMap;

use aws_sdk_dynamodb::config::Builder;
use aws_sdk_dynamodb::error::{ProvideErrorMetadata, SdkError};
use aws_sdk_dynamodb::operation::query::QueryOutput;
use aws_sdk_dynamodb::operation::scan::ScanOutput;
use aws_sdk_dynamodb::primitives::Blob;
use aws_sdk_dynamodb::types as sdk;
use aws_sdk_dynamodb::types::error::{ConditionalCheckFailedException, TransactionCanceledException};
use aws_smithy_runtime_api::client::interceptors::context::InterceptorContext;
use aws_smithy_runtime_api::client::result::ConnectorError;
use aws_smithy_runtime_api::client::retries::classifiers::{ClassifyRetry, RetryAction};
use aws_smithy_types::retry::ErrorKind;
use larder_expr::{Placeholders, Renderer};
use larder_model::{AttributeValue, IndexKind, IndexName, Item, TableName};
use larder_ops::{
    BatchGetItem, BatchGetItemOutput, BatchGetTable, BatchWrite, BatchWriteItem, BatchWriteItemOutput,
    CollectionMetrics, Consumed, DeleteItem, GetItem, GetItemOutput, PageOutput, PutItem, Query, Request,
    Response, ReturnCapacity, ReturnValues, Scan, Select, TransactAction, TransactGetItems,
    TransactGetItemsOutput, TransactWrite, TransactWriteItems, TransactWriteItemsOutput, UpdateItem,
    WriteOptions, WriteOutput,
};

use super::super::items::{NOT_OF_ITEMS, tables};
use super::super::{Cancellation, Error};
use super::{DynamoDb, causes};

/// Keeps the SDK from sending a request again that may have been carried out. What was turned away, or never left, it sends again.
#[derive(Debug)]
struct NotTwice;

impl NotTwice {
    /// Of writes, those that must not be made twice: updates, which build on what is there, and what has a condition, which a write
    /// that was made may itself have changed.
    fn config(options: &WriteOptions) -> Builder {
        match options.condition {
            Some(_) => Self::always(),
            None => Builder::new(),
        }
    }

    fn always() -> Builder {
        Builder::new().retry_classifier(Self)
    }
}

impl ClassifyRetry for NotTwice {
    fn classify_retry(&self, context: &InterceptorContext) -> RetryAction {
        let Some(Err(error)) = context.output_or_error() else { return RetryAction::NoActionIndicated };
        let may_have_happened = match error.as_connector_error() {
            Some(broken) => may_have_left(broken),
            // A store that failed at it may have failed at saying that it was done.
            None if error.is_operation_error() => {
                context.response().is_some_and(|response| response.status().is_server_error())
            }
            None => error.is_timeout_error() || error.is_response_error(),
        };
        if may_have_happened { RetryAction::RetryForbidden } else { RetryAction::NoActionIndicated }
    }

    fn name(&self) -> &'static str {
        "not twice"
    }
}

type SdkItem = HashMap<String, sdk::AttributeValue>;

impl DynamoDb {
    pub(super) async fn item_operation(&self, request: Request) -> Result<Response, Error> {
        let tables = tables(&request);
        match self.send(request).await {
            // The answer does not say which of several tables is missing.
            Err(Error::NoTable { .. }) if tables.len() > 1 => self.missing(tables).await,
            answer => answer,
        }
    }

    async fn send(&self, request: Request) -> Result<Response, Error> {
        Ok(match request {
            Request::GetItem(request) => Response::GetItem(self.get_item(request).await?),
            Request::PutItem(request) => Response::PutItem(self.put_item(request).await?),
            Request::UpdateItem(request) => Response::UpdateItem(self.update_item(request).await?),
            Request::DeleteItem(request) => Response::DeleteItem(self.delete_item(request).await?),
            Request::Query(request) => Response::Query(self.query(request).await?),
            Request::Scan(request) => Response::Scan(self.scan(request).await?),
            Request::BatchGetItem(request) => Response::BatchGetItem(self.batch_get_item(request).await?),
            Request::BatchWriteItem(request) => {
                Response::BatchWriteItem(self.batch_write_item(request).await?)
            }
            Request::TransactGetItems(request) => {
                Response::TransactGetItems(self.transact_get_items(request).await?)
            }
            Request::TransactWriteItems(request) => {
                Response::TransactWriteItems(self.transact_write_items(request).await?)
            }
            _ => return Err(Error::Unsupported(NOT_OF_ITEMS.to_owned())),
        })
    }

    async fn missing(&self, tables: Vec<TableName>) -> Result<Response, Error> {
        let last = tables.last().cloned();
        for table in tables {
            if self.description(&table).await?.is_none() {
                return Err(Error::NoTable { table });
            }
        }
        let table = last.expect("there were several");
        Err(Error::NoTable { table })
    }

    async fn get_item(&self, request: GetItem) -> Result<GetItemOutput, Error> {
        let mut text = Renderer::new();
        let projection = request.projection.as_ref().map(|projection| text.projection(projection));
        let (names, _) = placeholders(text.finish());
        let answer = self.client.get_item().table_name(request.table.as_str());
        let answer = answer
            .set_key(Some(sdk_item(request.key)))
            .set_projection_expression(projection)
            .set_expression_attribute_names(names)
            .consistent_read(request.consistent)
            .set_return_consumed_capacity(capacity(request.capacity));
        let answer = answer.send().await.map_err(|error| self.item_error(error, &request.table))?;
        Ok(GetItemOutput {
            item: self.row(answer.item)?,
            consumed: answer.consumed_capacity.map(|sum| consumed(sum, &request.table)),
        })
    }

    async fn put_item(&self, request: PutItem) -> Result<WriteOutput, Error> {
        let (table, options) = (request.table, request.options);
        let not_twice = NotTwice::config(&options);
        let mut text = Renderer::new();
        let condition = options.condition.as_ref().map(|condition| text.condition(condition));
        let (names, values) = placeholders(text.finish());
        let answer = self.client.put_item().table_name(table.as_str());
        let answer = answer
            .set_item(Some(sdk_item(request.item)))
            .set_condition_expression(condition)
            .set_expression_attribute_names(names)
            .set_expression_attribute_values(values)
            .set_return_values(return_values(options.return_values))
            .set_return_values_on_condition_check_failure(on_failure(options.return_old_on_failure))
            .set_return_consumed_capacity(capacity(options.capacity))
            .set_return_item_collection_metrics(metrics(options.collection_metrics));
        let answer = answer.customize().config_override(not_twice).send().await;
        let answer = answer.map_err(|error| self.item_error(error, &table))?;
        self.written(&table, answer.attributes, answer.consumed_capacity, answer.item_collection_metrics)
    }

    async fn update_item(&self, request: UpdateItem) -> Result<WriteOutput, Error> {
        let (table, options) = (request.table, request.options);
        let mut text = Renderer::new();
        let update = request.update.as_ref().and_then(|update| text.update(update));
        let condition = options.condition.as_ref().map(|condition| text.condition(condition));
        let (names, values) = placeholders(text.finish());
        let answer = self.client.update_item().table_name(table.as_str());
        let answer = answer
            .set_key(Some(sdk_item(request.key)))
            .set_update_expression(update)
            .set_condition_expression(condition)
            .set_expression_attribute_names(names)
            .set_expression_attribute_values(values)
            .set_return_values(return_values(options.return_values))
            .set_return_values_on_condition_check_failure(on_failure(options.return_old_on_failure))
            .set_return_consumed_capacity(capacity(options.capacity))
            .set_return_item_collection_metrics(metrics(options.collection_metrics));
        let answer = answer.customize().config_override(NotTwice::always()).send().await;
        let answer = answer.map_err(|error| self.item_error(error, &table))?;
        self.written(&table, answer.attributes, answer.consumed_capacity, answer.item_collection_metrics)
    }

    async fn delete_item(&self, request: DeleteItem) -> Result<WriteOutput, Error> {
        let (table, options) = (request.table, request.options);
        let not_twice = NotTwice::config(&options);
        let mut text = Renderer::new();
        let condition = options.condition.as_ref().map(|condition| text.condition(condition));
        let (names, values) = placeholders(text.finish());
        let answer = self.client.delete_item().table_name(table.as_str());
        let answer = answer
            .set_key(Some(sdk_item(request.key)))
            .set_condition_expression(condition)
            .set_expression_attribute_names(names)
            .set_expression_attribute_values(values)
            .set_return_values(return_values(options.return_values))
            .set_return_values_on_condition_check_failure(on_failure(options.return_old_on_failure))
            .set_return_consumed_capacity(capacity(options.capacity))
            .set_return_item_collection_metrics(metrics(options.collection_metrics));
        let answer = answer.customize().config_override(not_twice).send().await;
        let answer = answer.map_err(|error| self.item_error(error, &table))?;
        self.written(&table, answer.attributes, answer.consumed_capacity, answer.item_collection_metrics)
    }

    fn written(
        &self,
        table: &TableName,
        attributes: Option<SdkItem>,
        capacity: Option<sdk::ConsumedCapacity>,
        collection: Option<sdk::ItemCollectionMetrics>,
    ) -> Result<WriteOutput, Error> {
        Ok(WriteOutput {
            // An endpoint may show nothing as an empty map.
            attributes: self.row(attributes.filter(|attributes| !attributes.is_empty()))?,
            consumed: capacity.map(|sum| consumed(sum, table)),
            collection_metrics: collection.map(|collection| self.collection(collection)).transpose()?,
        })
    }

    async fn query(&self, request: Query) -> Result<PageOutput, Error> {
        let mut text = Renderer::new();
        let key_condition = text.key_condition(&request.key_condition);
        let filter = request.filter.as_ref().map(|filter| text.condition(filter));
        let projection = request.projection.as_ref().map(|projection| text.projection(projection));
        let (names, values) = placeholders(text.finish());
        let answer = self.client.query().table_name(request.table.as_str());
        let answer = answer
            .set_index_name(request.index.map(|index| index.to_string()))
            .key_condition_expression(key_condition)
            .set_filter_expression(filter)
            .set_projection_expression(projection)
            .set_expression_attribute_names(names)
            .set_expression_attribute_values(values)
            .set_select(request.select.map(select))
            .set_limit(request.limit.map(limit))
            .scan_index_forward(request.forward)
            .set_exclusive_start_key(request.start.map(sdk_item))
            .consistent_read(request.consistent)
            .set_return_consumed_capacity(capacity(request.capacity));
        let answer = answer.send().await.map_err(|error| self.item_error(error, &request.table))?;
        let QueryOutput { items, count, scanned_count, last_evaluated_key, consumed_capacity, .. } = answer;
        let page = (count, scanned_count, last_evaluated_key, consumed_capacity);
        self.page(&request.table, request.select, items, page)
    }

    async fn scan(&self, request: Scan) -> Result<PageOutput, Error> {
        let mut text = Renderer::new();
        let filter = request.filter.as_ref().map(|filter| text.condition(filter));
        let projection = request.projection.as_ref().map(|projection| text.projection(projection));
        let (names, values) = placeholders(text.finish());
        let part = |number: u32| i32::try_from(number).unwrap_or(i32::MAX);
        let answer = self.client.scan().table_name(request.table.as_str());
        let answer = answer
            .set_index_name(request.index.map(|index| index.to_string()))
            .set_filter_expression(filter)
            .set_projection_expression(projection)
            .set_expression_attribute_names(names)
            .set_expression_attribute_values(values)
            .set_select(request.select.map(select))
            .set_limit(request.limit.map(limit))
            .set_segment(request.segment.map(|segment| part(segment.index)))
            .set_total_segments(request.segment.map(|segment| part(segment.total)))
            .set_exclusive_start_key(request.start.map(sdk_item))
            .consistent_read(request.consistent)
            .set_return_consumed_capacity(capacity(request.capacity));
        let answer = answer.send().await.map_err(|error| self.item_error(error, &request.table))?;
        let ScanOutput { items, count, scanned_count, last_evaluated_key, consumed_capacity, .. } = answer;
        let page = (count, scanned_count, last_evaluated_key, consumed_capacity);
        self.page(&request.table, request.select, items, page)
    }

    fn page(
        &self,
        table: &TableName,
        select: Option<Select>,
        items: Option<Vec<SdkItem>>,
        (count, scanned, last, capacity): (i32, i32, Option<SdkItem>, Option<sdk::ConsumedCapacity>),
    ) -> Result<PageOutput, Error> {
        let number = |number: i32| usize::try_from(number).unwrap_or_default();
        let items = items.filter(|_| select != Some(Select::Count));
        Ok(PageOutput {
            items: items.map(|items| self.rows(items)).transpose()?,
            count: number(count),
            scanned: number(scanned),
            last_key: last.filter(|key| !key.is_empty()).map(|key| self.item(key)).transpose()?,
            skipped: Vec::new(),
            consumed: capacity.map(|sum| consumed(sum, table)),
        })
    }

    async fn batch_get_item(&self, request: BatchGetItem) -> Result<BatchGetItemOutput, Error> {
        let mut answer =
            self.client.batch_get_item().set_return_consumed_capacity(capacity(request.capacity));
        for table in &request.tables {
            let mut text = Renderer::new();
            let projection = table.projection.as_ref().map(|projection| text.projection(projection));
            let (names, _) = placeholders(text.finish());
            let keys = sdk::KeysAndAttributes::builder()
                .set_keys(Some(table.keys.iter().cloned().map(sdk_item).collect()))
                .set_projection_expression(projection)
                .set_expression_attribute_names(names)
                .consistent_read(table.consistent)
                .build()
                .map_err(|error| self.unreadable(&error))?;
            answer = answer.request_items(table.table.as_str(), keys);
        }
        let first = request.tables.first().map(|table| table.table.clone());
        let answer = answer.send().await.map_err(|error| self.batch_error(error, first))?;
        let (mut found, mut left) =
            (answer.responses.unwrap_or_default(), answer.unprocessed_keys.unwrap_or_default());
        let (mut responses, mut unprocessed) = (Vec::new(), Vec::new());
        for table in request.tables {
            if let Some(items) = found.remove(table.table.as_str()) {
                responses.push((table.table.clone(), self.rows(items)?));
            }
            if let Some(rest) = left.remove(table.table.as_str()) {
                let keys = rest.keys.into_iter().map(|key| self.item(key)).collect::<Result<_, _>>()?;
                unprocessed.push(BatchGetTable { keys, ..table });
            }
        }
        Ok(BatchGetItemOutput { responses, unprocessed, consumed: all_consumed(answer.consumed_capacity) })
    }

    async fn batch_write_item(&self, request: BatchWriteItem) -> Result<BatchWriteItemOutput, Error> {
        let wrong = |error: aws_sdk_dynamodb::error::BuildError| self.unreadable(&error);
        let mut answer = self
            .client
            .batch_write_item()
            .set_return_consumed_capacity(capacity(request.capacity))
            .set_return_item_collection_metrics(metrics(request.collection_metrics));
        let names: Vec<TableName> = request.tables.iter().map(|(table, _)| table.clone()).collect();
        for (table, writes) in request.tables {
            let mut list = Vec::with_capacity(writes.len());
            for write in writes {
                let builder = sdk::WriteRequest::builder();
                list.push(match write {
                    BatchWrite::Put(item) => {
                        let put = sdk::PutRequest::builder().set_item(Some(sdk_item(item)));
                        builder.put_request(put.build().map_err(wrong)?).build()
                    }
                    BatchWrite::Delete(key) => {
                        let delete = sdk::DeleteRequest::builder().set_key(Some(sdk_item(key)));
                        builder.delete_request(delete.build().map_err(wrong)?).build()
                    }
                });
            }
            answer = answer.request_items(table.as_str(), list);
        }
        let first = names.first().cloned();
        let answer = answer.send().await.map_err(|error| self.batch_error(error, first))?;
        let mut left = answer.unprocessed_items.unwrap_or_default();
        let mut unprocessed = Vec::new();
        for table in names {
            let Some(rest) = left.remove(table.as_str()) else { continue };
            let writes =
                rest.into_iter().filter_map(|write| match (write.put_request, write.delete_request) {
                    (Some(put), _) => Some(self.item(put.item).map(BatchWrite::Put)),
                    (None, Some(delete)) => Some(self.item(delete.key).map(BatchWrite::Delete)),
                    (None, None) => None,
                });
            unprocessed.push((table, writes.collect::<Result<_, _>>()?));
        }
        Ok(BatchWriteItemOutput {
            unprocessed,
            consumed: all_consumed(answer.consumed_capacity),
            collection_metrics: self.collections(answer.item_collection_metrics)?,
        })
    }

    async fn transact_get_items(&self, request: TransactGetItems) -> Result<TransactGetItemsOutput, Error> {
        let wrong = |error: aws_sdk_dynamodb::error::BuildError| self.unreadable(&error);
        let first = request.gets.first().map(|get| get.table.clone());
        let mut answer =
            self.client.transact_get_items().set_return_consumed_capacity(capacity(request.capacity));
        for get in request.gets {
            let mut text = Renderer::new();
            let projection = get.projection.as_ref().map(|projection| text.projection(projection));
            let (names, _) = placeholders(text.finish());
            let get = sdk::Get::builder()
                .table_name(get.table.as_str())
                .set_key(Some(sdk_item(get.key)))
                .set_projection_expression(projection)
                .set_expression_attribute_names(names)
                .build()
                .map_err(wrong)?;
            answer = answer.transact_items(sdk::TransactGetItem::builder().get(get).build());
        }
        let answer = answer.send().await.map_err(|error| self.batch_error(error, first))?;
        let items = answer.responses.unwrap_or_default().into_iter().map(|response| self.row(response.item));
        Ok(TransactGetItemsOutput {
            items: items.collect::<Result<_, _>>()?,
            consumed: all_consumed(answer.consumed_capacity),
        })
    }

    async fn transact_write_items(
        &self,
        request: TransactWriteItems,
    ) -> Result<TransactWriteItemsOutput, Error> {
        let first = request.writes.first().map(|write| write.table.clone());
        let mut answer = self
            .client
            .transact_write_items()
            .set_client_request_token(request.token)
            .set_return_consumed_capacity(capacity(request.capacity))
            .set_return_item_collection_metrics(metrics(request.collection_metrics));
        for write in request.writes {
            answer = answer.transact_items(transact_write(write).map_err(|error| self.unreadable(&error))?);
        }
        let answer = answer.send().await.map_err(|error| self.batch_error(error, first))?;
        Ok(TransactWriteItemsOutput {
            consumed: all_consumed(answer.consumed_capacity),
            collection_metrics: self.collections(answer.item_collection_metrics)?,
        })
    }

    // What the SDK says in ours

    fn row(&self, item: Option<SdkItem>) -> Result<Option<Item>, Error> {
        item.map(|item| self.item(item)).transpose()
    }

    fn rows(&self, items: Vec<SdkItem>) -> Result<Vec<Item>, Error> {
        items.into_iter().map(|item| self.item(item)).collect()
    }

    fn item(&self, item: SdkItem) -> Result<Item, Error> {
        read_item(item)
            .map_err(|cause| Error::Unanswered { place: self.place.clone(), cause: cause.to_owned() })
    }

    fn collection(&self, collection: sdk::ItemCollectionMetrics) -> Result<CollectionMetrics, Error> {
        let range = collection.size_estimate_range_gb.unwrap_or_default();
        let bound = |at: usize| range.get(at).copied().unwrap_or_default();
        Ok(CollectionMetrics {
            key: self.item(collection.item_collection_key.unwrap_or_default())?,
            gigabytes: [bound(0), bound(1)],
        })
    }

    fn collections(
        &self,
        tables: Option<HashMap<String, Vec<sdk::ItemCollectionMetrics>>>,
    ) -> Result<Vec<(TableName, Vec<CollectionMetrics>)>, Error> {
        let known = tables.unwrap_or_default().into_iter();
        let known = known.filter_map(|(name, list)| Some((TableName::new(name).ok()?, list)));
        known
            .map(|(table, list)| {
                let list = list.into_iter().map(|collection| self.collection(collection));
                Ok((table, list.collect::<Result<_, Error>>()?))
            })
            .collect()
    }

    fn batch_error<E>(&self, error: SdkError<E>, first: Option<TableName>) -> Error
    where
        E: ProvideErrorMetadata + std::error::Error + Send + Sync + 'static,
        aws_sdk_dynamodb::Error: From<E>,
    {
        match first {
            Some(table) => self.item_error(error, &table),
            None => self.error(&error),
        }
    }

    fn item_error<E>(&self, error: SdkError<E>, table: &TableName) -> Error
    where
        E: ProvideErrorMetadata + std::error::Error + Send + Sync + 'static,
        aws_sdk_dynamodb::Error: From<E>,
    {
        // An answer without a code is not the store's: it may come from something in between.
        let is_foreign = error.as_service_error().is_some_and(|service| service.code().is_none());
        if is_foreign || may_have_been_sent(&error) {
            return Error::Unanswered { place: self.place.clone(), cause: causes(&error) };
        }
        let other = self.error(&error);
        let SdkError::ServiceError(context) = error else { return other };
        let service = context.into_err();
        let message = service.message().unwrap_or("it was refused without a reason").to_owned();
        match service.code().unwrap_or_default() {
            "ProvisionedThroughputExceededException"
            | "RequestLimitExceeded"
            | "ThrottlingException"
            | "Throttling"
            | "LimitExceededException"
            // A transaction is writing the item, for a moment.
            | "TransactionConflictException" => return Error::Throttled(message),
            "ResourceNotFoundException" | "TableNotFoundException" => {
                return Error::NoTable { table: table.clone() };
            }
            _ => {}
        }
        let read = match service.into() {
            aws_sdk_dynamodb::Error::ConditionalCheckFailedException(failed) => self.condition(failed),
            aws_sdk_dynamodb::Error::TransactionCanceledException(cancelled) => self.cancelled(cancelled),
            _ => Ok(other),
        };
        read.unwrap_or_else(|unreadable| unreadable)
    }

    fn condition(&self, failed: ConditionalCheckFailedException) -> Result<Error, Error> {
        let item = failed.item.map(|item| self.item(item)).transpose()?;
        Ok(Error::Condition { item: item.map(Box::new) })
    }

    fn cancelled(&self, cancelled: TransactionCanceledException) -> Result<Error, Error> {
        let reasons = cancelled.cancellation_reasons.unwrap_or_default().into_iter().map(|reason| {
            Ok(Cancellation {
                code: reason.code.unwrap_or_else(|| "None".to_owned()),
                message: reason.message,
                item: reason.item.map(|item| self.item(item)).transpose()?,
            })
        });
        Ok(Error::Cancelled { reasons: reasons.collect::<Result<_, Error>>()? })
    }
}

/// Whether the store may have got the request, though no answer came.
fn may_have_been_sent<E>(error: &SdkError<E>) -> bool {
    match error {
        SdkError::TimeoutError(_) | SdkError::ResponseError(_) => true,
        SdkError::DispatchFailure(failure) => failure.as_connector_error().is_some_and(may_have_left),
        _ => false,
    }
}

/// Whether a request may have got further than a connection that was never made.
fn may_have_left(error: &ConnectorError) -> bool {
    let broken = error.is_io() || error.is_timeout() || error.as_other() == Some(ErrorKind::TransientError);
    broken && !is_connect(error)
}

fn is_connect(error: &(dyn std::error::Error + 'static)) -> bool {
    std::iter::successors(Some(error), |error| error.source()).any(|cause| {
        let client = cause.downcast_ref::<hyper_util::client::legacy::Error>();
        client.is_some_and(hyper_util::client::legacy::Error::is_connect)
    })
}

fn transact_write(
    write: TransactWrite,
) -> Result<sdk::TransactWriteItem, aws_sdk_dynamodb::error::BuildError> {
    let mut text = Renderer::new();
    let update = match &write.action {
        TransactAction::Update { update, .. } => text.update(update),
        TransactAction::Put { .. } | TransactAction::Delete { .. } | TransactAction::Check { .. } => None,
    };
    let condition = write.condition.as_ref().map(|condition| text.condition(condition));
    let (names, values) = placeholders(text.finish());
    let table = write.table.to_string();
    let on_failure = on_failure(write.return_old_on_failure);
    let builder = sdk::TransactWriteItem::builder();
    let builder = match write.action {
        TransactAction::Put { item } => builder.put(
            sdk::Put::builder()
                .table_name(table)
                .set_item(Some(sdk_item(item)))
                .set_condition_expression(condition)
                .set_expression_attribute_names(names)
                .set_expression_attribute_values(values)
                .set_return_values_on_condition_check_failure(on_failure)
                .build()?,
        ),
        TransactAction::Update { key, .. } => builder.update(
            sdk::Update::builder()
                .table_name(table)
                .set_key(Some(sdk_item(key)))
                .set_update_expression(update)
                .set_condition_expression(condition)
                .set_expression_attribute_names(names)
                .set_expression_attribute_values(values)
                .set_return_values_on_condition_check_failure(on_failure)
                .build()?,
        ),
        TransactAction::Delete { key } => builder.delete(
            sdk::Delete::builder()
                .table_name(table)
                .set_key(Some(sdk_item(key)))
                .set_condition_expression(condition)
                .set_expression_attribute_names(names)
                .set_expression_attribute_values(values)
                .set_return_values_on_condition_check_failure(on_failure)
                .build()?,
        ),
        TransactAction::Check { key } => builder.condition_check(
            sdk::ConditionCheck::builder()
                .table_name(table)
                .set_key(Some(sdk_item(key)))
                .set_condition_expression(condition)
                .set_expression_attribute_names(names)
                .set_expression_attribute_values(values)
                .set_return_values_on_condition_check_failure(on_failure)
                .build()?,
        ),
    };
    Ok(builder.build())
}

fn placeholders(of: Placeholders) -> (Option<HashMap<String, String>>, Option<SdkItem>) {
    let names: HashMap<_, _> = of.names.into_iter().collect();
    let values: SdkItem = of.values.into_iter().map(|(name, value)| (name, sdk_value(value))).collect();
    ((!names.is_empty()).then_some(names), (!values.is_empty()).then_some(values))
}

fn capacity(asked: ReturnCapacity) -> Option<sdk::ReturnConsumedCapacity> {
    match asked {
        ReturnCapacity::None => None,
        ReturnCapacity::Total => Some(sdk::ReturnConsumedCapacity::Total),
        ReturnCapacity::Indexes => Some(sdk::ReturnConsumedCapacity::Indexes),
    }
}

fn return_values(asked: ReturnValues) -> Option<sdk::ReturnValue> {
    match asked {
        ReturnValues::None => None,
        ReturnValues::AllOld => Some(sdk::ReturnValue::AllOld),
        ReturnValues::UpdatedOld => Some(sdk::ReturnValue::UpdatedOld),
        ReturnValues::AllNew => Some(sdk::ReturnValue::AllNew),
        ReturnValues::UpdatedNew => Some(sdk::ReturnValue::UpdatedNew),
    }
}

fn on_failure(return_old: bool) -> Option<sdk::ReturnValuesOnConditionCheckFailure> {
    return_old.then_some(sdk::ReturnValuesOnConditionCheckFailure::AllOld)
}

fn metrics(asked: bool) -> Option<sdk::ReturnItemCollectionMetrics> {
    asked.then_some(sdk::ReturnItemCollectionMetrics::Size)
}

fn select(select: Select) -> sdk::Select {
    match select {
        Select::AllAttributes => sdk::Select::AllAttributes,
        Select::AllProjectedAttributes => sdk::Select::AllProjectedAttributes,
        Select::SpecificAttributes => sdk::Select::SpecificAttributes,
        Select::Count => sdk::Select::Count,
    }
}

fn limit(limit: usize) -> i32 {
    i32::try_from(limit).unwrap_or(i32::MAX)
}

fn consumed(sum: sdk::ConsumedCapacity, asked: &TableName) -> Consumed {
    let table = sum.table_name.and_then(|name| TableName::new(name).ok()).unwrap_or_else(|| asked.clone());
    let units = |part: &sdk::Capacity| part.capacity_units.unwrap_or_default();
    let parts = sum.table.as_ref();
    let mut indexes = Vec::new();
    for (kind, of_kind) in
        [(IndexKind::Local, sum.local_secondary_indexes), (IndexKind::Global, sum.global_secondary_indexes)]
    {
        let known = of_kind.unwrap_or_default().into_iter();
        indexes
            .extend(known.filter_map(|(name, part)| Some((IndexName::new(name).ok()?, kind, units(&part)))));
    }
    Consumed {
        table,
        table_units: parts.map_or_else(|| sum.capacity_units.unwrap_or_default(), units),
        parts: parts.is_some(),
        indexes,
        kind: None,
    }
}

fn all_consumed(sums: Option<Vec<sdk::ConsumedCapacity>>) -> Vec<Consumed> {
    let named = sums.unwrap_or_default().into_iter().filter_map(|sum| {
        let table = TableName::new(sum.table_name.clone()?).ok()?;
        Some(consumed(sum, &table))
    });
    named.collect()
}

fn sdk_item(item: Item) -> SdkItem {
    item.into_iter().map(|(name, value)| (name, sdk_value(value))).collect()
}

pub(crate) fn sdk_value(value: AttributeValue) -> sdk::AttributeValue {
    match value {
        AttributeValue::S(text) => sdk::AttributeValue::S(text),
        AttributeValue::N(number) => sdk::AttributeValue::N(number.to_string()),
        AttributeValue::B(bytes) => sdk::AttributeValue::B(Blob::new(bytes)),
        AttributeValue::Bool(value) => sdk::AttributeValue::Bool(value),
        AttributeValue::Null => sdk::AttributeValue::Null(true),
        AttributeValue::Ss(set) => sdk::AttributeValue::Ss(set.into_iter().collect()),
        AttributeValue::Ns(set) => sdk::AttributeValue::Ns(set.iter().map(ToString::to_string).collect()),
        AttributeValue::Bs(set) => sdk::AttributeValue::Bs(set.into_iter().map(Blob::new).collect()),
        AttributeValue::L(list) => sdk::AttributeValue::L(list.into_iter().map(sdk_value).collect()),
        AttributeValue::M(map) => sdk::AttributeValue::M(sdk_item(map)),
    }
}

/// The value behind one of an SDK. Items and streams have an SDK each, with a type of its own for the same thing.
macro_rules! value_of {
    ($value:expr, $sdk:path, $read:path, $strange:expr) => {{
        use $sdk as Sdk;
        let number = |text: String| text.parse::<larder_model::Number>().map_err(|_| $strange);
        Ok(match $value {
            Sdk::S(text) => larder_model::AttributeValue::S(text),
            Sdk::N(text) => larder_model::AttributeValue::N(number(text)?),
            Sdk::B(bytes) => larder_model::AttributeValue::B(bytes.into_inner()),
            Sdk::Bool(value) => larder_model::AttributeValue::Bool(value),
            Sdk::Null(_) => larder_model::AttributeValue::Null,
            Sdk::Ss(set) => larder_model::AttributeValue::Ss(set.into_iter().collect()),
            Sdk::Ns(set) => {
                larder_model::AttributeValue::Ns(set.into_iter().map(number).collect::<Result<_, _>>()?)
            }
            Sdk::Bs(set) => larder_model::AttributeValue::Bs(
                set.into_iter().map(aws_smithy_types::Blob::into_inner).collect(),
            ),
            Sdk::L(list) => {
                larder_model::AttributeValue::L(list.into_iter().map($read).collect::<Result<_, _>>()?)
            }
            Sdk::M(map) => larder_model::AttributeValue::M(
                map.into_iter()
                    .map(|(name, value)| $read(value).map(|value| (name, value)))
                    .collect::<Result<_, _>>()?,
            ),
            _ => return Err($strange),
        })
    }};
}
pub(crate) use value_of;

pub(crate) fn read_item(item: SdkItem) -> Result<Item, &'static str> {
    let pairs = item.into_iter().map(|(name, value)| Ok((name, read_value(value)?)));
    pairs.collect::<Result<Vec<_>, &'static str>>().map(Item::from_iter)
}

fn read_value(value: sdk::AttributeValue) -> Result<AttributeValue, &'static str> {
    value_of!(value, sdk::AttributeValue, read_value, "it holds a value of a type that is not known")
}
