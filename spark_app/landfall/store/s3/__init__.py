"""The store in an S3 bucket, or in one of an S3-compatible server."""
