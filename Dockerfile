# Two images: `operator` (the control plane; no Java, no Spark) and `spark` (drivers and executors).
#
#   docker build --target operator -t landfall-operator .        # or podman build, or buildah build
#   docker build --target spark -t landfall-spark .
#
# BASE_IMAGE is any Debian 12 image. Python packages are pinned by hash in requirements/. To use your own package index or
# certificates, pass them to pip as build secrets, which leave no trace in the images:
# --secret id=pip.conf,src=... --secret id=ca.pem,src=...
# Landfall itself changes most often, so it is the last layer.
# RUST_IMAGE is any image of the same Debian with Rust's cargo; without cargo in it, pure Python runs.
ARG BASE_IMAGE=debian:bookworm-slim
ARG RUST_IMAGE=rust:1-slim-bookworm

FROM ${BASE_IMAGE} AS python
ARG DEBIAN_FRONTEND=noninteractive
RUN apt-get update \
 && apt-get install -y --no-install-recommends ca-certificates python3 tini \
 && rm -rf /var/lib/apt/lists/* /var/cache/apt/* /var/cache/debconf/* /var/log/apt /var/log/dpkg.log \
 # the user of these images, unless the cluster assigns another one
 && echo 'landfall:x:185:' >> /etc/group && echo 'landfall:x:185:185:Landfall:/tmp:/usr/sbin/nologin' >> /etc/passwd
# HOME is the one folder that any user may write to, also one that the cluster assigns and that has no home.
ENV PATH=/opt/landfall/bin:/usr/local/bin:/usr/bin:/bin LANG=C.UTF-8 PYTHONUNBUFFERED=1 HOME=/tmp

# Builds the wheels. pip and the build tools stay in this stage and do not get into the images.
FROM python AS pip
ARG DEBIAN_FRONTEND=noninteractive
RUN apt-get update && apt-get install -y --no-install-recommends python3-pip
COPY docker/pinned /usr/local/bin/
COPY requirements/build.txt /requirements/
RUN --mount=type=secret,id=pip.conf --mount=type=secret,id=ca.pem \
    pinned install /requirements/build.txt && python3 -m venv --without-pip /opt/landfall

FROM pip AS operator-packages
COPY requirements/operator.txt /requirements/
RUN --mount=type=secret,id=pip.conf --mount=type=secret,id=ca.pem pinned wheels /requirements/operator.txt \
 && pip --python /opt/landfall/bin/python install --quiet --no-deps --no-index /wheels/*.whl \
 # an unused second client, for asyncio, as large as all the rest
 && rm -rf /opt/landfall/lib/python3*/site-packages/kubernetes/aio

# The publishers Iceberg, Delta, Hive, BigQuery and OpenLineage need 200 MB of packages, and the stores Azure, Google Cloud
# Storage and HDFS need 48 MB; --build-arg PUBLISHERS=no and --build-arg STORES=no leave them out.
FROM pip AS spark-packages
ARG PUBLISHERS=yes
ARG STORES=yes
COPY requirements/spark.txt requirements/stores.txt requirements/publishers.txt /requirements/
COPY docker/trim-spark /usr/local/bin/
RUN --mount=type=secret,id=pip.conf --mount=type=secret,id=ca.pem pinned wheels /requirements/spark.txt \
 && { [ "$STORES" = no ] || pinned wheels /requirements/stores.txt; } \
 && { [ "$PUBLISHERS" = no ] || pinned wheels /requirements/publishers.txt; } \
 && pip --python /opt/landfall/bin/python install --quiet --no-deps --no-index /wheels/*.whl \
 && trim-spark /opt/landfall/lib/python3*/site-packages/pyspark

# What the images contain of others: a bill of materials, and a list of licenses. The library that writes it stays here.
FROM pip AS bom
COPY requirements/sbom.txt /requirements/
RUN --mount=type=secret,id=pip.conf --mount=type=secret,id=ca.pem pinned install /requirements/sbom.txt
COPY docker/bom.py native/Cargo.lock /bom/

FROM bom AS operator-bom
COPY --from=operator-packages /opt/landfall /opt/landfall
COPY --from=python /var/lib/dpkg/status /bom/
RUN /usr/bin/python3 /bom/bom.py landfall-operator /made --site-packages /opt/landfall/lib/python3.11/site-packages --debian /bom/status

