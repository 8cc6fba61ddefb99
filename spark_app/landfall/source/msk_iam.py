"""Tokens for Amazon MSK's IAM: a signed URL of the action ``kafka-cluster:Connect``, in base64.

``oauth_cb: landfall.source.msk_iam:token`` among a group's Kafka properties uses it, as the guide
"Log in to Kafka" describes. boto3 finds the credentials, so they are the pod role's.
"""

import base64
import os
from datetime import UTC, datetime

from botocore.auth import SigV4QueryAuth
from botocore.awsrequest import AWSRequest
from botocore.session import Session

_SECONDS = 900
"""MSK accepts tokens of at most this age."""


def token(config: str) -> tuple[str, float]:
    """Return a token, and when it expires, in seconds since 1970.

    Args:
        config: ``sasl.oauthbearer.config``, ``region=eu-central-1``; if empty, ``AWS_REGION``.

    Raises:
        ValueError: no region, or no credentials; librdkafka reports it.
    """
    name, _, region = config.partition("=")
    region = region.strip() if name.strip() == "region" else os.environ.get("AWS_REGION", "")
    if not region:
        raise ValueError("sasl.oauthbearer.config: expected region=…, and AWS_REGION is not set")
    credentials = Session().get_credentials()
    if credentials is None:
        raise ValueError("no AWS credentials")
    signer = SigV4QueryAuth(
        credentials.get_frozen_credentials(), "kafka-cluster", region, expires=_SECONDS
    )
    url = f"https://kafka.{region}.amazonaws.com/"
    request = AWSRequest("GET", url, params={"Action": "kafka-cluster:Connect"})
    signed = datetime.now(UTC).timestamp()
    signer.add_auth(request)
    # Not signed, as in Amazon's own signers.
    request.params = {"User-Agent": "landfall"}
    encoded = base64.urlsafe_b64encode(str(request.prepare().url).encode())
    return encoded.decode().rstrip("="), signed + _SECONDS
