"""The two sets of kernels that are compared, from whatever names them."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from ptxtemplates.config import load, matches
from ptxtemplates.errors import PtxTemplatesError, suggestion
from ptxtemplates.git import Repository
from ptxtemplates.manifest import description_of
from ptxtemplates.rendering import render
from ptxtemplates.review.files import of_file
from ptxtemplates.review.folders import of_folder
from ptxtemplates.review.model import KernelSet, Side
from ptxtemplates.review.reading import exists
from ptxtemplates.review.revisions import of_commit

if TYPE_CHECKING:
    from collections.abc import Sequence

WORKING_TREE = "working tree"


def collect_both(
    old: str, new: str | None, config: Path, patterns: Sequence[str] = ()
) -> tuple[KernelSet, KernelSet]:
    """Collect both sets, with the kernels that are to be compared under the same names.

    Two files that hold one kernel each are compared with each other, whatever those are called; both kernels
    then go by the name that the new one has. Of a file and anything else, the kernels of the file are
    compared; one that holds a single kernel may also be named as that kernel is: ``<variant>.ptx``.

    Parameters
    ----------
    old, new : str
        As `collect` takes them; None for `new` means what the working tree renders.
    config : pathlib.Path
        The list of variants.
    patterns : sequence of str, optional
        Shell patterns; only kernels that one of them means, by variant or kernel name, are left.

    Raises
    ------
    PtxTemplatesError
        As `collect` says; or if nothing is left to compare.
    """
    before = collect(old, config)
    after = collect_working_tree(config) if new is None else collect(new, config)
    if not before.kernels and not after.kernels:
        raise PtxTemplatesError(f"neither {before.title} nor {after.title} has kernels beside {config.name}")
    single = [_is_file(old), new is not None and _is_file(new)]
    if all(single):
        before = _renamed(before, after)
    elif single[0]:
        before, after = _of_file_and_set(before, after)
    elif single[1]:
        after, before = _of_file_and_set(after, before)
    return _chosen(before, after, patterns) if patterns else (before, after)


def collect(word: str, config: Path) -> KernelSet:
    """Collect the kernels that a word names.

    A word is the path of a PTX file, of a build directory, of a folder of snapshots or of the one that those
    lie in; or a git revision, which means the snapshots beside the list of variants as they are committed
    there.

    Parameters
    ----------
    word : str
        A path or a revision. A word that could be either is refused.
    config : pathlib.Path
        The list of variants.

    Raises
    ------
    PtxTemplatesError
        If the word names nothing, or both; if what it names cannot be read, is not what it says it is, leads
        out of its folder, or is larger than what kernels are.
    """
    if not word:  # what a shell makes of a variable that is not set
        raise PtxTemplatesError("an empty word names nothing to compare: give a path or a revision")
    path = Path(word)
    if not exists(path):
        if word.endswith(".ptx") or _is_path(word):
            raise PtxTemplatesError(f"{word} does not exist")
        return _of_unknown(word, config)
    if not _is_path(word) and _is_revision(word, config):
        raise PtxTemplatesError(
            f"{word!r} is a path and a git revision too: write {f'.{os.sep}{word}'!r} or {f'{word}~0'!r}"
        )
    if path.is_dir():
        return of_folder(path)
    if not word.endswith(".ptx"):
        raise PtxTemplatesError(f"{word} is neither a folder nor a .ptx file")
    return of_file(path)


def collect_working_tree(config: Path) -> KernelSet:
    """Render every variant of a list.

    Parameters
    ----------
    config : pathlib.Path
        The list of variants.

    Raises
    ------
    ConfigError, TemplateError
        If the list cannot be read, or a template does not render.
    """
    sides = {}
    for kernel in sorted(load(config), key=lambda kernel: kernel.variant):
        rendered = render(kernel)
        sides[kernel.variant] = Side(
            kernel.variant,
            rendered.text,
            description_of(kernel),
            rendered.places,
            f"{kernel.variant}.ptx",
        )
    return KernelSet(WORKING_TREE, sides)


def _of_unknown(word: str, config: Path) -> KernelSet:
    """Read a revision; where git knows none, the word may have been meant as a path."""
    try:
        repository = Repository(config.parent)
        commit = repository.commit(word)
    except PtxTemplatesError as error:
        raise PtxTemplatesError(f"no file or folder is named {word!r}, and {error}") from error
    return of_commit(repository, word, commit, config.name)


def _is_path(word: str) -> bool:
    """Tell whether a word can only be a path: an absolute one, or one that begins with a dot."""
    return Path(word).is_absolute() or word in (".", "..") or word.startswith(("./", "../", ".\\", "..\\"))


def _is_revision(word: str, config: Path) -> bool:
    try:
        return Repository(config.parent).find(word) is not None
    except PtxTemplatesError:
        return False


def _is_file(word: str) -> bool:
    return not Path(word).is_dir() and word.endswith(".ptx")


def _renamed(before: KernelSet, after: KernelSet) -> KernelSet:
    """Give the one kernel of a file the name of the one kernel of another."""
    if len(before.kernels) != 1 or len(after.kernels) != 1:
        return before
    [old], [name] = before.kernels.values(), after.kernels
    return KernelSet(before.title, {name: old._replace(name=name)})


def _of_file_and_set(single: KernelSet, others: KernelSet) -> tuple[KernelSet, KernelSet]:
    """Return a file and a set, both with the kernels alone that are in the file."""
    kernels = single.kernels
    if len(kernels) == 1:
        [side] = kernels.values()
        stem = Path(single.title).stem
        if stem in others.kernels:
            kernels = {stem: side._replace(name=stem)}
    found = {name: side for name, side in others.kernels.items() if name in kernels}
    if not found:
        [name, *_] = kernels
        raise PtxTemplatesError(
            f"{others.title} has no kernel of the name of one in {single.title}; "
            f"{suggestion(name, others.kernels)}"
        )
    return KernelSet(single.title, kernels), KernelSet(others.title, found)


def _chosen(before: KernelSet, after: KernelSet, patterns: Sequence[str]) -> tuple[KernelSet, KernelSet]:
    """Leave the kernels that a pattern means; every pattern must mean one."""
    sides = [*before.kernels.values(), *after.kernels.values()]
    for pattern in patterns:
        if not any(_means(side, pattern) for side in sides):
            names = {side.name for side in sides} | {_kernel_of(side) for side in sides}
            raise PtxTemplatesError(f"no kernel matches {pattern!r}; {suggestion(pattern, names)}")
    # a variant that one side describes and the other does not is still one variant
    meant = {side.name for side in sides for pattern in patterns if _means(side, pattern)}
    left, right = (
        KernelSet(each.title, {name: side for name, side in each.kernels.items() if name in meant})
        for each in (before, after)
    )
    return left, right


def _means(side: Side, pattern: str) -> bool:
    return matches(side.name, _kernel_of(side), pattern)


def _kernel_of(side: Side) -> str:
    return side.name if side.description is None else str(side.description["kernel"])
