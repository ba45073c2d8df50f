# The table of the weather team's document.
resource "aws_dynamodb_table" "weather_cache" {
  name         = "weather-forecast-cache-${var.environment}"
  billing_mode = "PAY_PER_REQUEST"
  hash_key     = "cacheKey"

  attribute {
    name = "cacheKey"
    type = "S"
  }

  ttl {
    attribute_name = "ttl"
    enabled        = true
  }

  tags = {
    Name        = "Weather Forecast Cache"
    Environment = var.environment
  }
}
