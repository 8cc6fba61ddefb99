"""The operator signs for one driver, follows its clock, and falls back on the former key."""

import asyncio
import base64
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from landfall.api.contract import TakeOver, WantExecutors
from landfall.api.verbs import Answer, Outcome
from landfall.driver.http.control import Control, ControlHandler, serve_control
from landfall_operator.runtime import control_port as control
from landfall_operator.runtime.control_port import Bearer, Credentials
from landfall_operator.runtime.driver_client import Command, HttpDriverClient, Unauthorized
from landfall_operator.runtime.kube_client import KINDS, Conflict, RequestRejected
from landfall_operator.runtime.metrics import Metrics, OperatorSnapshot
from landfall_operator.runtime.promotions import HttpPromotionClient
from landfall_operator.runtime.signing_keys import SigningKeys, UnreadableKey
from tests.support.driver.signing import (
    DRIVER,
    NOW,
    Clock,
    check_of,
    control_port,
    new_key,
    public,
    write_keys,
)
from tests.support.operator.fake_api import FakeApi

LOCAL = "127.0.0.1"
SECOND = 1000
Ask = Callable[[aiohttp.ClientSession, control.ControlPort], Awaitable[Any]]


class Driver:
    """A driver's control port; ``received`` has what it carried out."""

    def __init__(self, folder: Path) -> None:
        self.keys, self.clock, self.received = folder / "keys.json", Clock(), list[Any]()
        write_keys(self.keys, new_key())
        check = check_of(self.keys, Clock(0))
        check.clock = self.clock
        token = folder / "token"
        token.write_text("t0ken")
        handler = ControlHandler(
            self.received.append,
            self.received.append,
            lambda: self.received.append("open"),
            lambda request: Answer(Outcome.DONE, message=f"{request.who} in slot 7"),
        )
        self.server = serve_control(Control(token, LOCAL, 0, None, check), handler)

    def ask(self, ask: Ask, *keys: Ed25519PrivateKey, skew: int = 0) -> Any:
        """Ask as an operator with these keys, whose clock is ahead by so many milliseconds."""

        async def run() -> Any:
            async with aiohttp.ClientSession() as session:
                port = control_port(session, *keys, clock=lambda: self.clock.now + skew)
                return await ask(session, port)

        return asyncio.run(run())

    def send(
        self,
        command: Command,
        *keys: Ed25519PrivateKey,
        to: Credentials = DRIVER,
        skew: int = 0,
        times: int = 1,
    ) -> None:
        """Send a command."""

        async def ask(session: aiohttp.ClientSession, port: control.ControlPort) -> None:
            for _ in range(times):
                await HttpDriverClient(session, port, metrics()).send(LOCAL, command, to)

        self.ask(ask, *keys, skew=skew)


def metrics() -> Metrics:
    return Metrics(lambda: OperatorSnapshot(is_leader=True, groups=0, oldest_pass=0))


@pytest.fixture
def driver(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Driver]:
    made = Driver(tmp_path)
    monkeypatch.setattr(control, "CONTROL_PORT", made.server.server_port)
    yield made
    made.server.shutdown()


def test_a_driver_carries_out_what_the_operator_signs(driver: Driver) -> None:
    driver.send(WantExecutors(3))
    driver.send(TakeOver())

    assert driver.received == [3, "open"]


def test_a_promotion_is_signed_too(driver: Driver) -> None:
    async def ask(_: aiohttp.ClientSession, port: control.ControlPort) -> Any:
        return await HttpPromotionClient(port, metrics()).promote(LOCAL, DRIVER, "s", "1")

    answer = driver.ask(ask)
    refused = driver.ask(ask, new_key(2))

    assert (answer.outcome, answer.slot) == ("done", 7)
    assert (refused.outcome, "unknown-key" in refused.message) == ("failed", True)


@pytest.mark.parametrize("skew", [-599, -61, 61, 599])
def test_the_clock_of_a_driver_is_followed(driver: Driver, skew: int) -> None:
    driver.send(WantExecutors(3), skew=skew * SECOND, times=2)

    assert driver.received == [3, 3]


@pytest.mark.parametrize("skew", [-601, 601])
def test_a_clock_that_is_too_far_away_is_named(driver: Driver, skew: int) -> None:
    with pytest.raises(Unauthorized, match=rf"clock: it shows {NOW}, and the operator's"):
        driver.send(WantExecutors(3), skew=skew * SECOND)

    assert driver.received == []


def test_a_forged_clock_yields_one_more_signature_and_no_endless_tries(driver: Driver) -> None:
    driver.clock.now = 0  # it never takes any time
    with pytest.raises(Unauthorized, match="clock"):
        driver.send(WantExecutors(3), skew=NOW)


def test_until_the_new_key_has_arrived_the_former_one_signs(driver: Driver) -> None:
    driver.send(WantExecutors(3), new_key(2), new_key())
    write_keys(driver.keys, new_key(2), new_key())
    driver.send(WantExecutors(4), new_key(2), new_key())
    write_keys(driver.keys, new_key(2))
    driver.send(WantExecutors(5), new_key(2), new_key())

    assert driver.received == [3, 4, 5]


