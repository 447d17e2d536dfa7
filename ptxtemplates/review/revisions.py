"""Kernels of a git revision: the snapshots as they are committed there."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ptxtemplates.errors import PtxTemplatesError
from ptxtemplates.git import REGULAR
from ptxtemplates.review.folders import SIDECAR, SNAPSHOTS, sides_of
from ptxtemplates.review.model import KernelSet
from ptxtemplates.review.reading import check_sizes, variant_of

if TYPE_CHECKING:
    from ptxtemplates.git import Entry, Repository

DIGITS: Final = 8
"""Of a commit's name, in titles."""

FOLDER: Final = "040000"
KINDS: Final = {"120000": "a symbolic link", "160000": "a submodule", FOLDER: "a folder"}


def of_commit(repository: Repository, revision: str, commit: str, config: str) -> KernelSet:
    """Read the snapshots that a commit has in a repository's folder.

    A commit that has neither snapshots nor a list of variants there is one from before there were kernels,
    and gives none.

    Parameters
    ----------
    repository : Repository
        At the folder of the list of variants.
    revision : str
        What messages call the commit.
    commit : str
        Its name, all digits.
    config : str
        File name of the list of variants.

    Raises
    ------
    PtxTemplatesError
        If what the commit has is not to be read.
    """
    title = f"{revision} ({commit[:DIGITS]})"
    if len(revision) >= DIGITS and commit.startswith(revision):
        title = commit[:DIGITS]
    there = repository.entries(commit, SNAPSHOTS, SIDECAR, config)
    if SNAPSHOTS not in there:
        if config in there or SIDECAR in there:
            raise PtxTemplatesError(f"{title} has no {SNAPSHOTS}/ beside {config}")
        return KernelSet(title, {})
    if there[SNAPSHOTS].mode != FOLDER:
        kind = KINDS.get(there[SNAPSHOTS].mode, "a file")
        raise PtxTemplatesError(f"{revision}:{SNAPSHOTS} is {kind}, and not the folder of the snapshots")
    listed = repository.entries(commit, f"{SNAPSHOTS}/")
    wanted = {path: entry for path, entry in listed.items() if path.endswith(".ptx")}
    if SIDECAR in there:
        wanted[SIDECAR] = there[SIDECAR]
    _check(wanted, revision)
    contents = repository.contents([entry.name for entry in wanted.values()])
    files = dict(zip(wanted, contents, strict=True))
    sidecar = files.pop(SIDECAR, None)
    sides = sides_of(
        {path.removeprefix(f"{SNAPSHOTS}/"): content for path, content in files.items()},
        f"{revision}:{SNAPSHOTS}",
        sidecar,
        f"{revision}:{SIDECAR}",
    )
    return KernelSet(title, sides)


def _check(entries: dict[str, Entry], revision: str) -> None:
    """Refuse what is not named as a kernel, no file or too large, before anything is read."""
    for path, entry in entries.items():
        if path != SIDECAR:
            variant_of(path.removeprefix(f"{SNAPSHOTS}/"), f"{revision}:{path}")  # before any message has it
        if entry.mode not in REGULAR:
            kind = KINDS.get(entry.mode, "no file")
            raise PtxTemplatesError(f"{revision}:{path} is {kind}, and not the file of a kernel")
    check_sizes((f"{revision}:{path}", entry.size) for path, entry in entries.items())
