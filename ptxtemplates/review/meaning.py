"""Does a kernel still compute the same? The strongest that can be shown, and never more than was tried."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from ptxtemplates.emulator import emulate
from ptxtemplates.emulator.operations import DTYPES, UnsupportedInstruction
from ptxtemplates.emulator.operations.values import HALVES
from ptxtemplates.errors import EmulationError, PtxSyntaxError
from ptxtemplates.references.settings import settings_of
from ptxtemplates.review.launching import for_emulator, planned, run_time_sizes, title_of
from ptxtemplates.review.machine_code import machine_code
from ptxtemplates.review.model import Example, Meaning
from ptxtemplates.review.sampling import SPECIAL, contents
from ptxtemplates.review.text import text_change
from ptxtemplates.symbolic import Numbers, RealTerms, Terms, UndecidedError, run
from ptxtemplates.symbolic.machine import STEP_LIMIT
from ptxtemplates.symbolic.memory import PAGE
from ptxtemplates.symbolic.spelling import FLOATS

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    import numpy.typing as npt

    from ptxtemplates.emulator import Finding
    from ptxtemplates.references.settings import Setting
    from ptxtemplates.review.launching import Planned, Shaped
    from ptxtemplates.review.model import Side
    from ptxtemplates.symbolic.memory import Region

SEEDS: Final = (0, SPECIAL)
MORE_SEEDS: Final = (SPECIAL - 1, SPECIAL - 2)
"""Of more special data, in the first `SMALL` launches."""
SMALL: Final = 2

FAR: Final = 2.0**-10
"""Of the largest number nearby: what differs by more has not been rounded alone."""

_ONLY: Final = {
    "same": "nothing differs",
    "comments": "comments and blank lines differ",
    "names": "names differ",
    "layout": "order of declarations, spelling or white space differ",
}


class _Try(NamedTuple):
    """A launch of both texts."""

    title: str
    old: Planned
    new: Planned
    shapes: Mapping[str, Shaped]
    heavy: bool


def meaning(old: Side, new: Side, architectures: Sequence[str]) -> Meaning:
    """Compare what two texts compute.

    Parameters
    ----------
    old, new : Side
    architectures : sequence of str
        For which machine code is compared; none leaves that out.

    Returns
    -------
    Meaning
        *identical machine code* if it is for every architecture. *same bits* if every byte that either text
        writes is the same term of the data. *same over the reals* if it is the same term with unrounded
        arithmetic, and NaN and infinities come out alike. *results differ* with the smallest launch that
        shows it, if neither could be shown.
    """
    try:
        if _same_machine_code(old, new, architectures):
            return Meaning("identical machine code", f"for {', '.join(architectures)}")
        kind = text_change(old, new).kind
        if kind != "instructions" and _launched_alike(old, new):
            return Meaning("same bits", f"the instructions are the same: {_ONLY[kind]}")
        tries = _tries(old, new)
        titles = tuple(each.title for each in tries)
        fault = _fault(tries)
        if fault is None:
            return _shown(tries, titles)
        # a mistake in one launch takes nothing from what smaller ones show
        seen = _by_numbers(tries[: fault.launch])
        if seen.beyond:
            return Meaning("results differ", seen.why, titles, seen.largest_ulp, seen.example)
        return Meaning("cannot tell", fault.what, titles)
    except (EmulationError, PtxSyntaxError, UndecidedError, UnsupportedInstruction) as error:
        return Meaning("cannot tell", _sentence(str(error)))


def _shown(tries: Sequence[_Try], titles: tuple[str, ...]) -> Meaning:
    """Return the strongest verdict that executing both texts shows."""
    exact = _first_apart(tries, Terms)
    if exact is None:
        return Meaning("same bits", "for all data, in the launches that were tried", titles)
    real = _first_apart([each for each in tries if not each.heavy], RealTerms)
    seen = _by_numbers(tries)
    if seen.beyond:
        return Meaning("results differ", seen.why, titles, seen.largest_ulp, seen.example)
    if real is None:
        told = tuple(f"{each.title} (with numbers alone)" if each.heavy else each.title for each in tries)
        return Meaning("same over the reals", f"rounding may differ: {exact}", told, seen.largest_ulp)
    if seen.example is not None:
        reason = f"not shown to be rounding alone: {real}"
        return Meaning("results differ", reason, titles, seen.largest_ulp, seen.example)
    ran = "no difference was seen" if seen.ran else "neither could it be run with numbers"
    return Meaning("cannot tell", f"{real}; {ran}", titles, seen.largest_ulp)


def _launched_alike(old: Side, new: Side) -> bool:
    """Say whether nothing is known of another way to launch the new text."""
    if old.description is None or new.description is None:
        return True
    return all(old.description[key] == new.description[key] for key in ("parameters", "block", "grid"))


def _same_machine_code(old: Side, new: Side, architectures: Sequence[str]) -> bool:
    if old.description is None or new.description is None:
        entries = ("", "")
    else:
        entries = (old.description["entry"], new.description["entry"])
    for architecture in architectures:
        codes = [
            machine_code(side.text, entry, architecture)
            for side, entry in zip((old, new), entries, strict=True)
        ]
        if any(isinstance(code, str) for code in codes) or codes[0] != codes[1]:
            return False
    return bool(architectures)


def _tries(old: Side, new: Side) -> list[_Try]:
    """Plan the launches.

    Raises
    ------
    UndecidedError
        If nothing is known of the arguments, or the two texts take different ones.
    """
    if old.description is None or new.description is None:
        raise UndecidedError("nothing describes the arguments of a single file")
    signatures = [
        [(each["type"], each.get("tensor")) for each in description["parameters"]]
        for description in (old.description, new.description)
    ]
    if signatures[0] != signatures[1]:
        raise UndecidedError("the two take different arguments")
    try:
        sizes = run_time_sizes(new.description)
        settings = settings_of(new.description["kernel"], new.description["template_parameters"], sizes)
        return [_try(old, new, setting) for setting in settings]
    except (ArithmeticError, KeyError, TypeError, ValueError) as error:
        # a description that is well-formed and makes no sense
        raise UndecidedError(f"no launch follows from the descriptions: {error!r}") from error


def _try(old: Side, new: Side, setting: Setting) -> _Try:
    before, _ = planned(old, setting)
    after, shapes = planned(new, setting)
    if before.grid != after.grid and max(math.prod(each.grid) for each in (before, after)) > len(
        before.blocks
    ):
        raise UndecidedError(
            f"grids of {before.grid} and {after.grid} blocks, too many to run all of them: {setting.title}"
        )
    return _Try(title_of(setting, after), before, after, shapes, setting.heavy)


class _Fault(NamedTuple):
    """A mistake in an execution: in which of the launches, and what is said of it."""

    launch: int
    what: str


def _fault(tries: Sequence[_Try]) -> _Fault | None:
    """Return the first mistake in the execution of either text, of the new one before the old one."""
    for which in ("new", "old"):
        for number, each in enumerate(tries):
            if each.heavy and which == "old":
                continue
            if found := _findings(each.new if which == "new" else each.old):
                what = f"the {which} text has a mistake: {found[0].describe()} ({each.title})"
                return _Fault(number, what)
    return None


def _findings(plan: Planned) -> tuple[Finding, ...]:
    report = emulate(
        plan.text,
        plan.entry,
        plan.grid,
        plan.block,
        for_emulator(plan),
        blocks=plan.blocks,
        step_limit=STEP_LIMIT,
    )
    return report.findings


def _launched(plan: Planned, domain: Terms | Numbers) -> dict[str, Region]:
    return run(
        plan.text,
        plan.entry,
        plan.grid,
        plan.block,
        plan.arguments,
        domain,
        blocks=plan.blocks,
    )


def _pages(regions: Sequence[Mapping[str, Region]]) -> Iterator[tuple[str, int]]:
    """Yield the pages of buffers that either text wrote."""
    for name in regions[0]:
        written = {page for each in regions for page in each[name].pages.numbers()}
        yield from ((name, page) for page in sorted(written))


def _first_apart(tries: Sequence[_Try], kind: type[Terms]) -> str | None:
    """Say in which launch, or why, what is written cannot be shown to be the same; None if it is in all."""
    try:
        return next((f"other operations ({each.title})" for each in tries if not _same(each, kind)), None)
    except (UndecidedError, UnsupportedInstruction) as error:
        return _sentence(str(error))


def _same(each: _Try, kind: type[Terms]) -> bool:
    first, second = kind("old"), kind("new")
    before, after = _launched(each.old, first), _launched(each.new, second)
    return all(
        np.array_equal(first.contents(before[name], page), second.contents(after[name], page))
        for name, page in _pages((before, after))
    )


class _Seen(NamedTuple):
    """What launches with chosen data showed.

    Attributes
    ----------
    largest_ulp : int or None
        None if no float32 was compared.
    example : Example or None
        A difference: one beyond rounding, or else the first.
    beyond : str
        Why it is no matter of rounding, or empty.
    ran : bool
        Whether anything was run.
    """

    largest_ulp: int | None = None
    example: Example | None = None
    beyond: str = ""
    ran: bool = False

    @property
    def why(self) -> str:
        """What is said of a difference beyond rounding."""
        return f"by more than rounding: {self.beyond}"


def _by_numbers(tries: Sequence[_Try]) -> _Seen:
    """Compare with chosen data, the smallest launch first, until something beyond rounding is seen."""
    seen = _Seen()
    for number, each in enumerate(tries):
        # special data spreads: where one NaN makes all results NaN, it is ordinary data that tells
        seeds = SEEDS[:1] if each.heavy else SEEDS + (MORE_SEEDS if number < SMALL else ())
        for seed in seeds:
            try:
                found = _differences(each, seed)
            except (UndecidedError, UnsupportedInstruction):
                break
            ulp = max((ulp for ulp in (seen.largest_ulp, found.largest_ulp) if ulp is not None), default=None)
            if found.beyond:
                return found._replace(largest_ulp=ulp)
            seen = _Seen(ulp, seen.example or found.example, ran=True)
    return seen


def _differences(each: _Try, seed: int) -> _Seen:
    """Compare every value that either text writes."""
    old, new = Numbers("old", contents(seed)), Numbers("new", contents(seed))
    before, after = _launched(each.old, old), _launched(each.new, new)
    seen = _Seen(ran=True)
    for name, page in _pages((before, after)):
        shaped = each.shapes[name]
        dtype = DTYPES[shaped.element]
        first, second = (
            of.contents(regions[name], page).view(dtype) for of, regions in ((old, before), (new, after))
        )
        if shaped.element == "f32":
            seen = seen._replace(largest_ulp=max(seen.largest_ulp or 0, _ulp(first, second)))
        for beyond, mask in _apart(first, second, shaped.element):
            if mask.any() and (beyond or seen.example is None):
                place = int(np.argmax(mask))
                element = _element(name, page * PAGE // dtype.itemsize + place, shaped)
                values = (f"{float(first[place]):.9g}", f"{float(second[place]):.9g}")
                seen = seen._replace(example=Example(each.title, seed, element, *values), beyond=beyond)
                if beyond:
                    return seen
    return seen


def _apart(
    first: npt.NDArray[Any], second: npt.NDArray[Any], kind: str
) -> Iterator[tuple[str, npt.NDArray[np.bool_]]]:
    """Yield where two arrays differ, beyond rounding for a reason, then in any way."""
    bits = f"u{first.dtype.itemsize}"
    wrong = first.view(bits) != second.view(bits)
    if kind in HALVES:
        first, second = (each.view(DTYPES[HALVES[kind]]).reshape(-1, 2) for each in (first, second))
    elif kind not in FLOATS:
        yield "an integer is another one", wrong
        return
    a, b = (each.reshape(wrong.size, -1).astype(np.float64) for each in (first, second))
    nan = np.isnan(a) & np.isnan(b)
    unequal = wrong[:, None] & ~nan & (a != b)
    finite = np.isfinite(a) & np.isfinite(b)
    largest = np.max(np.where(finite, np.maximum(np.abs(a), np.abs(b)), 0), initial=0)
    yield "NaN or infinity on one side alone", (unequal & ~finite).any(axis=1)
    with np.errstate(invalid="ignore"):
        far = np.abs(np.where(finite, a - b, 0)) > FAR * largest
    yield "a result is far from what it was", (unequal & finite & far).any(axis=1)
    yield "", unequal.any(axis=1)


def _ulp(before: npt.NDArray[np.float32], after: npt.NDArray[np.float32]) -> int:
    """Return the largest distance of two finite numbers, counted in numbers between them."""
    finite = np.isfinite(before) & np.isfinite(after)
    if not finite.any():
        return 0
    first, second = (_ordered(np.where(finite, each, np.float32(0))) for each in (before, after))
    return int(np.abs(first - second).max())


def _ordered(numbers: npt.NDArray[np.float32]) -> npt.NDArray[np.int64]:
    """Return integers in the order of the numbers, adjacent for adjacent ones."""
    bits = numbers.view(np.int32).astype(np.int64)
    return np.where(bits < 0, -(bits & 0x7FFFFFFF), bits)


def _element(name: str, flat: int, shaped: Shaped) -> str:
    index = np.unravel_index(min(flat, int(np.prod(shaped.shape)) - 1), shaped.shape)
    return f"{name}[{', '.join(str(int(number)) for number in index)}]"


def _sentence(text: str) -> str:
    return " ".join(text.split())
