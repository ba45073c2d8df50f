locals {
  prefix = "shop-${var.env}"
}

resource "aws_dynamodb_table" "orders" {
  name           = "${local.prefix}-orders"
  billing_mode   = var.env == "prod" ? "PAY_PER_REQUEST" : "PROVISIONED"
  read_capacity  = 3
  write_capacity = 2
  hash_key       = "CustomerId"
  range_key      = "OrderId"
  table_class    = "STANDARD_INFREQUENT_ACCESS"

  attribute {
    name = "CustomerId"
    type = "S"
  }
  attribute {
    name = "OrderId"
    type = "N"
  }
  attribute {
    name = "Status"
    type = "S"
  }

  global_secondary_index {
    name               = "status-index"
    hash_key           = "Status"
    range_key          = "OrderId"
    projection_type    = "INCLUDE"
    non_key_attributes = ["Total"]
    read_capacity      = 1
    write_capacity     = 1
  }

  local_secondary_index {
    name            = "by-status"
    range_key       = "Status"
    projection_type = "KEYS_ONLY"
  }

  dynamic "replica" {
    for_each = var.regions
    content { region_name = replica.value }
  }

  server_side_encryption {
    enabled     = true
    kms_key_arn = aws_kms_key.orders.arn
  }

  stream_enabled   = true
  stream_view_type = "NEW_AND_OLD_IMAGES"

  lifecycle {
    prevent_destroy = true
  }

  tags = merge(local.tags, { Name = "Orders", "cost:center" = "7" })
}

resource "aws_dynamodb_table" "made_up" {
  name     = random_pet.table.id
  hash_key = "id"
  attribute {
    name = "id"
    type = "B"
  }
}

resource "aws_dynamodb_table_item" "seed" {
  table_name = aws_dynamodb_table.orders.name
  hash_key   = "CustomerId"
  item       = "{}"
}
