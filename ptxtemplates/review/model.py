"""What is compared, and what a comparison says. Reports read this and nothing else."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

Cell = int | float | Literal["n/a", "unreadable"]
"""A figure: ``n/a`` where there is none to be had (no assembler, architecture too old for the text),
``unreadable`` where it was asked for and could not be made."""


class Side(NamedTuple):
    """One kernel in one of the two sets.

    Attributes
    ----------
    name : str
        Of the variant; kernels of the two sets are matched by it.
    text : str
        PTX.
    description : mapping or None
        What ``snapshots.json`` or a manifest says of it: ``kernel``, ``entry``, ``parameters`` (arguments,
        with the role and the tensor of each), ``block``, ``grid``, ``grid_limits``, ``shared_memory``,
        ``target``, ``template_parameters``. None of a single file.
    places : sequence of (str, int), or None
        Template line of each PTX line; None where it was not rendered here.
    file : str
        What messages call it.
    """

    name: str
    text: str
    description: Mapping[str, Any] | None
    places: Sequence[tuple[str, int]] | None
    file: str


class KernelSet(NamedTuple):
    """One of the two sets that are compared.

    Attributes
    ----------
    title : str
        What reports call it, such as ``main (1a2b3c4)`` or ``working tree``.
    kernels : mapping of str to Side
        By name, sorted.
    """

    title: str
    kernels: Mapping[str, Side]


class Hunk(NamedTuple):
    """Lines that changed together, once for all places where the same change was made.

    Attributes
    ----------
    old_lines, new_lines : tuple of (int, str)
        PTX line numbers and lines that are gone, and that are there instead, of the first place.
    before, after : tuple of (int, str)
        A few unchanged lines around them, with the numbers that they have in the new text.
    times : int
        How often the same change is made.
    places : tuple of (str, int)
        Template lines that the new lines come from, or, where lines are only gone, that they came from if
        that is known; each once.
    """

    old_lines: tuple[tuple[int, str], ...]
    new_lines: tuple[tuple[int, str], ...]
    before: tuple[tuple[int, str], ...]
    after: tuple[tuple[int, str], ...]
    times: int
    places: tuple[tuple[str, int], ...]


TextKind = Literal["same", "comments", "names", "layout", "instructions"]
"""The most that differs: nothing; comments and blank lines; names of registers and labels as well; the order
of declarations or white space; instructions, directives or tables."""


class TextChange(NamedTuple):
    """What changed in the text.

    Attributes
    ----------
    kind : TextKind
    hunks : tuple of Hunk
    added, removed : int
        Lines, repeated changes counted each time.
    """

    kind: TextKind
    hunks: tuple[Hunk, ...]
    added: int
    removed: int


class ContractChange(NamedTuple):
    """One thing that callers rely on, before and after.

    Attributes
    ----------
    what : str
        Such as ``parameter 3 (seq_lens_ptr): type`` or ``block``.
    before, after : str
        As a reader takes them; empty where there is none.
    breaking : bool
        Whether a caller that was right before can be wrong now.
    why : str
        One sentence: what a caller must do, or why nothing.
    """

    what: str
    before: str
    after: str
    breaking: bool
    why: str


class CostChange(NamedTuple):
    """A figure that moved.

    Attributes
    ----------
    what : str
        ``registers``, ``spill stores`` (bytes), ``spill loads`` (bytes), ``shared memory`` (bytes),
        ``machine instructions``, ``occupancy``; and of the emulator's launch ``thread-instructions``,
        ``bytes``, ``sectors``, ``sectors over ideal``.
    where : str
        Architecture (``sm_90``), or ``emulator``.
    before, after : Cell
    """

    what: str
    where: str
    before: Cell
    after: Cell


class Cost(NamedTuple):
    """What a kernel costs, before and after.

    Attributes
    ----------
    changes : tuple of CostChange
        Where it moved, or where not both sides are numbers.
    compared, asked : int
        Of how many figures both sides are numbers; how many there could be.
    notes : tuple of str
        Why the others are not compared: each reason once.
    """

    changes: tuple[CostChange, ...]
    compared: int
    asked: int
    notes: tuple[str, ...]

    @property
    def shown(self) -> tuple[CostChange, ...]:
        """The changes that a reader is shown: what neither side has stands in the notes."""
        return tuple(each for each in self.changes if (each.before, each.after) != ("n/a", "n/a"))


VERDICTS: Final = (
    "identical machine code",
    "same bits",
    "same over the reals",
    "results differ",
    "cannot tell",
)
"""What is said of meaning, strongest first."""


class Example(NamedTuple):
    """The smallest input that was found to show a difference.

    Attributes
    ----------
    setting : str
        Sizes and lengths, such as ``rows 1, max_chunks 1, lengths 1``.
    seed : int
        Of the data.
    element : str
        Such as ``output_ptr[0, 3, 17]``.
    before, after : str
        Its value.
    """

    setting: str
    seed: int
    element: str
    before: str
    after: str


class Meaning(NamedTuple):
    """Whether the kernel still computes the same.

    Attributes
    ----------
    verdict : str
        Of `VERDICTS`.
    reason : str
        Why nothing stronger is said; of machine code, for which architectures. One sentence.
    tried : tuple of str
        Settings that the verdict rests on.
    largest_ulp : int or None
        Largest difference seen between two float32 results, in units in the last place; None if none was
        compared.
    example : Example or None
    """

    verdict: str
    reason: str
    tried: tuple[str, ...] = ()
    largest_ulp: int | None = None
    example: Example | None = None


class Change(NamedTuple):
    """What became of a kernel.

    Attributes
    ----------
    name : str
    status : {"added", "removed", "changed", "unchanged"}
    old, new : Side or None
    text : TextChange or None
        None of an added or removed kernel, as are the others.
    contract : tuple of ContractChange
    cost : Cost or None
    meaning : Meaning or None
    """

    name: str
    status: Literal["added", "removed", "changed", "unchanged"]
    old: Side | None
    new: Side | None
    text: TextChange | None = None
    contract: tuple[ContractChange, ...] = ()
    cost: Cost | None = None
    meaning: Meaning | None = None


class Comparison(NamedTuple):
    """Two sets side by side.

    Attributes
    ----------
    old, new : str
        Titles.
    changes : tuple of Change
        Of all kernels, by name; unchanged ones too.
    architectures : tuple of str
        That costs were asked for.
    failures : tuple of str
        What the policy objects to, one sentence each; empty if nothing.
    unanswered : tuple of str
        What it asks for and nobody could tell, likewise.
    """

    old: str
    new: str
    changes: tuple[Change, ...]
    architectures: tuple[str, ...]
    failures: tuple[str, ...] = ()
    unanswered: tuple[str, ...] = ()