def test_a_key_that_has_not_arrived_is_named_and_works_when_it_has(driver: Driver) -> None:
    with pytest.raises(Unauthorized, match=r"401: unknown-key: .* has not reached it yet"):
        driver.send(WantExecutors(3), new_key(2))

    write_keys(driver.keys, new_key(2))
    driver.send(WantExecutors(3), new_key(2))

    assert driver.received == [3]


def test_a_driver_of_an_earlier_release_gets_its_token_and_no_other_driver_does(
    driver: Driver,
) -> None:
    driver.send(WantExecutors(3), to=Bearer("t0ken"))
    with pytest.raises(Unauthorized, match="neither the operator's signature nor its token"):
        driver.send(WantExecutors(4), to=Bearer("other"))

    assert driver.received == [3]


# --------------------------------------------------------------------------------------------- key

NAMESPACE, NAME = "landfall", "landfall-operator-key"
PATH = KINDS["Secret"].path(NAMESPACE, NAME)


@pytest.fixture
def api() -> FakeApi:
    return FakeApi()


def keys_of(api: FakeApi) -> SigningKeys:
    """The keys as an operator sees them that has just started."""
    made = SigningKeys(api, NAMESPACE, NAME)
    made.load()
    return made


def change(api: FakeApi, **data: str | None) -> None:
    """Change the Secret as somebody with kubectl does; None removes a key."""
    secret = api.objects[PATH]
    changed = {k: v for k, v in {**secret["data"], **data}.items() if v is not None}
    api.store(PATH, {**secret, "data": changed})


def test_the_key_is_made_once_and_read_by_every_operator(api: FakeApi) -> None:
    first, second = keys_of(api), keys_of(api)

    assert first.public == second.public
    assert len(first.public) == 1
    assert [request.verb for request in api.requests] == ["get", "apply", "get"]
    assert b"PRIVATE KEY" in base64.b64decode(api.objects[PATH]["data"]["current"])


def test_a_current_key_that_was_moved_away_is_followed_by_a_new_one(api: FakeApi) -> None:
    keys = keys_of(api)
    (old,) = keys.public
    change(api, previous=api.objects[PATH]["data"]["current"], current=None)

    keys.load()

    new, previous = keys.public
    assert (previous, new != old) == (old, True)
    assert keys_of(api).public == (new, old)
    change(api, previous=None)
    keys.load()
    assert keys.public == (new,)


def test_of_two_operators_that_add_a_key_one_wins(api: FakeApi) -> None:
    keys = keys_of(api)
    change(api, current=None)

    def somebody_else(request: Any) -> None:
        if request.verb == "patch":
            api.before = lambda _: None
            change(api, current=pem_of(new_key()))

    api.before = somebody_else
    with pytest.raises(Conflict):
        keys.load()
    keys.load()

    assert keys.public == (public(new_key()),)


def test_a_deleted_secret_is_a_new_key_and_nothing_of_the_old_one_is_trusted(api: FakeApi) -> None:
    keys = keys_of(api)
    before = keys.public
    del api.objects[PATH]

    keys.load()

    assert len(keys.public) == 1
    assert keys.public != before


@pytest.mark.parametrize("data", ["", "%", "aHVzaA==", None])
def test_what_is_no_key_is_named_and_stays(api: FakeApi, data: str | None) -> None:
    rsa = base64.b64encode(b"-----BEGIN PRIVATE KEY-----\nMIIB\n-----END PRIVATE KEY-----\n")
    keys = keys_of(api)
    before = keys.public
    change(api, previous=rsa.decode() if data is None else data)

    if data == "":
        keys.load()  # an empty one is none
    else:
        with pytest.raises(UnreadableKey, match=f"{NAMESPACE}/{NAME}: previous is not an Ed25519"):
            keys.load()

    assert keys.public == before
    assert not any(request.verb == "patch" for request in api.requests)


def test_without_the_right_the_operator_says_which_request_was_refused(api: FakeApi) -> None:
    def refuse(request: Any) -> None:
        raise RequestRejected(f"{request.verb} {request.path}: 403 forbidden", 403)

    api.before = refuse

    with pytest.raises(RequestRejected, match=NAME):
        keys_of(api)


def test_the_private_key_is_in_no_log_and_no_text(
    api: FakeApi, caplog: pytest.LogCaptureFixture
) -> None:
    with at_debug(caplog):
        keys = keys_of(api)
        change(api, current=pem_of(new_key()))
        keys.load()

    assert pem_of(new_key()) not in caplog.text + repr(keys.keys)
    assert (b"\x01" * 32).hex() not in caplog.text + repr(keys.keys)


@contextmanager
def at_debug(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    with caplog.at_level("DEBUG"):
        yield


def pem_of(key: Ed25519PrivateKey) -> str:
    pem = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    return base64.b64encode(pem).decode()
