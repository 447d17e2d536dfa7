"""What became of a case."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from ptxtemplates.references.place import Observation


class Mismatch(NamedTuple):
    """An element that is not what it must be: of those in a part of a buffer, the one that is furthest off.

    Attributes
    ----------
    buffer : str
        Which.
    element : tuple of int
        Its index.
    got, expected, bound : float
        Its value, the exact one, and the largest allowed difference: 0 where the same bits are asked for, NaN
        expected where NaN is.
    wrong : int
        How many elements of the part are off.
    """

    buffer: str
    element: tuple[int, ...]
    got: float
    expected: float
    bound: float
    wrong: int


class Outcome(NamedTuple):
    """What became of a case.

    Attributes
    ----------
    case : str
        Its name.
    worst : float
        Largest error divided by its bound; 0 where no element has a bound, infinity where the bound is 0 and
        the element is off.
    worst_at : tuple of (str, tuple of int) or None
        Buffer and element of that error.
    mismatches : tuple of Mismatch
        What is wrong in the results.
    findings : tuple of Observation
        What is wrong in the execution.
    error : str
        Why it could not be run to its end, or empty.
    seconds : float
        Time, inputs and exact results included.
    skipped : str
        Why the place cannot run it, or empty: nothing is known then.
    """

    case: str
    worst: float
    worst_at: tuple[str, tuple[int, ...]] | None
    mismatches: tuple[Mismatch, ...]
    findings: tuple[Observation, ...]
    error: str
    seconds: float
    skipped: str = ""

    @property
    def ok(self) -> bool:
        """Whether nothing is wrong."""
        return not (self.mismatches or self.findings or self.error)


class Verdict(NamedTuple):
    """What became of a kernel's text.

    Attributes
    ----------
    variant : str
        Which kernel.
    outcomes : tuple of Outcome
        Of each case.
    constants : tuple of str
        What is wrong with tables and constants.
    absent : tuple of str
        Tables and constants of the definition that a text from elsewhere does not have.
    """

    variant: str
    outcomes: tuple[Outcome, ...]
    constants: tuple[str, ...]
    absent: tuple[str, ...]

    @property
    def ok(self) -> bool:
        """Whether nothing is wrong."""
        return not self.constants and all(outcome.ok for outcome in self.outcomes)

    @property
    def worst(self) -> float:
        """Largest error of all cases, divided by its bound."""
        return max((outcome.worst for outcome in self.outcomes), default=0.0)

    @property
    def seconds(self) -> float:
        """Time of all cases."""
        return sum(outcome.seconds for outcome in self.outcomes)
