"""Which files of tests belong to a feature: ``make test FEATURE=backfill``.

A file belongs to a feature if one of the feature's words is in its path below ``tests``.
"""

import sys
from pathlib import Path

TESTS = Path(__file__).parent

FEATURES = {
    "api": ("unit/api", "values_properties", "resource", "wrong_specs"),
    "audit": ("audit",),
    "backfill": ("backfill", "promot", "side_", "replay", "replac", "landed_again", "one_answer"),
    "chaos": ("chaos", "kills"),
    "chart": ("chart", "alerts", "dashboard", "rights"),
    "command-line": (
        *("unit/cli", "command_line", "test_check.", "test_init.", "verbs", "tutorial"),
    ),
    "compaction": ("compact", "merg", "replac", "retir", "undo", "row_group"),
    "console": ("console", "unit/driver/test_http"),
    "dead-letters": ("dead_letters", "letters", "expir", "bad_", "hostile_records", "faults"),
    "decoders": (
        *("decoders", "unit/pipeline/test_", "fuzz", "avro", "thrift", "protobuf", "typed"),
        *("csv", "half_pairs", "chosen_rows", "envelope"),
    ),
    "dev": (
        *("unit/dev", "test_purity", "test_servers.", "fault_proxy", "test_demo", "times"),
        "class_names",
        "loop_variables",
    ),
    "docs": (
        *("test_docs", "example", "start_pages", "tutorial", "repository", "coming_from"),
        "stale_sentences",
        "cdc",
    ),
    "driver": ("unit/driver", "kills", "service", "servers_away", "rotated", "model/", "sim/"),
    "events": ("file_events", "event_"),
    "files": ("file", "discover", "feed", "inventory", "part_lists"),
    "formats": (
        "formats",
        "row_group",
        "typed_files",
        "hadoop_reads",
        "sequence",
        "native_writing",
    ),
    "handover": ("handover", "fenced", "membership", "peers", "lane"),
    "horizons": ("horizon", "closed_ranges", "finaliz", "closing", "finished"),
    "kafka": (
        "kafka",
        "unit/source",
        "test_reader",
        "client_certificates",
        "offsets",
        "topics",
        "broker",
        "truncated_log",
        "leaderless",
        "transaction",
    ),
    "leases": ("leas",),
    "landing": (
        "unit/task",
        "landing",
        "route",
        "layout",
        "payloads",
        "every_way",
        "_alone",
        "plan",
        "test_cells",
    ),
    "ledger": ("ledger", "fsck", "segment", "checks", "crash", "unit/test_plan"),
    "lost-records": ("lost", "losing", "truncated_log"),
    "migration": ("migrate", "secor", "coming_from", "flume", "hourly_etl"),
    "operator": ("operator", "resource", "e2e", "kube", "kstatus", "control_plane"),
    "publishers": ("publish", "catalogs", "tables", "hive", "bigquery", "airflow"),
    "readers": (
        *("reading", "readers", "landed", "scan", "hadoop_reads", "what_counts"),
        "test_tail",
        "objects/test_sql",
    ),
    "schedules": ("schedul", "clock", "short_lives", "hourly"),
    "schemas": ("schema",),
    "security": (
        "dockerfile",
        "sbom",
        "trimmed_spark",
        "admission",
        "personal_data",
        "unit/test_network",
        "memory_limit",
        "unit/test_distribution",
        "unit/test_errors",
        "unit/test_log",
        "hostile",
        "secret",
        "rights",
        "secured",
        "names_in_a_bucket",
        "controls",
        "sign",
    ),
    "speed": ("hot_paths", "bench", "native", "fold_speed"),
    "stores": ("store", "slots", "uploads", "roots", "s3", "gcs", "azure", "hdfs", "probe"),
    "transforms": ("transforms", "unit/test_registry", "plugins"),
}


def files(feature: str) -> list[str]:
    """Return the files of a feature's tests, relative to the folder above ``tests``, sorted.

    Raises:
        KeyError: there is no such feature.
    """
    words = FEATURES[feature]
    paths = sorted(path.relative_to(TESTS).as_posix() for path in TESTS.rglob("test_*.py"))
    return [f"tests/{path}" for path in paths if any(word in path for word in words)]


def main() -> None:
    """Print the files of one feature, or end with the names of all."""
    asked = sys.argv[1]
    if asked not in FEATURES:
        sys.exit(f"no feature {asked!r}; there are {', '.join(FEATURES)}")
    print(" ".join(files(asked)))


if __name__ == "__main__":
    main()
