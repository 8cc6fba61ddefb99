"""Finds decoders, transforms and formats by name, and builds everything a group's spec names.

A name is built in (``Json``) or the import path of a plug-in (``package.module:Name``). Both are
found and built the same way, by ``Name.of(...)``. A module is imported when it is first named, so a
group does not pay for what it does not use. Stores are found by URL: see ``landfall.store``.
"""

import importlib
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from inspect import isfunction
from pathlib import Path, PurePosixPath
from posixpath import normpath
from typing import Any

import pyarrow as pa

from landfall.api.secrets import read_secret, secret_folder
from landfall.api.spec import (
    ColumnSource,
    ConsumerGroup,
    Decode,
    GroupSpec,
    Output,
    TopicSpecs,
    with_decode_option,
)
from landfall.api.spec.decode import DecodeKey, SchemaRegistry, ValueForm
from landfall.errors import Reason, Stalled
from landfall.formats import Format, FormatType
from landfall.formats.columns import COORDINATES
from landfall.pipeline.decoders import Decoder, DecoderType, Transform, Wanted
from landfall.pipeline.decoders.row_schemas import SCHEMA_ID, SCHEMA_NAME
from landfall.pipeline.decoders.typed_columns import schema_of
from landfall.pipeline.decoders.whole_records import Declared, Parts, WholeRecords
from landfall.pipeline.pinned import CHECKSUM, pinned_files
from landfall.pipeline.route import Router
from landfall.pipeline.transforms import TransformContext
from landfall.pipeline.transforms.function import BatchFunction
from landfall.pipeline.transforms.steps import Steps
from landfall.schemas.stored import StoredSchemas

DECODERS: Mapping[str, str] = {
    "Raw": "landfall.pipeline.decoders.raw:RawDecoder",
    "Json": "landfall.pipeline.decoders.json:JsonDecoder",
    "Delimited": "landfall.pipeline.decoders.delimited:DelimitedDecoder",
    "Regex": "landfall.pipeline.decoders.regex:RegexDecoder",
    "MessagePack": "landfall.pipeline.decoders.messagepack:MessagePackDecoder",
    "Csv": "landfall.pipeline.decoders.csv:CsvDecoder",
    "Thrift": "landfall.pipeline.decoders.thrift:ThriftDecoder",
    "Avro": "landfall.schemas.avro:AvroDecoder",
    "Protobuf": "landfall.schemas.protobuf:ProtobufDecoder",
    "JsonSchema": "landfall.schemas.json_schema:JsonSchemaDecoder",
}
TRANSFORMS: Mapping[str, str] = {
    "Filter": "landfall.pipeline.transforms.filter:Filter",
    "Select": "landfall.pipeline.transforms.select:Select",
    "Rename": "landfall.pipeline.transforms.rename:Rename",
    "Cast": "landfall.pipeline.transforms.cast:Cast",
    "Set": "landfall.pipeline.transforms.set:Set",
    "Flatten": "landfall.pipeline.transforms.flatten:Flatten",
    "Mask": "landfall.pipeline.transforms.mask:Mask",
    "Hash": "landfall.pipeline.transforms.hash:Hash",
    "Sql": "landfall.pipeline.transforms.sql:Sql",
    "Lookup": "landfall.pipeline.transforms.lookup:Lookup",
    "GeoIp": "landfall.pipeline.transforms.geo_ip:GeoIp",
    "LogId": "landfall.pipeline.transforms.log_id:LogId",
}
FORMATS: Mapping[str, str] = {
    "Text": "landfall.formats.text:TextFormat",
    "Json": "landfall.formats.jsonlines:JsonFormat",
    "SequenceFile": "landfall.formats.sequencefile:SequenceFileFormat",
    "Parquet": "landfall.formats.parquet:ParquetFormat",
    "Orc": "landfall.formats.orc:OrcFormat",
    "Avro": "landfall.formats.avro:AvroFormat",
}


