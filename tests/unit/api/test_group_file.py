from pathlib import Path

import pytest

from landfall.api.contract import ExitCode
from landfall.api.group_file import expand, load, read
from landfall.cli import main
from landfall.errors import Stalled

GROUP = """
apiVersion: landfall.dev/v1alpha1
kind: ConsumerGroup
metadata: {name: shop}
spec:
  source: {kafka: {bootstrapServers: "${KAFKA}", topicPattern: "^app$"}}
  output: {url: "${OUT:-file:///tmp/out}"}
  tuning: {httpPort: "${PORT:-0}"}
"""


def written(folder: Path, text: str) -> Path:
    path = folder / "group.yaml"
    path.write_text(text)
    return path


def error_of(path: Path) -> str:
    with pytest.raises(Stalled) as refusal:
        load(path, {})
    return str(refusal.value)


def test_variables_are_taken_from_the_environment(tmp_path: Path) -> None:
    group = load(written(tmp_path, GROUP), {"KAFKA": "broker:9092", "PORT": "8081"})

    assert group.spec.source.kafka.bootstrap_servers == "broker:9092"
    assert (group.spec.output.url, group.spec.tuning.http_port) == ("file:///tmp/out", 8081)


def test_the_content_of_a_variable_is_never_read_as_yaml() -> None:
    assert expand({"a": ["x${V}y"]}, {"V": "}: [&"}) == {"a": ["x}: [&y"]}


def test_a_doubled_dollar_is_literal_and_patterns_keep_theirs() -> None:
    assert expand(["$${V}", "^a{2}$", "${V:-}", 3], {}) == ["${V}", "^a{2}$", "", 3]


@pytest.mark.parametrize("flow", ["{bootstrapServers: ${KAFKA}, topics: [a]}", "[a, ${KAFKA}]"])
def test_a_variable_in_a_flow_collection_needs_quotes(tmp_path: Path, flow: str) -> None:
    path = tmp_path / "group.yaml"
    path.write_text(f"spec:\n  source: {flow}\n")

    with pytest.raises(Stalled, match=r'group.yaml:2:.*needs quotes: "\$\{NAME\}"'):
        read(path)

    path.write_text("spec:\n  source: " + flow.replace("${KAFKA}", '"${KAFKA}"'))
    assert "k:1" in str(expand(read(path), {"KAFKA": "k:1"}))


def test_a_variable_that_is_not_set_is_named_with_its_field(tmp_path: Path) -> None:
    path = written(tmp_path, GROUP)

    assert (
        error_of(path)
        == f"{path}: spec.source.kafka.bootstrapServers: environment variable KAFKA is not set"
    )


def test_every_fault_is_reported_with_file_and_field(tmp_path: Path) -> None:
    path = written(tmp_path, GROUP.replace("${KAFKA}", "k:1").replace("tuning", "tunning"))

    assert error_of(path).startswith(f"{path}: spec.tunning: unknown field")


def test_invalid_yaml_is_reported_with_its_line(tmp_path: Path) -> None:
    path = written(tmp_path, "a: [1\nb: 2\n")

    assert error_of(path).startswith(f"{path}:2:")


def test_a_wrong_file_is_a_usage_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["verify", str(tmp_path / "none.yaml")]) == ExitCode.USAGE
    assert "none.yaml: No such file" in capsys.readouterr().err


def test_json_is_read_as_json(tmp_path: Path) -> None:
    path = tmp_path / "group.json"
    source = '{"kafka": {"bootstrapServers": "k:1", "topics": ["a"], "properties": {"x": "\x85"}}}'
    kind = '"apiVersion": "landfall.dev/v1alpha1", "kind": "ConsumerGroup"'
    head = f'{{{kind}, "metadata": {{"name": "shop"}},'
    path.write_text(
        f'{head} "spec": {{"source": {source}, "output": {{"url": "file:///x"}}}}}}', "utf-8"
    )

    assert load(path, {}).spec.source.kafka.properties == {"x": "\x85"}


def test_invalid_json_is_reported_with_its_line(tmp_path: Path) -> None:
    path = tmp_path / "group.json"
    path.write_text('{"a":\n 1,}')

    assert error_of(path).startswith(f"{path}:2:")


def test_a_key_that_is_given_twice_is_refused_with_both_lines(tmp_path: Path) -> None:
    path = written(tmp_path, GROUP + "metadata: {name: other}\n")
    first = GROUP.splitlines().index("metadata: {name: shop}") + 1

    assert error_of(path) == (
        f"{path}:{len(GROUP.splitlines()) + 1}:1: invalid YAML: metadata is in line {first} "
        "already; a key can be given once"
    )


def test_a_key_over_that_of_an_anchor_is_no_second_one(tmp_path: Path) -> None:
    path = written(tmp_path, "a: &a {x: 1, y: 2}\nb: {<<: *a, x: 3}\n")

    assert read(path) == {"a": {"x": 1, "y": 2}, "b": {"x": 3, "y": 2}}


def test_a_name_that_json_has_twice_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "group.json"
    path.write_text('{"a": {"b": 1, "b": 2}}')

    assert error_of(path) == f"{path}: b is given twice in one object"


def test_a_file_of_two_groups_is_refused_and_one_with_separators_is_not(tmp_path: Path) -> None:
    line = len(GROUP.splitlines()) + 3  # a text begins with an empty line

    assert error_of(written(tmp_path, f"{GROUP}---\n{GROUP}")) == (
        f"{tmp_path}/group.yaml:{line}:1: invalid YAML: there are 2 documents, in lines 2 and "
        f"{line}: give each group a file of its own"
    )
    assert read(written(tmp_path, f"---\n{GROUP}---\n")) == read(written(tmp_path, GROUP))


def test_wrong_indentation_is_called_that(tmp_path: Path) -> None:
    path = written(tmp_path, "a:\n    b: 1\n  c: 2\n")

    assert error_of(path).endswith(
        "expected <block end>, but found '<block mapping start>' while parsing a block mapping "
        "that begins in line 1; is the indentation right?"
    )
