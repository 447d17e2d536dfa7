"""Two sets of kernels to a comparison: matched by name, each changed one looked at in its own process."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from ptxtemplates.processes import each
from ptxtemplates.review.model import Change, Comparison

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from ptxtemplates.review.model import KernelSet, Side


class _Task(NamedTuple):
    old: Side
    new: Side
    architectures: tuple[str, ...]


def compare(
    old: KernelSet,
    new: KernelSet,
    architectures: Sequence[str],
    *,
    jobs: int = 1,
    progress: Callable[[Sequence[Callable[[], Change]]], Iterable[Callable[[], Change]]] = iter,
) -> Comparison:
    """Compare two sets.

    Parameters
    ----------
    old, new : KernelSet
    architectures : sequence of str
        For which machine code is compared and costs are given.
    jobs : int
        Processes.
    progress : callable
        Passes on what it is given, one by one, and may tell somebody.

    Returns
    -------
    Comparison
        Of all kernels, by name.
    """
    names = sorted({*old.kernels, *new.kernels})
    changes = {name: _trivial(old.kernels.get(name), new.kernels.get(name)) for name in names}
    tasks = [
        _Task(old.kernels[name], new.kernels[name], tuple(architectures))
        for name in names
        if changes[name] is None
    ]
    for change in each(look, tasks, jobs, progress):
        changes[change.name] = change
    found = tuple(change for change in changes.values() if change is not None)
    return Comparison(old.title, new.title, found, tuple(architectures))


def _trivial(old: Side | None, new: Side | None) -> Change | None:
    """Return what needs no look: a kernel that one set lacks, or that is the same in both."""
    if old is None:
        assert new is not None
        return Change(new.name, "added", None, new)
    if new is None:
        return Change(old.name, "removed", old, None)
    undescribed = None in (old.description, new.description)
    if old.text == new.text and (undescribed or _described(old) == _described(new)):
        return Change(new.name, "unchanged", old, new)
    return None


def _described(side: Side) -> dict[str, object] | None:
    return None if side.description is None else dict(side.description)


def look(task: _Task) -> Change:
    """Look at a kernel that both sets have."""
    # NumPy starts threads, and no process that has some should fork: it is loaded in here, not above
    from ptxtemplates.review.contract import contract_changes
    from ptxtemplates.review.cost import cost
    from ptxtemplates.review.meaning import meaning
    from ptxtemplates.review.text import text_change

    old, new, architectures = task
    return Change(
        new.name,
        "changed",
        old,
        new,
        text_change(old, new),
        contract_changes(old, new),
        cost(old, new, architectures),
        meaning(old, new, architectures),
    )
