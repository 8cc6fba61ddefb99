"""Writes the archive of Java classes that the image's JVMs start with: drivers' and executors'.

    archive_classes.py FILE

It runs while the image is built. A driver's JVM and an executor's start as they do in pods, with
the same class path and flags, run a job, and write down which classes they loaded. From both lists,
one more JVM makes one archive: see ``java -Xshare:dump``. A JVM that starts with it maps these
classes into memory instead of reading, checking and linking them.

Spark creates executors through the API server of Kubernetes. There is none during a build, so this
program answers in its place, on the loopback interface, and starts the executor itself.
"""

import base64
import hashlib
import json
import os
import re
import shlex
import ssl
import subprocess
import sys
import threading
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from pyspark import SparkConf, SparkContext
from pyspark.java_gateway import launch_gateway

from landfall.driver.spark import gateway_jvm

Json = dict[str, Any]

ENTRYPOINT = "/opt/entrypoint"
SECONDS = 600.0
"""How long a JVM may take to end."""
HOST = "127.0.0.1"
DRIVER = "driver"
"""The name of the driver's pod."""
WEBSOCKET = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
"""What the answer to a WebSocket's key is made with (RFC 6455)."""
SETTINGS = {
    "spark.submit.deployMode": "client",
    "spark.driver.host": HOST,
    "spark.driver.bindAddress": HOST,
    "spark.driver.memory": gateway_jvm.MEMORY,
    "spark.executor.memory": gateway_jvm.MEMORY,
    "spark.executor.instances": "1",
    "spark.executor.cores": "1",
    "spark.executor.extraJavaOptions": gateway_jvm.JVM,
    "spark.dynamicAllocation.enabled": "false",
    "spark.scheduler.mode": "FAIR",
    "spark.ui.enabled": "false",
    "spark.authenticate": "true",
    "spark.network.crypto.enabled": "true",
    "spark.network.crypto.cipher": "AES/GCM/NoPadding",
    "spark.network.crypto.authEngineVersion": "2",
    "spark.network.crypto.saslFallback": "false",
    "spark.kubernetes.namespace": "build",
    "spark.kubernetes.container.image": "this",
    "spark.kubernetes.driver.pod.name": DRIVER,
    "spark.kubernetes.executor.disableConfigMap": "true",
    "spark.kubernetes.executor.enablePollingWithResourceVersion": "true",
    "spark.kubernetes.executor.podTemplateContainerName": "executor",
    "spark.kubernetes.allocation.batch.delay": "1s",
}
"""What the operator sets (``landfall_operator.objects.pod_templates``), as far as it decides what
Spark loads.
"""
TEMPLATE = '{"kind": "Pod", "spec": {"containers": [{"name": "executor"}]}}'


@dataclass
class Pods:
    """The pods that Spark has created, and the processes that stand for them."""

    environment: Mapping[str, str]
    entrypoint: str = ENTRYPOINT
    created: dict[str, Json] = field(default_factory=dict)
    processes: list[subprocess.Popen[bytes]] = field(default_factory=list)

    def create(self, pod: Json) -> Json:
        """Start the executor of a pod; returns the pod as the API server would."""
        name = pod["metadata"]["name"]
        started = {
            **pod,
            "metadata": {**pod["metadata"], "uid": name, "resourceVersion": "1"},
            "status": {"phase": "Running", "podIP": HOST},
        }
        self.created[name] = started
        variables = executor_environment(started)
        self.processes.append(
            subprocess.Popen([self.entrypoint, "executor"], env={**self.environment, **variables})
        )
        return started

    def read(self, path: str) -> Json:
        """A pod, or all of them."""
        name = path.rpartition("/")[2]
        if name == "pods":
            items = [*self.created.values()]
            return {"kind": "PodList", "metadata": {"resourceVersion": "1"}, "items": items}
        metadata = {"name": name, "uid": name, "resourceVersion": "1"}
        ready = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
        return self.created.get(name, {"kind": "Pod", "metadata": metadata, "status": ready})


def executor_environment(pod: Json) -> dict[str, str]:
    """The environment that the kubelet gives the container; addresses are of this machine."""
    (container,) = pod["spec"]["containers"]
    fields = {"status.podIP": HOST, "metadata.name": pod["metadata"]["name"]}
    found = {}
    for variable in container["env"]:
        path = variable.get("valueFrom", {}).get("fieldRef", {}).get("fieldPath")
        found[variable["name"]] = fields[path] if path else variable.get("value", "")
    return found


NUMBER = re.compile(" id: [0-9]+$")
"""What Java 21 writes after each class. Both lists count from 0."""


def merged_list(lists: Iterable[str]) -> str:
    """One list of classes from those of several JVMs, each line once and in their order.

    The order matters: a class comes after those that it needs. Only classes of other class loaders
    need the numbers of those that they extend, and they are left out: there are hardly any.
    """
    lines = "".join(lists).splitlines()
    classes = (NUMBER.sub("", line) for line in lines if " source: " not in line)
    return "".join(f"{line}\n" for line in dict.fromkeys(classes))


