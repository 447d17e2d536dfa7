"""Which variants have changed since a revision of the repository that has their snapshots."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ptxtemplates.git import Repository
from ptxtemplates.rendering import render

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from ptxtemplates.git import Entry
    from ptxtemplates.kernel import Kernel

SNAPSHOTS: Final = "snapshots"


def changed_since(kernels: Sequence[Kernel], folder: Path, revision: str) -> list[Kernel]:
    """Return the kernels whose text is not the snapshot of a revision.

    That is so if what they render to now differs from it, or the committed snapshot does, or there was none.

    Parameters
    ----------
    kernels : sequence of Kernel
        To choose from.
    folder : pathlib.Path
        Within a git repository; ``snapshots/`` lies in it.
    revision : str
        A commit, by any name that git knows.

    Raises
    ------
    PtxTemplatesError
        If git cannot be run, the folder is in no repository, or the revision is unknown.
    """
    repository = Repository(folder)
    before = repository.entries(repository.commit(revision), f"{SNAPSHOTS}/")
    head = repository.find("HEAD")  # there is none before the first commit of a branch
    now = {} if head is None else repository.entries(head, f"{SNAPSHOTS}/")

    def snapshot(kernel: Kernel) -> Entry | None:
        path = f"{SNAPSHOTS}/{kernel.variant}.ptx"
        return before.get(path) if before.get(path) == now.get(path) else None

    kept = {kernel.variant: entry.name for kernel in kernels if (entry := snapshot(kernel))}
    texts = dict(zip(kept, repository.contents([*kept.values()]), strict=True))
    return [kernel for kernel in kernels if texts.get(kernel.variant) != render(kernel).text.encode()]
