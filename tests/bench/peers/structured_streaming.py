"""Plain Spark Structured Streaming from a Kafka topic to S3, as its users write it.

The whole-run benchmark compares Landfall with it. It has the Kafka source, the date of each payload
by Spark SQL, the text file sink partitioned by date, a checkpoint beside the output, and the
``availableNow`` trigger, which lands what the topic holds at the start and then stops. It runs in a
virtual environment of its own (see ``spark_install``), so it imports only PySpark.
"""

import argparse

from pyspark.sql import SparkSession
from pyspark.sql.functions import col, get_json_object, timestamp_millis, to_date


def main() -> None:
    """Land the topic, then return."""
    parser = argparse.ArgumentParser()
    for name in ("bootstrap", "topic", "endpoint", "output", "checkpoint"):
        parser.add_argument(f"--{name}", required=True)
    parser.add_argument(
        "--jars",
        required=True,
        help="comma-separated paths: the Kafka connector, S3A, what they need",
    )
    parser.add_argument(
        "--conf", action="append", default=[], metavar="KEY=VALUE", help="a setting of Spark"
    )
    options = parser.parse_args()
    spark = _session(options)
    text = col("value").cast("string")
    time = timestamp_millis(get_json_object(text, "$.ts").cast("long"))
    (
        spark.readStream.format("kafka")
        .option("kafka.bootstrap.servers", options.bootstrap)
        .option("subscribe", options.topic)
        .option("startingOffsets", "earliest")
        .load()
        .select(text.alias("value"), to_date(time).alias("dt"))
        .writeStream.format("text")
        .partitionBy("dt")
        .option("path", options.output)
        .option("checkpointLocation", options.checkpoint)
        .option("compression", "gzip")
        .trigger(availableNow=True)
        .start()
        .awaitTermination()
    )
    spark.stop()


def _session(options: argparse.Namespace) -> SparkSession:
    settings = {
        "spark.jars": options.jars,
        "spark.ui.enabled": "false",
        "spark.sql.session.timeZone": "UTC",
        "spark.hadoop.fs.s3a.endpoint": options.endpoint,
        "spark.hadoop.fs.s3a.endpoint.region": "us-east-1",
        "spark.hadoop.fs.s3a.path.style.access": "true",
        "spark.hadoop.fs.s3a.connection.ssl.enabled": "false",
        **dict(setting.split("=", 1) for setting in options.conf),
    }
    builder = SparkSession.builder.appName("structured-streaming").master("local[2]")
    return builder.config(map=settings).getOrCreate()


if __name__ == "__main__":
    main()
