"""A broker that requires a password and TLS: SASL_SSL, with a certificate of its own CA."""

from dataclasses import replace
from pathlib import Path

from dev.servers import cache
from dev.servers.kafka import KAFKA
from dev.servers.server import Kind

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
    """Create a CA in ``ca.pem``, and a certificate for this host in ``server.p12``."""
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
    cache.run([tool, "-exportcert", "-rfc", *keys, "-alias", "ca", "-file", f"{home}/ca.pem"])
    cache.run([tool, "-delete", *keys, "-alias", "ca"])


def _command(
    programs: Path, home: Path, host: str, ports: tuple[int, ...]
) -> tuple[list[str], str]:
    argv, properties = KAFKA.command(programs, home, host, ports)
    _certify(home, host)
    port, controller_port = ports
    with Path(properties).open("a") as file:  # later lines win
        file.write(
            _PROPERTIES.format(
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


SECURED_KAFKA: Kind = replace(KAFKA, existing="LANDFALL_SECURED_KAFKA", command=_command)
"""The kind of this server; its home has the CA's certificate in ``ca.pem``."""
