"""Errors that the auditor raises on purpose, by what is to be done. Pure.

``AuditRetry``    a temporary failure: the same audit may succeed later.
``AuditStalled``  a user must act first; ``reason`` names the cause.
"""

from enum import StrEnum


class AuditReason(StrEnum):
    """Reason why an audit cannot continue; the values match the group's conditions."""

    SPEC_INVALID = "SpecInvalid"
    STORE_UNSAFE = "StoreUnsafe"
    STORE_DENIED = "StoreDenied"
    DATA_LOSS = "DataLoss"


class AuditError(Exception):
    """Base of every error that the auditor raises on purpose."""


class AuditRetry(AuditError):  # noqa: N818  # the name is the advice
    """The store or Kafka does not answer, or not as it should."""


class AuditStoreDenied(AuditRetry):
    """The store refuses: credentials, permissions, the bucket, or the request itself."""


class AuditStalled(AuditError):  # noqa: N818  # the name is the state
    """Auditing again cannot help until someone acts."""

    def __init__(self, reason: AuditReason, message: str) -> None:
        """Keep ``reason`` apart from the text."""
        super().__init__(message)
        self.reason = reason
