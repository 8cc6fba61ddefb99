"""Brokers with a certificate of their own CA that require a password, or a client's certificate."""

from dataclasses import replace
from functools import partial
from pathlib import Path

from dev.servers import cache
from dev.servers.kafka import KAFKA
from dev.servers.server import ServerKind

USER, PASSWORD = "lander", "open-sesame-7"
ADMIN = "admin-of-the-broker"
"""The password of the user ``admin``, whom no ACL concerns."""

_PROPERTIES = """\
listeners=SASL_SSL://{host}:{port},CONTROLLER://{host}:{controller_port}
advertised.listeners=SASL_SSL://{host}:{port}
listener.security.protocol.map=SASL_SSL:SASL_SSL,CONTROLLER:PLAINTEXT
security.inter.broker.protocol=SASL_SSL
sasl.mechanism.inter.broker.protocol=PLAIN
sasl.enabled.mechanisms=PLAIN,SCRAM-SHA-512,OAUTHBEARER
listener.name.sasl_ssl.scram-sha-512.sasl.jaas.config=\
org.apache.kafka.common.security.scram.ScramLoginModule required;
listener.name.sasl_ssl.oauthbearer.sasl.jaas.config=\
org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required;
listener.name.sasl_ssl.oauthbearer.sasl.server.callback.handler.class=\
org.apache.kafka.common.security.oauthbearer.internals.unsecured.OAuthBearerUnsecuredValidatorCallbackHandler
listener.name.sasl_ssl.plain.sasl.jaas.config=\
org.apache.kafka.common.security.plain.PlainLoginModule required \
username="admin" password="{admin}" user_admin="{admin}" user_{user}="{password}";
authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer
super.users=User:admin;User:ANONYMOUS
allow.everyone.if.no.acl.found=true
ssl.keystore.type=PKCS12
ssl.keystore.location={home}/server.p12
ssl.keystore.password={admin}
ssl.truststore.type=PEM
ssl.truststore.location={home}/ca.pem
"""


def _certify(home: Path, host: str) -> None:
    """Create a CA in ``ca.pem``, and certificates of this host and of a client.

    They are in ``server.p12`` and ``client.p12``; ``stranger.p12`` has one of no CA.
    """
    tool = cache.tool("keytool", "a secured Kafka", "openjdk-17-jre-headless")
    keys = ["-keystore", f"{home}/server.p12", "-storetype", "PKCS12", "-storepass", ADMIN]
    make = [tool, "-genkeypair", "-keyalg", "EC", "-groupname", "secp256r1", *keys]
    cache.run([*make, "-alias", "ca", "-dname", "CN=Landfall's tests", "-ext", "bc:c=ca:true"])
    cache.run(
        [
            *make,
            "-alias",
            "server",
            "-dname",
            "CN=broker",
            "-signer",
            "ca",
            "-ext",
            f"san=ip:{host}",
        ]
    )
    cache.run([*make, "-alias", "client", "-dname", f"CN={USER}", "-signer", "ca"])
    move = [tool, "-importkeystore", "-srckeystore", f"{home}/server.p12", "-srcalias", "client"]
    to = ["-destkeystore", f"{home}/client.p12", "-deststoretype", "PKCS12"]
    cache.run([*move, "-srcstorepass", ADMIN, *to, "-deststorepass", PASSWORD])
    cache.run([tool, "-delete", *keys, "-alias", "client"])
    stranger = ["-keystore", f"{home}/stranger.p12", "-storetype", "PKCS12"]
    make_alone = [tool, "-genkeypair", "-keyalg", "EC", "-groupname", "secp256r1", *stranger]
    cache.run([*make_alone, "-storepass", PASSWORD, "-alias", "client", "-dname", f"CN={USER}"])
    cache.run([tool, "-exportcert", "-rfc", *keys, "-alias", "ca", "-file", f"{home}/ca.pem"])
    cache.run([tool, "-delete", *keys, "-alias", "ca"])


_MUTUAL = """\
listeners=SSL://{host}:{port},CONTROLLER://{host}:{controller_port}
advertised.listeners=SSL://{host}:{port}
listener.security.protocol.map=SSL:SSL,CONTROLLER:PLAINTEXT
security.inter.broker.protocol=SSL
ssl.client.auth=required
ssl.keystore.type=PKCS12
ssl.keystore.location={home}/server.p12
ssl.keystore.password={admin}
ssl.truststore.type=PEM
ssl.truststore.location={home}/ca.pem
"""


def _command_with(
    added: str, programs: Path, home: Path, host: str, ports: tuple[int, ...]
) -> tuple[list[str], str]:
    argv, properties = KAFKA.command(programs, home, host, ports)
    if not (home / "ca.pem").exists():
        _certify(home, host)
    port, controller_port = ports
    with Path(properties).open("a") as file:  # later lines win
        file.write(
            added.format(
                host=host,
                port=port,
                controller_port=controller_port,
                home=home,
                admin=ADMIN,
                user=USER,
                password=PASSWORD,
            )
        )
    return argv, properties


SECURED_KAFKA: ServerKind = replace(
    KAFKA, existing="LANDFALL_SECURED_KAFKA", command=partial(_command_with, _PROPERTIES)
)
"""The kind of this server; its home has the CA's certificate in ``ca.pem``."""
MUTUAL_KAFKA: ServerKind = replace(
    KAFKA, existing="LANDFALL_MUTUAL_KAFKA", command=partial(_command_with, _MUTUAL)
)
"""A broker that asks for a client's certificate: that in ``client.p12`` of its home is of its CA,
the one in ``stranger.p12`` is not; ``PASSWORD`` opens both.
"""