@dataclass(frozen=True)
class Allowed:
    """Names that may be imported for a spec in a bucket: built-in names, and those listed here.

    A program that may write to the bucket can write such a spec, and a module that is imported
    runs; of some packages that are always installed, a function that is called as a transform runs
    any program. So only names that the group's present spec or the reader has named are imported.

    Secrets are sent nowhere else, too: a schema registry that takes a login is one that the present
    spec names with it.

    Attributes:
        names: of plug-ins.
        file: the spec, for messages.
        remedy: what to do if a name is missing, for messages.
        logins: URLs of schema registries, each with the name of the secret that may be sent there.
        files: files that options may name, and those in the same folders.
    """

    names: frozenset[str]
    file: str
    remedy: str
    logins: frozenset[tuple[str, str]] = frozenset()
    files: frozenset[str] = frozenset()

    def check(self, field: str, kind: str, name: str, built_in: Mapping[str, str]) -> None:
        """Return if a name may be imported.

        Raises:
            Stalled: SPEC_INVALID; the message names the file, the field and the remedy.
        """
        if name not in built_in and name not in self.names:
            raise Stalled(
                Reason.SPEC_INVALID,
                f"{self.file}: {field}: the {kind} {name!r} is not built in, {self.remedy}",
            )

    def check_format(self, output: Output) -> None:
        """Return if the format of objects may be imported. Raises alike."""
        self.check("output.format", "format", output.format, FORMATS)

    def check_all(self, spec: GroupSpec) -> None:
        """Return if all that the stages of a spec import or log in to is allowed. Raises alike."""
        for named in _named(spec):
            self.check(*named)
        for url, secret in _logins(spec):
            if (url, secret) not in self.logins:
                raise Stalled(
                    Reason.SPEC_INVALID,
                    f"{self.file}: decode.registry: logs in to {url} by the secret {secret!r}, "
                    f"{self.remedy}",
                )
        for file in sorted(_files(spec) - self.files):
            if _is_private(file):
                why = "which is among secrets or files of the system"
            elif not any(_are_together(file, allowed) for allowed in self.files):
                why = "a file of the pod in a folder that the present spec does not use"
            else:
                continue
            raise Stalled(
                Reason.SPEC_INVALID, f"{self.file}: an option names {file!r}, {why}, {self.remedy}"
            )


FILE_OPTIONS = ("file", "schemaFile")
"""The options of built-in decoders and steps that name a file of the pod."""
_SYSTEM_FOLDERS = ("/proc", "/sys", "/dev", "/run", "/var/run")


def named_files(spec: GroupSpec) -> frozenset[str]:
    """Return the files of the pod that the options of a spec and its entries name."""
    return frozenset(file for of in TopicSpecs.of(spec).every() for file in _files(of))


def _files(spec: GroupSpec) -> frozenset[str]:
    keys = spec.decode.key.options if spec.decode.key else {}
    options: list[Mapping[str, object]] = [spec.decode.options, keys]
    options += (step.options for step in spec.transforms)
    named = (str(of[name]) for of in options for name in FILE_OPTIONS if of.get(name) is not None)
    # No matter what the option of a plug-in is called.
    private = (text for of in options for text in _texts(of) if _is_private(text))
    return frozenset((*named, *private))


