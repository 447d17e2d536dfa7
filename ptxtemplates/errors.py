"""The errors a user can meet. Each message says what is wrong, where, and what would be right."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable

SHOWN: Final = 12
"""How many valid names a message lists."""


class PtxTemplatesError(Exception):
    """Base of all errors of this package. The command line prints one ``error:`` line and exits with 2.

    Attributes
    ----------
    excerpt : str
        Source lines to show below the message, or empty.
    """

    excerpt: str = ""


class ParameterError(PtxTemplatesError):
    """A kernel's parameter has a value that the kernel cannot be built for.

    Attributes
    ----------
    field : str
        Name of the parameter.
    """

    def __init__(self, message: str, *, field: str) -> None:
        super().__init__(message)
        self.field = field


class UnknownKernelError(PtxTemplatesError):
    """No kernel of that name is registered."""


class DeclarationError(PtxTemplatesError):
    """A kernel class that says something impossible of its kernel."""


class ConfigError(PtxTemplatesError):
    """A list of variants (``kernels.toml``) cannot be read or asks for something impossible."""


class TemplateError(PtxTemplatesError):
    """A template cannot be rendered, or what it renders breaks a rule or the kernel's contract."""


class PtxSyntaxError(PtxTemplatesError):
    """PTX text that the parser does not understand.

    Attributes
    ----------
    line : int
        Line of the PTX text, from 1.
    """

    def __init__(self, message: str, *, line: int) -> None:
        super().__init__(message)
        self.line = line


class ArtifactError(PtxTemplatesError):
    """A build directory cannot be read or written."""


class MissingExtraError(PtxTemplatesError):
    """Something is not installed that a command needs; the message says what to install."""


class AssemblyError(PtxTemplatesError):
    """PTX text that does not assemble, or an architecture it cannot be assembled for.

    Attributes
    ----------
    faults : tuple of (int or None, str)
        Line of the PTX text, from 1, and what the assembler says of it.
    """

    def __init__(
        self, message: str, *, faults: tuple[tuple[int | None, str], ...] = (), excerpt: str = ""
    ) -> None:
        super().__init__(message)
        self.faults = faults
        self.excerpt = excerpt


class EmulationError(PtxTemplatesError):
    """A kernel that cannot be executed on the CPU, or does not end."""


class CaseError(PtxTemplatesError):
    """A case, or what a kernel's text must hold, that cannot be made or does not fit the kernel."""


def suggestion(name: str, valid: Iterable[str]) -> str:
    """Point to what `name` may have been meant to be."""
    from difflib import get_close_matches  # only a mistake needs it

    names = sorted(valid)
    near = get_close_matches(name, names, n=1, cutoff=0.5)
    if near:
        return f"did you mean {near[0]!r}?"
    return f"there are {', '.join(names[:SHOWN])}" + (
        f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
    )
