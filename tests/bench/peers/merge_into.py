"""Merges batches of changes into an Iceberg table by Spark's MERGE INTO; ``engines`` run it.

``python merge_into.py JARS INPUT ROOT MODE``: each file of ``INPUT`` is one batch, as a streaming
query would hand it to ``foreachBatch``. The newest change of each key is merged. Prints a list of
how long each batch took, in seconds. It imports nothing of Landfall.
"""

import json
import sys
import time
from pathlib import Path

from pyspark.sql import SparkSession

JARS, INPUT, ROOT, MODE = sys.argv[1:]
SETTINGS = {
    "spark.jars": ",".join(map(str, Path(JARS).glob("*.jar"))),
    "spark.sql.extensions": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
    "spark.sql.catalog.lake": "org.apache.iceberg.spark.SparkCatalog",
    "spark.sql.catalog.lake.type": "hadoop",
    "spark.sql.catalog.lake.warehouse": f"file://{ROOT}/warehouse",
    "spark.sql.shuffle.partitions": "2",
    "spark.ui.enabled": "false",
    "spark.driver.memory": "3g",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
}
MERGE = """
merge into lake.db.clicks t using (
  select id, name, amount, removed from (
    select *, row_number() over (partition by id order by _offset desc) newest from changes
  ) where newest = 1
) s on t.id = s.id
when matched and s.removed then delete
when matched then update set name = s.name, amount = s.amount
when not matched and not s.removed then insert (id, name, amount) values (s.id, s.name, s.amount)
"""

builder = SparkSession.builder.master("local[2]")
for name, value in SETTINGS.items():
    builder = builder.config(name, value)
spark = builder.getOrCreate()
spark.sparkContext.setLogLevel("ERROR")
modes = ", ".join(f"'write.{what}.mode' = '{MODE}'" for what in ("merge", "update", "delete"))
spark.sql(
    "create table lake.db.clicks (id bigint, name string, amount bigint) using iceberg "
    f"tblproperties ('format-version' = '2', {modes})"
)
took = []
for file in sorted(Path(INPUT).glob("*.parquet")):
    began = time.monotonic()
    spark.read.parquet(str(file)).createOrReplaceTempView("changes")
    spark.sql(MERGE)
    took.append(time.monotonic() - began)
print(json.dumps(took))
spark.stop()