def _texts(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        yield from (text for item in value.values() for text in _texts(item))
    elif isinstance(value, list | tuple):
        yield from (text for item in value for text in _texts(item))


def _path(text: str) -> PurePosixPath:
    # From the root, in any working folder: ``../proc`` leads there from most.
    return PurePosixPath(normpath(f"/{text.lstrip('/')}"))


def _is_private(text: str) -> bool:
    folders = (*_SYSTEM_FOLDERS, str(secret_folder("any").parent))
    return any(_path(text).is_relative_to(folder) for folder in folders)


def _are_together(file: str, other: str) -> bool:
    """Return whether two files are in one folder, which is not the root."""
    folder = _path(file).parent
    return folder == _path(other).parent and folder != PurePosixPath("/")


def plug_ins(spec: GroupSpec) -> frozenset[str]:
    """Return the names in a spec, and in its entries of ``topics``, that are not built in."""
    named = (entry for of in TopicSpecs.of(spec).every() for entry in _named(of))
    return frozenset(name for _, _, name, built_in in named if name not in built_in)


def registry_logins(spec: GroupSpec) -> frozenset[tuple[str, str]]:
    """Return the URLs of schema registries in a spec and its entries, with the secret of each."""
    return frozenset(login for of in TopicSpecs.of(spec).every() for login in _logins(of))


def _logins(spec: GroupSpec) -> Iterator[tuple[str, str]]:
    registries = spec.decode.registry, spec.decode.key.registry if spec.decode.key else None
    for registry in registries:
        if registry is not None and registry.secret_ref is not None:
            yield from ((url, registry.secret_ref.name) for url in registry.urls)


def _named(spec: GroupSpec) -> Iterator[tuple[str, str, str, Mapping[str, str]]]:
    """The names that ``pipeline`` imports: field, what it names, name, and the built-in ones."""
    yield "decode.format", "decoder", spec.decode.format, DECODERS
    if spec.decode.key is not None:
        yield "decode.key.format", "decoder", spec.decode.key.format, DECODERS
    for i, step in enumerate(spec.transforms):
        yield f"transforms[{i}].use", "transform", step.use, TRANSFORMS
    yield "output.format", "format", spec.output.format, FORMATS


_WITH_SCHEMAS = "landfall.schemas."
"""Where the decoders are that ask a schema registry."""
SCHEMA_OPTIONS = {"schema", "schemaFile", "descriptors", "file"}
"""Options that give a schema."""
_OPTION = re.compile(r"option (?P<option>[\w-]+): |options: ")
"""How errors about options begin, in formats and in decoders."""
_UNKNOWN = re.compile(r": (unknown (option|transform)|cannot import transform)")
"""The faults of a step that do not depend on the steps before it."""


@dataclass(frozen=True)
class Pipeline:
    """The stages of a task, built from a spec: decode, transform, route, encode.

    ``wanted`` is what the decoder was asked for.
    """

    decoder: Decoder
    transforms: tuple[Transform, ...]
    router: Router
    format: Format
    wanted: Wanted


def pipeline(spec: GroupSpec, path: str = "spec", stored: StoredSchemas | None = None) -> Pipeline:
    """Build every stage a task needs.

    Args:
        spec: the group's spec, or the spec of some topics.
        path: of the fields that it is made of, which errors begin with.
        stored: schemas next to the ledger, which replace a registry that is away.

    Raises:
        Stalled: SPEC_INVALID; the message starts with the path of the field.
    """
    with spec_errors(f"{path}.route.pattern"):
        router = Router.of(spec.route, spec.decode.timestamp)
    format_ = output_format(spec.output, path)
    declared = _declared(spec.decode)
    schema = declared.together
    by_schema = _check_schemas(spec, router, format_, path)
    if schema is not None or spec.output.columns is ColumnSource.FROM_SCHEMA:
        # Formats that write envelopes as well need less for typed columns.
        format_ = getattr(format_, "typed", lambda of=format_: of)()
    steps = transforms(spec, schema, path)
    if by_schema:
        _check_steps(spec, steps, path)
    # The decoder comes last: what it must extract is the union of what all other stages read.
    wanted = replace(
        format_.wanted,
        fields=(*steps.unwritten(router.fields), *steps.read, *format_.wanted.fields),
        schema=schema,
        own_columns=spec.output.columns is ColumnSource.FROM_SCHEMA,
        json=format_.wanted.json
        or (schema is None and (steps.rewrite or spec.decode.envelope is not None)),
    )
    wanted = replace(wanted, fields=tuple(dict.fromkeys(wanted.fields)))
    with spec_errors(f"{path}.route.pattern"):
        last = steps.last(router.fields, are_payloads_written=not format_.wanted.columns)
    built = _record_decoder(
        decode=spec.decode, wanted=wanted, declared=declared, path=path, stored=stored
    )
    return Pipeline(
        decoder=built,
        transforms=(*steps.steps, *last),
        router=router,
        format=format_,
        wanted=wanted,
    )


def _declared(decode: Decode) -> Declared:
    parts = (decode.payload_columns(), decode.key_columns(), decode.typed_headers())
    return Declared(*(schema_of(columns) if columns else None for columns in parts))


def _record_decoder(
    decode: Decode, wanted: Wanted, declared: Declared, path: str, stored: StoredSchemas | None
) -> Decoder:
    """Return what decodes payloads, and keys and headers if they are read.

    Raises:
        Stalled: SPEC_INVALID, as ``decoder``; or keys are read and not decoded.
    """
    parts = Parts.of(wanted.fields)
    reads_keys = bool(parts.key or declared.key is not None)
    if not (reads_keys or parts.whole_key or parts.headers or declared.headers is not None):
        return _value_decoder(decode, wanted, path, stored)
    value = _value_decoder(decode, WholeRecords.of_value(wanted, parts, declared), path, stored)
    if not reads_keys:
        return WholeRecords(value, None, parts, declared)
    if decode.key is None:
        field = ".".join(parts.key[0])
        raise Stalled(Reason.SPEC_INVALID, f"{path}.decode.key is needed to read {{key:{field}}}")
    key = _key_decoder(decode, decode.key, WholeRecords.of_key(parts, declared), path, stored)
    return WholeRecords(value, key, parts, declared)


def _key_decoder(
    decode: Decode, of: DecodeKey, wanted: Wanted, path: str, stored: StoredSchemas | None
) -> Decoder:
    """Return what decodes keys.

    Raises:
        Stalled: SPEC_INVALID, as ``decoder``; or a file has no checksum.
    """
    # A schema that is given needs no registry.
    of_values = None if SCHEMA_OPTIONS & of.options.keys() else decode.registry
    as_payloads = Decode(
        format=of.format,
        options=of.options,
        registry=of.registry or of_values,
        values=decode.values,
    )
    key = decoder(as_payloads, wanted, f"{path}.decode.key", stored)
    if pinned_files([key]) and CHECKSUM not in of.options:
        raise Stalled(
            Reason.SPEC_INVALID,
            f"{path}.decode.key.options.{CHECKSUM}: a file that keys are decoded with needs one",
        )
    return key


_IN_ENVELOPES: Mapping[str, Mapping[str, object]] = {
    "Json": {},
    "JsonSchema": {},
    "Avro": {"connectTypes": True},
    "Protobuf": {"protoNames": True},
}
"""The decoders of payloads that envelopes are made of, and options that they have there."""


def _value_decoder(
    decode: Decode, wanted: Wanted, path: str, stored: StoredSchemas | None
) -> Decoder:
    """Return what decodes payloads, opened if they are envelopes.

    Raises:
        Stalled: SPEC_INVALID, as ``decoder``; or payloads of the format are no envelopes.
    """
    if decode.envelope is None:
        return decoder(decode, wanted, path, stored)
    for field, name in (("", decode.format), (".key", decode.key.format if decode.key else "Json")):
        if name not in _IN_ENVELOPES:
            raise Stalled(
                Reason.SPEC_INVALID,
                f"{path}.decode.envelope: {decode.envelope} needs decode{field}.format "
                f"{', '.join(_IN_ENVELOPES)}, not {name}",
            )
    from landfall.pipeline.decoders.envelopes import Envelopes  # noqa: PLC0415  # if it is used

    # Values that JSON holds exactly, with the types that Kafka Connect gives names.
    common = decode.model_copy(update={"values": ValueForm.COMMON})
    payloads = keys = None
    if decode.format != "Json":
        options = {**_IN_ENVELOPES[decode.format], **decode.options}
        typed = common.model_copy(update={"options": options})
        payloads = decoder(typed, Envelopes.of_payloads(wanted), path, stored)
    if decode.key is not None:
        of_keys = Wanted(json=True, zeros=True, is_key=True)
        options = {**_IN_ENVELOPES[decode.key.format], **decode.key.options}
        key = decode.key.model_copy(update={"options": options})
        keys = _key_decoder(common, key, of_keys, path, stored)
    with spec_errors(f"{path}.decode"):
        return Envelopes.of(payloads, keys, decode, wanted)


def _check_schemas(spec: GroupSpec, router: Router, format_: Format, path: str) -> bool:
    """Return whether rows are landed by the schemas of their own.

    Raises:
        Stalled: SPEC_INVALID; what has to do with schemas does not fit together.
    """
    declared = _declared(spec.decode)
    from_schema = spec.output.columns is ColumnSource.FROM_SCHEMA
    bodies, name = format_.wanted.bodies, spec.output.format
    reason = ""
    if from_schema and not format_.wanted.columns:
        reason = f"output.columns: FromSchema is for formats that write columns, not for {name}"
    elif declared.together is not None and (from_schema or bodies):
        what = "output.columns: FromSchema" if from_schema else f"output.format: {name}"
        columns = "decode.columns" if spec.decode.columns else "columns of keys and headers"
        reason = f"{what} takes the columns of the payloads' own schemas; leave {columns} out"
    elif spec.decode.envelope is not None and (from_schema or bodies):
        what = "output.columns: FromSchema" if from_schema else f"output.format: {name}"
        reason = (
            f"{what} lands payloads by their own schemas, in which envelopes are columns and not "
            "rows; declare decode.columns, or leave decode.envelope out"
        )
    if reason:
        raise Stalled(Reason.SPEC_INVALID, f"{path}.{reason}")
    if declared.together is not None:
        _check_names(spec, format_, path)
    routed = [field for field in router.fields if field in (SCHEMA_ID, SCHEMA_NAME)]
    if routed or from_schema or bodies:
        decoder = spec.decode.format
        kind = import_class(f"{path}.decode.format", "decoder", decoder, DECODERS)
        if not getattr(kind, "has_schemas", False):
            by_format = f"output.format: {name}" if bodies else ""
            what = (from_schema and "output.columns: FromSchema") or by_format
            what = what or f"route.pattern: {{{routed[0][-1]}}}"
            raise Stalled(
                Reason.SPEC_INVALID,
                f"{path}.{what} needs payloads with a schema, "
                f"which decode.format {decoder} does not have",
            )
    return from_schema or bodies


def _check_names(spec: GroupSpec, format_: Format, path: str) -> None:
    """Raise Stalled if an option of a format names a column that the group does not declare."""
    together = _declared(spec.decode).together
    declared = set(together.names if together is not None else ())
    known = declared | {f"_{name}" for name in COORDINATES}
    if spec.transforms:
        return  # steps may add columns
    for option, names in getattr(format_, "named_columns", {}).items():
        for name in names:
            if name not in known:
                raise Stalled(
                    Reason.SPEC_INVALID,
                    f"{path}.output.options.{option}: no column {name!r} in decode.columns",
                )


def _check_steps(spec: GroupSpec, steps: Steps, path: str) -> None:
    """Raise Stalled if a step may change rows, whose schemas would not be theirs any more."""
    own = [step.use for step in spec.transforms if step.use not in TRANSFORMS]
    if steps.rewrite or own:
        what = own[0] if own else "the steps"
        raise Stalled(
            Reason.SPEC_INVALID,
            f"{path}.transforms: {what} may change rows, which are landed with the schema of the "
            "payload here; declare decode.columns and leave output.columns out, or only Filter",
        )


def check_spec(group: ConsumerGroup) -> None:
    """Return normally if everything the group names can be built; a driver checks this first.

    Raises:
        Stalled: SPEC_INVALID; the message starts with the path of the field.
    """
    for fault in faults(group):
        raise fault


def faults(group: ConsumerGroup) -> Iterator[Stalled]:
    """Yield what keeps the stages that a group names from being built: all at once, each once.

    Each is SPEC_INVALID; the message starts with the path of the field.
    """
    used, seen = list(TopicSpecs.of(group.spec).used()), set[str]()
    for path, spec in used:
        for fault in _faults(spec, path):
            # What an entry of ``topics`` inherits is wrong in one place only.
            message = str(fault).removeprefix(path)
            if message not in seen:
                seen.add(message)
                yield fault
    asked = [registry for _, spec in used for registry in _asked(spec.decode)]
    for path, spec in used:
        if spec.decode.registry is not None and spec.decode.registry not in asked:
            names = ", ".join(name for name in DECODERS if _asks_registry(name))
            yield Stalled(
                Reason.SPEC_INVALID,
                f"{path}.decode.registry: {spec.decode.format} asks no schema registry; those "
                f"that do are {names}",
            )


def _faults(spec: GroupSpec, path: str) -> Iterator[Stalled]:
    """Yield the fault that ``pipeline`` raises, then the faults of stages it did not reach."""
    first = _fault(partial(pipeline, spec, path))
    if first is None:
        return
    yield first
    declared = _declared(spec.decode)
    alone = [
        _fault(partial(output_format, spec.output, path)),
        *_faults_of_steps(spec, declared.together, path),
        _fault(partial(_record_decoder, spec.decode, Wanted(), declared, path, None)),
    ]
    yield from (fault for fault in alone if fault is not None and str(fault) != str(first))


def _faults_of_steps(spec: GroupSpec, schema: pa.Schema | None, path: str) -> Iterator[Stalled]:
    """Yield the first fault of the steps, and wrong names and options of the steps after it."""
    first = _fault(partial(transforms, spec, schema, path))
    if first is None:
        return
    yield first
    for i in range(len(spec.transforms)):
        field = f"{path}.transforms[{i}]"
        if str(first).startswith(field):
            rest = i + 1
            break
    else:
        return
    for i in range(rest, len(spec.transforms)):
        alone = spec.model_copy(update={"transforms": spec.transforms[i : i + 1]})
        fault = _fault(partial(transforms, alone, schema, path))
        # Which columns there are is not known without the step that is wrong.
        if fault is not None and _UNKNOWN.search(str(fault)):
            message = str(fault).replace(f"{path}.transforms[0]", f"{path}.transforms[{i}]", 1)
            yield Stalled(fault.reason, message)


def _fault(build: Callable[[], object]) -> Stalled | None:
    try:
        build()
    except Stalled as fault:
        return fault
    return None


def _asked(decode: Decode) -> Iterator[SchemaRegistry | None]:
    """The registries that decoders get to know, of payloads and of keys."""
    if _asks_registry(decode.format):
        yield decode.registry
    if decode.key is not None and _asks_registry(decode.key.format):
        yield decode.key.registry or decode.registry


def _asks_registry(decoder: str) -> bool:
    """Return whether a decoder gets to know the registry: one that has schemas, or a plug-in."""
    return DECODERS.get(decoder, _WITH_SCHEMAS).startswith(_WITH_SCHEMAS)


def pinned(group: ConsumerGroup) -> ConsumerGroup:
    """Return the group with the checksums of all files that its decoders read in its spec.

    A driver lands by what this returns. So tasks refuse a file with other bytes, and the part of
    the spec that the ledger's OPEN names by its digest has the checksums.

    Raises:
        Stalled: SPEC_INVALID, as ``check_spec``.
    """
    found, specs = group.spec, TopicSpecs.of(group.spec)
    for entry, (path, spec) in zip(specs.used_entries(), specs.used(), strict=True):
        for file in pinned_files([pipeline(spec, path).decoder])[:1]:
            found = with_decode_option(found, entry, CHECKSUM, file.sha256)
    return group.model_copy(update={"spec": found})


def decoder(
    decode: Decode, wanted: Wanted, path: str = "spec", stored: StoredSchemas | None = None
) -> Decoder:
    """Return the decoder that ``spec.decode`` names.

    Only decoders that have schemas, and plug-ins, get to know the registry: a group may name one
    for some of its topics.

    Raises:
        Stalled: SPEC_INVALID; the name is unknown or an option is wrong.
    """
    field = path if path.endswith(".key") else f"{path}.decode"
    kind: DecoderType = import_class(f"{field}.format", "decoder", decode.format, DECODERS)
    options: dict[str, object] = dict(decode.options)
    if decode.registry is not None and _asks_registry(decode.format):
        secret = decode.registry.secret_ref
        options["registry"] = {
            "urls": decode.registry.urls,
            "secret": secret.name if secret else None,
            "timeout_seconds": decode.registry.timeout.total_seconds(),
            "stored": stored,
        }
    with spec_errors(field):
        common = decode.values is ValueForm.COMMON
        return kind.of(options, replace(wanted, common=common, read_file=_read_file))


def transforms(spec: GroupSpec, schema: pa.Schema | None = None, path: str = "spec") -> Steps:
    """Return the steps that ``spec.transforms`` names, in order.

    Args:
        spec: the group's spec.
        schema: the typed columns that the decoder extracts, if the group declares any.
        path: of the fields that the spec is made of.

    Raises:
        Stalled: SPEC_INVALID; a name is unknown, an option is wrong, or a step reads what rows do
            not have.
    """
    event = spec.decode.timestamp
    of_event = (c.name for c in spec.decode.columns if event is not None and c.path == event.path)
    timezone = spec.route.timezone
    context = TransformContext(
        schema=schema,
        timestamp=event,
        event_columns=frozenset(of_event),
        timezone=timezone,
        read_secret=read_secret,
        read_file=_read_file,
    )
    steps = Steps(context)
    for i, step in enumerate(spec.transforms):
        field = f"{path}.transforms[{i}]"
        kind = import_class(f"{field}.use", "transform", step.use, TRANSFORMS)
        with spec_errors(field):
            if step.use in TRANSFORMS:
                steps = steps.with_step(kind.of(step.options, steps.context))
            elif isfunction(kind):
                steps = steps.with_step(BatchFunction.of(kind, step.options, steps.context))
            else:
                steps = steps.with_plug_in(kind.of(step.options))
    return steps


def output_format(output: Output, path: str = "spec", allowed: Allowed | None = None) -> Format:
    """Return the format that ``spec.output`` names; codec and level are among its options.

    Args:
        output: how objects are written.
        path: of the fields that it is made of.
        allowed: what may be imported, if the output comes from a bucket and not from its author.

    Raises:
        Stalled: SPEC_INVALID; the name is unknown or not allowed, or an option is wrong.
    """
    if allowed is not None:
        allowed.check_format(output)
    kind: FormatType = import_class(f"{path}.output.format", "format", output.format, FORMATS)
    with spec_errors(f"{path}.output"):
        # Only if it is set: formats of your own that were written before know none.
        level = {} if output.level is None else {"level": output.level}
        return kind.of({**output.options, "codec": output.codec, **level})


def _read_file(path: str) -> bytes:
    return Path(path).read_bytes()


def import_class(field: str, kind: str, name: str, built_in: Mapping[str, str]) -> Any:
    """Return the class of a name. Only its protocol defines what it can do, hence ``Any``."""
    path = built_in.get(name, name)
    module, colon, attribute = path.partition(":")
    if not colon:
        names = f"{', '.join(sorted(built_in))}, or " if built_in else ""
        raise Stalled(
            Reason.SPEC_INVALID,
            f"{field}: unknown {kind} {name!r}; expected {names}package.module:Name",
        )
    try:
        return getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError, SyntaxError, ValueError) as error:
        raise Stalled(
            Reason.SPEC_INVALID, f"{field}: cannot import {kind} {path!r}: {error}"
        ) from error


@contextmanager
def spec_errors(field: str) -> Iterator[None]:
    """Turn what a constructor raises into SPEC_INVALID with the path of the field.

    A class of the user's that does not follow its protocol raises TypeError or AttributeError
    here; that, too, is a wrong spec and not a fault of the driver.
    """
    try:
        yield
    except (ValueError, TypeError, AttributeError) as error:
        raise Stalled(Reason.SPEC_INVALID, _located(field, str(error))) from error


def _located(field: str, message: str) -> str:
    """The message after the path of the field or option that it names."""
    if match := _OPTION.match(message):
        option = match["option"]
        path = (
            option if option in {"codec", "level"} else f"options.{option}" if option else "options"
        )
        return f"{field}.{path}: {message[match.end() :]}"
    return f"{field}: {message}"