class ApiHandler(BaseHTTPRequestHandler):
    """Answers Spark's requests for pods."""

    pods: Pods
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        """Read pods, or watch them."""
        path, _, query = self.path.partition("?")
        if "watch=true" in query:
            self._watch()
        else:
            self._answer(self.pods.read(path))

    def do_POST(self) -> None:
        """Create a pod."""
        self._answer(self.pods.create(json.loads(self._body())), 201)

    def do_PATCH(self) -> None:
        """Change nothing."""
        self._body()
        self._answer(self.pods.read(self.path.partition("?")[0]))

    do_DELETE = do_PATCH  # noqa: N815  # the base class's name

    def _body(self) -> bytes:
        return self.rfile.read(int(self.headers.get("Content-Length", 0)))

    def _answer(self, document: Json, status: int = 200) -> None:
        body = json.dumps({"apiVersion": "v1", **document}).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def _watch(self) -> None:
        """Open a WebSocket on which nothing ever happens."""
        accepted = hashlib.sha1(f"{self.headers['Sec-WebSocket-Key']}{WEBSOCKET}".encode())  # noqa: S324  # the protocol's
        self.send_response(101)
        self.send_header("Upgrade", "websocket")
        self.send_header("Connection", "Upgrade")
        self.send_header("Sec-WebSocket-Accept", base64.b64encode(accepted.digest()).decode())
        self.end_headers()
        self.wfile.flush()
        self.rfile.read()
        self.close_connection = True

    def log_message(self, *_: object) -> None:
        """Log nothing."""


def api_server(pods: Pods, key: Path) -> ThreadingHTTPServer:
    """Serve the pods by TLS, in a thread."""
    handler = type("Handler", (ApiHandler,), {"pods": pods})
    server = ThreadingHTTPServer((HOST, 0), handler)
    server.daemon_threads = True
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(key)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server


def _key(folder: Path) -> Path:
    """A new key with its certificate, in one file."""
    file = folder / "key.pem"
    subprocess.run(
        [
            *("openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2"),
            *("-subj", "/CN=build", "-addext", f"subjectAltName=IP:{HOST}"),
            *("-keyout", file, "-out", f"{file}.crt"),
        ],
        check=True,
        capture_output=True,
    )
    with file.open("a") as both:
        both.write(Path(f"{file}.crt").read_text())
    return file


def archive(file: Path, entrypoint: str = ENTRYPOINT) -> None:
    """Write the archive, and check that a JVM can use it."""
    home, program = gateway_jvm.spark_home(os.environ), gateway_jvm.java(os.environ)
    assert home, "no Spark"
    assert program, "no Java"
    with TemporaryDirectory() as name:
        folder = Path(name)
        of_driver, of_executor = folder / "driver.classes", folder / "executor.classes"
        run_job(folder, of_driver, of_executor, entrypoint)
        every = folder / "every.classes"
        every.write_text(merged_list([of_driver.read_text(), of_executor.read_text()]))
        command = [str(program), *shlex.split(gateway_jvm.JVM), "-cp", gateway_jvm.class_path(home)]
        command += [f"-XX:SharedArchiveFile={file}"]
        dump = ["-Xshare:dump", f"-XX:SharedClassListFile={every}", "-Xlog:cds=error"]
        subprocess.run([*command, *dump], check=True)
        subprocess.run([*command, "-Xshare:on", "-version"], check=True)
    file.chmod(0o644)


def run_job(folder: Path, of_driver: Path, of_executor: Path, entrypoint: str) -> None:
    """Start both JVMs, let them run a job, and wait until they have written what they loaded."""
    # The name of a machine that builds images may have no address.
    environment = {**os.environ, "SPARK_LOCAL_IP": HOST}
    options = {"JAVA_TOOL_OPTIONS": f"-XX:DumpLoadedClassList={of_executor}"}
    pods = Pods(environment | options, entrypoint)
    key = _key(folder)
    server = api_server(pods, key)
    settings = {
        **SETTINGS,
        "spark.master": f"k8s://https://{HOST}:{server.server_port}",
        "spark.kubernetes.authenticate.caCertFile": f"{key}.crt",
        "spark.kubernetes.authenticate.oauthTokenFile": _written(folder / "token", "build"),
        "spark.kubernetes.executor.podTemplateFile": _written(folder / "executor.json", TEMPLATE),
    }
    flags = f"{gateway_jvm.driver_flags()} -XX:DumpLoadedClassList={of_driver}"
    jvm = gateway_jvm.start_gateway_jvm(flags, environment, settings)
    threading.Thread(target=sys.stderr.writelines, args=(jvm.errors,), daemon=True).start()
    port, secret = jvm.connection()
    os.environ |= {"PYSPARK_GATEWAY_PORT": str(port), "PYSPARK_GATEWAY_SECRET": secret}
    gateway = launch_gateway()  # type: ignore[no-untyped-call]  # PySpark's
    context = SparkContext(conf=SparkConf().setAppName("build"), gateway=gateway)
    for _ in range(2):
        context.parallelize(range(2), 2).map(str).collect()
    context.stop()
    gateway.shutdown()
    assert jvm.process.stdin
    jvm.process.stdin.close()
    for process in (jvm.process, *pods.processes):
        process.wait(SECONDS)
    server.shutdown()


def _written(file: Path, text: str) -> str:
    file.write_text(text)
    return str(file)


if __name__ == "__main__":
    archive(Path(sys.argv[1]))
