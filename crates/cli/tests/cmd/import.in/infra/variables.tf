variable "environment" {
  default = "dev"
}
