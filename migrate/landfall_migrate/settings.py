"""The settings of a program: one value per key, with variables resolved and secrets apart. Pure."""

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from landfall_migrate.properties import PropertyLine

_VARIABLE = re.compile(r"\$(?P<escape>\$)?\{(?P<name>[^${}]+)\}")


@dataclass(frozen=True, slots=True)
class Setting:
    """The setting of a key.

    Attributes:
        key: the key.
        values: in order; the first is the one that counts where a program wants one.
        place: file and line, ``-D`` or the name of an environment variable.
        is_secret: it holds a secret, or by a variable the value of a key that does.
        unresolved: names of variables in it that have no value.
    """

    key: str
    values: tuple[str, ...]
    place: str
    is_secret: bool = False
    unresolved: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        """The value that counts."""
        return self.values[0]


@dataclass(frozen=True)
class ProgramSettings:
    """All settings, and the defaults of the program they are for.

    Attributes:
        given: by key, in the order of the input.
        defaults: values of keys that are not given.
        unread: why the program does not read a key, for keys that are given in vain.
    """

    given: Mapping[str, Setting]
    defaults: Mapping[str, str] = field(default_factory=dict)
    unread: Mapping[str, str] = field(default_factory=dict)

    def text(self, key: str) -> str:
        """The value of a key, its default, or empty text; empty for secrets."""
        found = self._read(key)
        if found is None:
            return self.defaults.get(key, "")
        return "" if found.is_secret or found.unresolved else found.text

    def items(self, key: str) -> tuple[str, ...]:
        """All values of a key that are not empty."""
        found = self._read(key)
        values = found.values if found and not found.is_secret else (self.text(key),)
        return tuple(filter(None, values))

    def secret(self, key: str) -> str:
        """The value of a key that holds a secret: for looking into, never for printing."""
        found = self._read(key)
        return found.text if found else ""

    def flag(self, key: str) -> bool:
        """Return whether a key is true, in any spelling of commons-configuration."""
        return self.text(key).lower() in {"true", "yes", "on", "y", "t", "1"}

    def has(self, key: str) -> bool:
        """Return whether the input gives the key a value that is not empty."""
        found = self._read(key)
        return found is not None and bool(self.secret(key) if found.is_secret else self.text(key))

    def below(self, prefix: str) -> Mapping[str, str]:
        """The keys that begin with a prefix, without it, and their values."""
        keys = (key for key in self.given if key.startswith(prefix) and self.has(key))
        return {key.removeprefix(prefix): self.text(key) for key in keys}

    def _read(self, key: str) -> Setting | None:
        return None if key in self.unread else self.given.get(key)


@dataclass(frozen=True)
class Variables:
    """Where ``${NAME}`` in a value comes from.

    Attributes:
        environment: of ``${env:NAME}``.
        system: of ``${sys:NAME}``, which are the ``-D`` of the command line.
        is_secret: whether a key's value is a secret.
        named: of ``${NAME}`` that is no key, by everything between the braces.
    """

    environment: Mapping[str, str]
    system: Mapping[str, str]
    is_secret: Callable[[str], bool]
    named: Mapping[str, str] = field(default_factory=dict)


def names_in(lines: Iterable[PropertyLine]) -> frozenset[str]:
    """The names of all variables in values."""
    values = (value for line in lines for value in line.values)
    return frozenset(match["name"] for value in values for match in _VARIABLE.finditer(value))


def resolved(
    lines: Iterable[PropertyLine], variables: Variables, *, last_wins: bool = False
) -> dict[str, Setting]:
    """One setting per key.

    Args:
        lines: of files, in order.
        variables: where variables come from.
        last_wins: a key that repeats replaces the earlier one, instead of adding to its list.
    """
    written: dict[str, PropertyLine] = {}
    for line in lines:
        earlier = written.get(line.key)
        if earlier is None or last_wins:
            written[line.key] = line
        else:
            values = (*earlier.values, *line.values)
            written[line.key] = PropertyLine(line.key, values, earlier.place)
    return {key: _Resolver(written, variables, key).setting() for key in written}


class _Resolver:
    """Replaces the variables in the values of one key."""

    def __init__(self, lines: Mapping[str, PropertyLine], variables: Variables, key: str) -> None:
        self._lines, self._variables, self._line = lines, variables, lines[key]
        self._secret = variables.is_secret(key)
        self._unresolved: list[str] = []

    def setting(self) -> Setting:
        line = self._line
        values = tuple(self._text(value, (line.key,)) for value in line.values)
        unresolved = tuple(dict.fromkeys(self._unresolved))
        return Setting(line.key, values, line.place, self._secret, unresolved)

    def _text(self, value: str, above: tuple[str, ...]) -> str:
        def replaced(match: re.Match[str]) -> str:
            if match["escape"]:
                return match[0][1:]
            found = self._value(match["name"], above)
            if found is None:
                self._unresolved.append(match["name"])
                return match[0]
            return found

        return _VARIABLE.sub(replaced, value)

    def _value(self, name: str, above: tuple[str, ...]) -> str | None:
        if name in self._variables.named and name not in self._lines:
            self._secret = self._secret or looks_secret(name)
            return self._variables.named[name]
        kind, _, rest = name.partition(":")
        if kind in {"env", "sys"} and rest:
            # What comes from outside may be a secret by the name of its variable alone.
            self._secret = self._secret or looks_secret(rest)
            places = {"env": self._variables.environment, "sys": self._variables.system}
            return places[kind].get(rest)
        if name in above or name not in self._lines:
            return None
        self._secret = self._secret or self._variables.is_secret(name)
        return self._text(self._lines[name].values[0], (*above, name))


_SECRET_NAME = re.compile(
    r"passw|secret|token|credential|api.?key|access.?key|account.?key|private.?key|jaas"
    r"|user\.?info|passphrase|license",
    re.IGNORECASE,
)


def looks_secret(name: str) -> bool:
    """Return whether the value of a name is likely to be a secret."""
    return _SECRET_NAME.search(name) is not None
