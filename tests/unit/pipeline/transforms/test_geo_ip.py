"""``GeoIp``: what a file that another library has written knows of an address."""

import json
from hashlib import sha256
from pathlib import Path

import pytest
from mmdb_writer import MMDBWriter
from netaddr import IPSet

from landfall.errors import Stalled
from landfall.pipeline.pinned import PinnedFile, pinned_files
from landfall.pipeline.transforms import geo_ip
from tests.support.driver.transformed import Group, payloads, spec_error

VALUES = ["country.iso_code=country", "location.lat=lat:Float64", "asn=asn:Int64"]
BONN = {"country": {"iso_code": "DE"}, "location": {"lat": 50.7}, "asn": 64500}
WIEN = {"country": {"iso_code": "AT"}, "location": {"lat": 48}, "asn": "64501"}


@pytest.fixture(scope="module")
def options(tmp_path_factory: pytest.TempPathFactory) -> dict[str, object]:
    path = tmp_path_factory.mktemp("geo") / "city.mmdb"
    writer = MMDBWriter(ip_version=6, ipv4_compatible=True, database_type="Test")
    writer.insert_network(IPSet(["192.0.2.0/24"]), BONN)
    writer.insert_network(IPSet(["2001:db8::/32"]), WIEN)
    writer.to_db_file(str(path))
    digest = sha256(path.read_bytes()).hexdigest()
    return {"file": str(path), "sha256": digest, "ip": "ip", "values": VALUES}


ROWS = [
    {"ip": "192.0.2.7"},
    {"ip": "2001:db8::1"},
    {"ip": "198.51.100.1"},
    {"ip": "not an address"},
    {"ip": None},
]


def test_columns_get_what_is_known(options: dict[str, object]) -> None:
    group = Group([{"use": "GeoIp", "options": options}], {"ip": "String"})

    columns = group.apply(*ROWS).columns

    assert columns is not None
    nothing = {"country": None, "lat": None, "asn": None}
    assert columns.to_pylist() == [
        {"ip": "192.0.2.7", "country": "DE", "lat": 50.7, "asn": 64500},
        {"ip": "2001:db8::1", "country": "AT", "lat": 48.0, "asn": None},
        *({**row, **nothing} for row in ROWS[2:]),
    ]


def test_payloads_get_what_is_known(options: dict[str, object]) -> None:
    got = Group([{"use": "GeoIp", "options": options}]).apply(*ROWS, {"ip": 7}, {}, None)

    assert [each and json.loads(each) for each in payloads(got)] == [
        {"ip": "192.0.2.7", "country": "DE", "lat": 50.7, "asn": 64500},
        {"ip": "2001:db8::1", "country": "AT", "lat": 48.0},
        *ROWS[2:],
        {"ip": 7},
        {},
        None,
    ]


def test_a_route_uses_the_country_and_the_file_is_pinned(options: dict[str, object]) -> None:
    step = {"use": "GeoIp", "options": options}
    for columns in (None, {"ip": "String"}):
        group = Group([step], columns, {"route__pattern": "c={field:country}"})

        assert [name for name, _ in group.partition(ROWS[0]).outputs] == ["c=DE"]
        assert pinned_files(group.pipeline().transforms) == (
            PinnedFile(str(options["file"]), str(options["sha256"])),
        )


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"values": []}, "options.values: name at least one"),
        ({"values": ["asn"]}, "options.values: expected path=name or path=name:Type"),
        ({"values": ["asn=asn:Int8"]}, "options.values: expected path=name or path=name:Type"),
        ({"values": ["asn=x", "asn=x"]}, "options.values: name at least one, and none twice"),
        ({"values": ["asn=ip"]}, "options.values: there is a column ip already"),
        ({"ip": "n"}, "options.ip: column n is int64"),
        ({"sha256": "0" * 64}, "options.sha256: "),
    ],
)
def test_what_does_not_fit_is_refused(
    options: dict[str, object], change: dict[str, object], message: str
) -> None:
    error = spec_error("GeoIp", {**options, **change}, {"ip": "String", "n": "Int64"})

    assert message in error


def test_a_file_that_is_none_is_refused(tmp_path: Path) -> None:
    for data in (b"", b"no database", b"\xab\xcd\xefMaxMind.com"):
        path = tmp_path / "x.mmdb"
        path.write_bytes(data)
        options = {"file": str(path), "sha256": sha256(data).hexdigest(), "ip": "ip"}
        with pytest.raises(Stalled, match=r"options.file: "):
            Group([{"use": "GeoIp", "options": {**options, "values": VALUES}}]).pipeline()


def test_without_the_library_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(geo_ip, "maxminddb", None)

    assert "extra geoip" in spec_error("GeoIp", {})