# Landfall's own wheel, installed under /made with nothing else.
FROM pip AS landfall
COPY pyproject.toml README.md LICENSE /source/
COPY operator /source/operator
COPY spark_app /source/spark_app
RUN pip wheel --quiet --no-deps --no-build-isolation --no-index --wheel-dir /wheels /source \
 && pip --python /opt/landfall/bin/python install --quiet --no-warn-script-location --no-deps --no-index --root /made /wheels/*.whl

# The auditor, a wheel of its own that shares no code with Landfall's: `kubectl landfall audit` runs it in the driver's pod.
# --build-arg AUDITOR=no leaves it out. All that it needs is in requirements/spark.txt, stores.txt and publishers.txt.
FROM pip AS auditor
ARG AUDITOR=yes
COPY LICENSE /source/
COPY spark_app/landfall/__init__.py /source/spark_app/landfall/
COPY audit /source/audit
RUN mkdir -p /made && { [ "$AUDITOR" = no ] || { \
    pip wheel --quiet --no-deps --no-build-isolation --no-index --wheel-dir /wheels /source/audit \
 && pip --python /opt/landfall/bin/python install --quiet --no-warn-script-location --no-deps --no-index --root /made /wheels/*.whl; }; }

# The extension for the hot path, or nothing.
FROM ${RUST_IMAGE} AS native
COPY native /native
COPY docker/native /usr/local/bin/landfall-native
RUN landfall-native /native /made

FROM python AS operator
COPY --from=operator-packages /opt/landfall /opt/landfall
COPY --from=operator-bom /made/ /opt/landfall/
COPY --from=landfall /made /
# No module is imported from the working folder, which pods may write to.
ENV PYTHONSAFEPATH=1
USER 185:185
LABEL org.opencontainers.image.title=landfall-operator org.opencontainers.image.licenses=Apache-2.0 \
  org.opencontainers.image.description="Lands Kafka topics in object stores exactly once: the operator"
ENTRYPOINT ["tini", "--", "python", "-m", "landfall_operator"]

FROM python AS spark-java
ARG DEBIAN_FRONTEND=noninteractive
# The installation of the JRE needs the folder for manual pages, which slim images lack.
RUN mkdir -p /usr/share/man/man1 && apt-get update \
 # libnss-wrapper gives a name to a user id that has none, as OpenShift assigns; Spark does not start without
 && apt-get install -y --no-install-recommends openjdk-17-jre-headless libnss-wrapper \
 && rm -rf /var/lib/apt/lists/* /var/cache/apt/* /var/cache/debconf/* /var/log/apt /var/log/dpkg.log \
 && ln -s /usr/lib/jvm/java-17-openjdk-* /opt/java && ln -s /opt/landfall/lib/python3.11/site-packages/pyspark /opt/spark
ENV JAVA_HOME=/opt/java SPARK_HOME=/opt/spark PYSPARK_PYTHON=/opt/landfall/bin/python
COPY --from=spark-packages /opt/landfall /opt/landfall
# --chmod: whatever the umask of the checkout was, any user can read what is copied from it.
COPY --chmod=0755 docker/entrypoint /opt/entrypoint

FROM bom AS spark-bom
COPY --from=spark-packages /opt/landfall /opt/landfall
COPY --from=spark-java /var/lib/dpkg/status /bom/
RUN /usr/bin/python3 /bom/bom.py landfall-spark /made --site-packages /opt/landfall/lib/python3.11/site-packages \
  --jars /opt/landfall/lib/python3.11/site-packages/pyspark/jars --crates /bom/Cargo.lock --debian /bom/status
COPY --chmod=0644 docker/openvex.json /made/

# The archive of classes with which the JVMs of drivers and executors start: see docs/adr/0037. It is of exactly the Java and
# the jars of the stage above, and needs two files of Landfall's, so that other changes do not make it anew.
FROM spark-java AS spark-classes
COPY spark_app/landfall/driver/spark/gateway_jvm.py spark_app/landfall/driver/spark/log4j2.properties \
  /archive/landfall/driver/spark/
COPY docker/archive_classes.py /archive/
RUN mkdir -p /made && python /archive/archive_classes.py /made/spark.jsa

FROM spark-java AS spark
COPY --from=spark-classes /made/ /opt/landfall/
COPY --from=spark-bom /made/ /opt/landfall/
ENV LANDFALL_SPARK_ARCHIVE=/opt/landfall/spark.jsa
COPY --from=native /made/ /opt/landfall/lib/python3.11/site-packages/
COPY --from=landfall /made /
COPY --from=auditor /made /
COPY --chmod=0644 spark_app/main.py /opt/landfall/
# As above: the working folder is the only writable one.
ENV PYTHONSAFEPATH=1
USER 185:185
WORKDIR /tmp
LABEL org.opencontainers.image.title=landfall-spark org.opencontainers.image.licenses=Apache-2.0 \
  org.opencontainers.image.description="Lands Kafka topics in object stores exactly once: drivers and executors"
ENTRYPOINT ["tini", "-s", "--", "/opt/entrypoint"]
CMD ["driver"]
