"""The list of variants: kernels.toml to kernels."""

from __future__ import annotations

import fnmatch
import itertools
import re
import tomllib
from typing import TYPE_CHECKING, Any, Final

from ptxtemplates.errors import ConfigError, ParameterError, UnknownKernelError, suggestion
from ptxtemplates.parameters import shown
from ptxtemplates.registry import construct, find

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from ptxtemplates.kernel import Kernel

TABLE: Final = "kernel"
NAME: Final = "name"

_HEADER: Final = re.compile(r"""\s*(\[\[?)\s*["']?([A-Za-z0-9_-]+)""")
_MULTILINE: Final = re.compile(r"""=\s*(\"{3}|'{3})(?!.*\1)""")
_KEY: Final = re.compile(r"""\s*["']?([A-Za-z0-9_-]+)["']?\s*=""")


def load(path: Path) -> list[Kernel]:
    """Read a list of variants.

    Each ``[[kernel]]`` table names a kernel and gives its parameters; where a value is a list, the table
    stands for every combination.

    Parameters
    ----------
    path : pathlib.Path
        A TOML file.

    Returns
    -------
    list of Kernel
        In the order of the file.

    Raises
    ------
    ConfigError
        If the file cannot be read, or asks for an unknown kernel or parameter, for a value that is not
        allowed, or twice for one variant. The message begins with file and line.
    """
    document, lines = _read(path)
    for key in document:
        if key != TABLE:
            raise ConfigError(
                f"{path}:{lines.of_top_level(key)}: unknown key {key!r}; only [[{TABLE}]] tables belong here"
            )
    tables = document.get(TABLE, [])
    if not isinstance(tables, list) or not all(isinstance(table, dict) for table in tables):
        raise ConfigError(f"{path}:{lines.of_top_level(TABLE)}: write [[{TABLE}]], a table for each kernel")
    if not tables:
        raise ConfigError(f"{path}:1: lists no kernels; add a [[{TABLE}]] table")
    kernels: list[Kernel] = []
    seen: dict[str, int] = {}
    for index, table in enumerate(tables):
        for kernel, line in _expand(path, table, index, lines):
            # file systems that fold case would give two such variants one file
            first = seen.setdefault(kernel.variant.casefold(), line)
            if len(seen) == len(kernels):
                raise ConfigError(
                    f"{path}:{line}: variant {kernel.variant} is listed twice, first in line {first}"
                )
            kernels.append(kernel)
    return kernels


def select(kernels: list[Kernel], pattern: str) -> list[Kernel]:
    """Return the kernels whose variant or kernel name matches a shell pattern.

    Raises
    ------
    ConfigError
        If none does.
    """
    selected = [kernel for kernel in kernels if matches(kernel.variant, kernel.name, pattern)]
    if not selected:
        names = {kernel.name for kernel in kernels} | {kernel.variant for kernel in kernels}
        raise ConfigError(f"no listed kernel matches {pattern!r}; {suggestion(pattern, names)}")
    return selected


def matches(variant: str, kernel: str, pattern: str) -> bool:
    """Tell whether a shell pattern means this variant of this kernel."""
    return fnmatch.fnmatchcase(variant, pattern) or fnmatch.fnmatchcase(kernel, pattern)


def _read(path: Path) -> tuple[dict[str, Any], _Lines]:
    try:
        text = path.read_bytes().decode("utf-8-sig")  # editors on Windows write a byte order mark
        return tomllib.loads(text.replace("\r\n", "\n")), _Lines(text)
    except OSError as error:
        raise ConfigError(f"cannot read {path}: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        line = error.object[: error.start].count(b"\n") + 1
        raise ConfigError(f"{path}:{line}: is not UTF-8") from error
    except RecursionError as error:
        raise ConfigError(f"{path}:1: is nested too deeply") from error
    except tomllib.TOMLDecodeError as error:
        place = re.search(r" \(at (?:line (\d+), column \d+|end of document)\)$", str(error))
        line = int(place[1]) if place and place[1] else len(text.rstrip("\n").split("\n"))
        reason = str(error)[: place.start()] if place else str(error)
        raise ConfigError(f"{path}:{line}: is not TOML: {reason}") from error
    except ValueError as error:  # a number of more digits than Python converts
        raise ConfigError(f"{path}:1: is not TOML that can be read: {error}") from error


def _expand(path: Path, table: Mapping[str, Any], index: int, lines: _Lines) -> Iterator[tuple[Kernel, int]]:
    """Yield every kernel that a table stands for, and the table's line."""
    line = lines.of_table(index)
    if NAME not in table:
        raise ConfigError(f"{path}:{line}: this [[{TABLE}]] has no {NAME!r}: the kernel's name")
    axes: dict[str, list[object]] = {}
    for key, value in table.items():
        axes[key] = value if isinstance(value, list) else [value]
        if not axes[key]:
            raise ConfigError(
                f"{path}:{lines.of_key(index, key)}: {key} is an empty list, so no kernel is meant"
            )
    for combination in itertools.product(*axes.values()):
        values = dict(zip(axes, combination, strict=True))
        name = values.pop(NAME)
        try:
            yield construct(find(name if isinstance(name, str) else shown(name)), values), line
        except UnknownKernelError as error:
            raise ConfigError(f"{path}:{lines.of_key(index, NAME)}: {error}") from error
        except ParameterError as error:
            raise ConfigError(f"{path}:{lines.of_key(index, error.field)}: {error}") from error


class _Lines:
    """Where tables and keys stand in the text: the standard library's TOML reader does not tell."""

    def __init__(self, text: str) -> None:
        self.top: dict[str, int] = {}
        self.tables: list[tuple[int, dict[str, int]]] = []
        keys = self.top
        quotes = None
        for number, line in enumerate(text.split("\n"), start=1):
            if quotes is not None:  # within a string of several lines
                quotes = None if quotes in line else quotes
            elif header := _HEADER.match(line):
                self.top.setdefault(header[2], number)
                keys = {}
                if header[1] == "[[" and header[2] == TABLE:
                    self.tables.append((number, keys))
            elif key := _KEY.match(line):
                keys.setdefault(key[1], number)
                if opened := _MULTILINE.search(line):
                    quotes = opened[1]

    def of_top_level(self, key: str) -> int:
        """Line of a top-level key or table."""
        return self.top.get(key, 1)

    def of_table(self, index: int) -> int:
        """Line of the header of a ``[[kernel]]`` table; if they are written as an array, of that."""
        return self.tables[index][0] if index < len(self.tables) else self.of_top_level(TABLE)

    def of_key(self, index: int, key: str) -> int:
        """Line of a key of a ``[[kernel]]`` table, or of its header if the key is not there."""
        keys = self.tables[index][1] if index < len(self.tables) else {}
        return keys.get(key, self.of_table(index))
