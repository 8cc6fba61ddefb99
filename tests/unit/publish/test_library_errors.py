"""Which errors of a library are tried again, and when somebody has to act."""

import sqlite3
import ssl

import pytest
import requests
from botocore.exceptions import ClientError, EndpointConnectionError
from botocore.exceptions import ReadTimeoutError as BotoTimeout
from deltalake.exceptions import CommitFailedError, DeltaError
from pyiceberg.exceptions import (
    CommitFailedException,
    CommitStateUnknownException,
    RESTError,
    ServerError,
)
from sqlalchemy.exc import OperationalError

from landfall.errors import DestinationAway, DestinationDenied, LandfallError, Reason, Stalled
from landfall.publish.library_errors import REPEATS, LibraryErrors, is_denied, is_passing

LOCKED = sqlite3.OperationalError("database is locked")


def http_error(status: int) -> requests.HTTPError:
    response = requests.Response()
    response.status_code = status
    return requests.HTTPError(f"{status} from the catalog", response=response)


def from_aws(status: int) -> ClientError:
    answer = {"Error": {"Code": "X"}, "ResponseMetadata": {"HTTPStatusCode": status}}
    return ClientError(answer, "GetTable")  # type: ignore[arg-type]  # the parts that count


def raised_from(error: Exception, cause: Exception) -> Exception:
    error.__cause__ = cause
    return error


@pytest.mark.parametrize(
    "error",
    [
        ConnectionResetError(104, "Connection reset by peer"),
        TimeoutError("read"),
        requests.ConnectionError("refused"),
        requests.ReadTimeout("60 s"),
        http_error(503),
        http_error(429),
        EndpointConnectionError(endpoint_url="http://glue"),
        BotoTimeout(endpoint_url="http://glue"),
        from_aws(500),
        CommitFailedException("the table changed"),
        CommitStateUnknownException("502"),
        ServerError("500"),
        CommitFailedError("version 3 exists"),
        OperationalError("select 1", {}, LOCKED),
        OSError("When reading: AWS Error NETWORK_CONNECTION during GetObject operation"),
        DeltaError("Generic S3 error: error sending request for url (http://s3/lake)"),
        raised_from(ValueError("no answer"), requests.ConnectionError("refused")),
    ],
    ids=lambda error: type(error).__name__,
)
def test_network_servers_and_lost_races_pass(error: Exception) -> None:
    errors = LibraryErrors()

    found = [errors.translate("append", error, str(error)) for _ in range(REPEATS + 1)]

    assert {type(each) for each in found} == {DestinationAway}


@pytest.mark.parametrize(
    "error",
    [
        ValueError("Cannot write manifest for table version: 3"),
        DeltaError("Schema error: Duplicate field name (case-insensitive): 'userid'"),
        requests.exceptions.SSLError("certificate verify failed"),
        raised_from(ConnectionError("x"), ssl.SSLCertVerificationError("self-signed")),
        raised_from(RESTError("404"), http_error(404)),
        FileNotFoundError("metadata/00003.json"),
        KeyError("schemas"),
        from_aws(400),
    ],
    ids=lambda error: type(error).__name__,
)
def test_an_error_that_is_not_known_to_pass_is_a_conflict_when_it_repeats(
    error: Exception,
) -> None:
    errors = LibraryErrors()

    *first, last = [errors.translate("append", error, str(error)) for _ in range(REPEATS)]

    assert {type(each) for each in first} == {DestinationAway}
    assert isinstance(last, Stalled)
    assert last.reason is Reason.DESTINATION_CONFLICT
    assert str(last) == f"{error} (the same error at least {REPEATS} times in a row)"


def repeated(*texts: str) -> LandfallError:
    errors = LibraryErrors()
    return [errors.translate("append", ValueError(text), text) for text in texts][-1]


def test_only_the_same_error_repeats_whatever_numbers_and_ids_are_in_it() -> None:
    ids = [f"manifest {number}-{number:032x} is odd" for number in range(REPEATS)]

    assert isinstance(repeated(*ids), Stalled)
    assert isinstance(
        repeated(*["a"] * (REPEATS - 1), "b", *["a"] * (REPEATS - 1)), DestinationAway
    )


def test_a_success_forgets_what_failed_and_other_attempts_do_not_count() -> None:
    errors, odd = LibraryErrors(), ValueError("odd")
    for _ in range(REPEATS - 1):
        errors.translate("append to a", odd, "odd")

    other = errors.translate("append to b", odd, "odd")
    errors.succeeded("append to b")
    errors.succeeded("append to a")
    after = errors.translate("append to a", odd, "odd")

    assert (type(other), type(after)) == (DestinationAway, DestinationAway)


@pytest.mark.parametrize("error", [PermissionError("no"), from_aws(403), http_error(401)])
def test_what_is_refused_for_its_credentials_is_denied(error: Exception) -> None:
    assert is_denied(error)
    assert not is_passing(error)
    assert isinstance(LibraryErrors().translate("append", error, "no"), DestinationDenied)
