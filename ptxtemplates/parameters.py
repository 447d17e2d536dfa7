"""What a kernel's parameter may be: one class a kind of value, each with its check and its description."""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol

from ptxtemplates.ptx.names import RESERVED
from ptxtemplates.ptx.targets import TARGETS, supports

if TYPE_CHECKING:
    from collections.abc import Callable

    from ptxtemplates.kernel import Kernel

SHOWN: Final = 60
"""How many characters of a refused value a message shows."""


class Domain(Protocol):
    """The set of values that a parameter can take."""

    def describe(self) -> str:
        """Say what is allowed, as the end of the sentence "must be ..."."""
        ...

    def convert(self, value: object) -> object:
        """Return `value` in its one canonical form; raise ``ValueError`` if it is not allowed."""
        ...

    def parse(self, text: str) -> object:
        """Read a value as a command line gives it; raise ``ValueError`` if it is no such value."""
        ...

    def label(self, value: Any) -> str:
        """Write a canonical value as it stands in the name of a variant."""
        ...


class Integer(NamedTuple):
    """Integers from `minimum` to `maximum`, multiples of `multiple_of`."""

    minimum: int
    maximum: int
    multiple_of: int = 1

    def describe(self) -> str:
        """Say what is allowed."""
        kind = {1: "an integer", 2: "an even integer"}.get(
            self.multiple_of, f"a multiple of {self.multiple_of}"
        )
        return f"{kind} from {self.minimum} to {self.maximum}"

    def convert(self, value: object) -> int:
        """Return `value`, an int in range; a bool is no int here."""
        if not isinstance(value, int) or isinstance(value, bool):
            raise ValueError
        if not self.minimum <= value <= self.maximum or value % self.multiple_of:
            raise ValueError
        return value

    def parse(self, text: str) -> int:
        """Read a decimal integer."""
        if not re.fullmatch("[+-]?[0-9]{1,20}", text):
            raise ValueError
        return int(text)

    def label(self, value: int) -> str:
        """Decimal digits."""
        return str(value)


class PositiveReal:
    """Finite float64 values above zero; an integer counts if float64 holds it exactly."""

    def describe(self) -> str:
        """Say what is allowed."""
        return "a finite number above 0 that float64 holds exactly"

    def convert(self, value: object) -> float:
        """Return `value` as a float: 10000, 1e4 and 10000.0 are one value."""
        if not isinstance(value, int | float) or isinstance(value, bool):
            raise ValueError
        try:
            converted = float(value)
        except OverflowError:
            raise ValueError from None
        if converted != value or not (math.isfinite(converted) and converted > 0):
            raise ValueError
        return converted

    def parse(self, text: str) -> float:
        """Read a decimal number."""
        return float(text)

    def label(self, value: float) -> str:
        """Shortest decimal that reads back as the same float64, without a trailing ``.0`` or a ``+``."""
        return repr(value).removesuffix(".0").replace("e+", "e")


class Identifier:
    """Names that PTX, C and Rust all accept for a function."""

    def describe(self) -> str:
        """Say what is allowed."""
        return "an identifier (ASCII letters, digits and _, no digit first, no word that PTX reserves)"

    def convert(self, value: object) -> str:
        """Return `value`, a str that is such a name."""
        if (
            not isinstance(value, str)
            or not re.fullmatch("[A-Za-z_][A-Za-z0-9_]*", value)
            or value in RESERVED
        ):
            raise ValueError
        return value

    def parse(self, text: str) -> str:
        """Take the text as it is."""
        return text

    def label(self, value: str) -> str:
        """Give the name itself."""
        return value


class Target(NamedTuple):
    """PTX targets that have every feature of `minimum`."""

    minimum: str

    def describe(self) -> str:
        """Say what is allowed."""
        return f"one of {', '.join(target for target in TARGETS if supports(target, self.minimum))}"

    def convert(self, value: object) -> str:
        """Return `value`, a str that names such a target."""
        if not isinstance(value, str) or value not in TARGETS or not supports(value, self.minimum):
            raise ValueError
        return value

    def parse(self, text: str) -> str:
        """Take the text as it is."""
        return text

    def label(self, value: str) -> str:
        """Give the name itself."""
        return value


class Parameter(NamedTuple):
    """What is known of one parameter beside its type and default.

    Attributes
    ----------
    domain : Domain
        The values it can take.
    help : str
        One line for a person.
    tag : str
        What stands before the value in the name of a variant.
    derived : callable, optional
        Computes the default from the other parameters; `derived_text` says how. The field's own default
        is then `DERIVED`.
    """

    domain: Domain
    help: str
    tag: str
    derived: Callable[[Any], object] | None = None
    derived_text: str = ""

    def default_of(self, kernel: Kernel, declared: object) -> object:
        """Return the default that holds for `kernel`; `declared` is what the class says."""
        return declared if self.derived is None else self.derived(kernel)


DERIVED: Final[Any] = None
"""Declared default of a field whose default follows from the other parameters."""


def shown(value: object) -> str:
    """Write a refused value for a message: whatever it is, in a few words."""
    try:
        text = repr(value)
    except ValueError:  # an integer of more digits than Python converts
        return "an integer of thousands of digits"
    return text if len(text) <= SHOWN else f"{text[:SHOWN]}..."
