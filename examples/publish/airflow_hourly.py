"""A DAG that runs once for each hour of orders that is complete.

Landfall's publisher of the type ``Airflow`` makes an event of the asset for each finished hour,
with the hour as its partition key. Airflow 3.2 or newer.
"""

from airflow.sdk import DAG, Asset, PartitionedAssetTimetable, task

# What ``output.url`` of the group and its topic are: the asset of a publisher without ``asset``.
orders = Asset("s3://logs/parsed/orders")

with DAG("orders_hourly", schedule=PartitionedAssetTimetable(assets=orders), catchup=False):

    @task
    def count(dag_run=None) -> None:  # noqa: ANN001  # given by Airflow
        """Say which hour is complete; a real task reads its folder."""
        date, _, hour = dag_run.partition_key.partition("T")
        print(f"complete: {orders.uri}/dt={date}/hr={hour[:2]}")  # noqa: T201

    count()
