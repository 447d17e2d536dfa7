"""Does a kernel still compute the same? The strongest that can be shown, and never more than was tried."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from ptxtemplates.emulator import emulate
from ptxtemplates.emulator.operations import DTYPES, UnsupportedInstruction
from ptxtemplates.errors import EmulationError, PtxSyntaxError
from ptxtemplates.references.settings import settings_of
from ptxtemplates.review.launching import for_emulator, planned, run_time_sizes, title_of
from ptxtemplates.review.machine_code import machine_code
from ptxtemplates.review.model import Example, Meaning
from ptxtemplates.review.sampling import SPECIAL, contents
from ptxtemplates.symbolic import Numbers, RealTerms, Terms, UndecidedError, run
from ptxtemplates.symbolic.machine import STEP_LIMIT
from ptxtemplates.symbolic.memory import PAGE

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    import numpy.typing as npt

    from ptxtemplates.emulator import Finding
    from ptxtemplates.review.launching import Planned, Shaped
    from ptxtemplates.review.model import Side
    from ptxtemplates.symbolic.memory import Region

SEEDS: Final = (0, SPECIAL)


class _Try(NamedTuple):
    """A launch of both texts."""

    title: str
    old: Planned
    new: Planned
    shapes: Mapping[str, Shaped]


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
        same_code = _same_machine_code(old, new, architectures)
        if same_code:
            return Meaning("identical machine code", f"for {', '.join(architectures)}")
        tries = _tries(old, new)
        if faults := _faults(tries):
            return Meaning("cannot tell", faults, tuple(each.title for each in tries))
    except (UndecidedError, UnsupportedInstruction, EmulationError, PtxSyntaxError) as error:
        return Meaning("cannot tell", _sentence(str(error)))
    except (KeyError, TypeError, ValueError, ArithmeticError) as error:
        # a description that is well-formed and makes no sense
        return Meaning("cannot tell", f"no launch follows from the descriptions: {_sentence(repr(error))}")
    titles = tuple(each.title for each in tries)
    exact = _first_apart(tries, Terms)
    if exact is None:
        return Meaning("same bits", "for all data, in the launches that were tried", titles)
    real = _first_apart(tries, RealTerms)
    # what is shown to be the same but for rounding needs no launch of many steps to show how it rounds
    seen = _by_numbers(tries if real is not None else tries[:-1] or tries)
    if seen.example is not None and (real is not None or seen.is_odd):
        reason = (
            f"not the same function over the reals: {real}" if real else "NaN or infinity on one side alone"
        )
        return Meaning("results differ", reason, titles, seen.largest_ulp, seen.example)
    if real is None:
        return Meaning("same over the reals", f"rounding may differ: {exact}", titles, seen.largest_ulp)
    return Meaning("cannot tell", f"{real}; no difference was seen", titles, seen.largest_ulp)


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
    made = []
    sizes = run_time_sizes(new.description)
    for setting in settings_of(new.description["kernel"], new.description["template_parameters"], sizes):
        before, _ = planned(old, setting)
        after, shapes = planned(new, setting)
        made.append(_Try(title_of(setting, after), before, after, shapes))
    return made


def _faults(tries: Sequence[_Try]) -> str:
    """Say what is wrong in the execution of the new text, or return an empty string."""
    for each in tries:
        if found := _findings(each.new):
            return f"the new text has a mistake: {found[0].describe()} ({each.title})"
    return ""


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
        written = {page for each in regions for page in each[name].pages()}
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
    example : Example or None
        The first difference.
    is_odd : bool
        Whether NaN or an infinity is on one side of it alone.
    """

    largest_ulp: int | None
    example: Example | None
    is_odd: bool = False


def _by_numbers(tries: Sequence[_Try]) -> _Seen:
    """Compare with chosen data, the smallest launch first; a NaN or infinity on one side goes before."""
    largest, first = None, None
    for each in tries:
        for seed in SEEDS:
            try:
                found = _differences(each, seed)
            except (UndecidedError, UnsupportedInstruction):
                continue
            largest = max(largest or 0, found.largest_ulp or 0)
            if found.is_odd:
                return _Seen(largest, found.example, is_odd=True)
            first = first or found.example
    return _Seen(largest, first)


def _differences(each: _Try, seed: int) -> _Seen:
    """Compare every value that either text writes."""
    old, new = Numbers("old", contents(seed)), Numbers("new", contents(seed))
    before, after = _launched(each.old, old), _launched(each.new, new)
    largest, example = 0, None
    for name, page in _pages((before, after)):
        shaped = each.shapes[name]
        dtype = DTYPES[shaped.element]
        first, second = (
            of.contents(regions[name], page).view(dtype) for of, regions in ((old, before), (new, after))
        )
        floating = dtype.kind == "f"
        wrong = first.view(f"u{dtype.itemsize}") != second.view(f"u{dtype.itemsize}")
        odd = np.zeros(wrong.shape, np.bool_)
        if floating:
            wrong &= ~(np.isnan(first) & np.isnan(second))
            odd = wrong & ~(np.isfinite(first) & np.isfinite(second))
        if shaped.element == "f32":
            largest = max(largest, _ulp(first, second))
        for mask, is_odd in ((odd, True), (wrong, False)):
            if mask.any() and (is_odd or example is None):
                place = int(np.argmax(mask))
                element = _element(name, page * PAGE // dtype.itemsize + place, shaped)
                found = Example(each.title, seed, element, f"{first[place]:.9g}", f"{second[place]:.9g}")
                if is_odd:
                    return _Seen(largest, found, is_odd=True)
                example = found
    return _Seen(largest, example)


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
