"""Which variants have changed since a revision of the repository that has their snapshots."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING, Final

from ptxtemplates.errors import PtxTemplatesError
from ptxtemplates.rendering import render

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

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
    if revision.startswith("-"):
        raise PtxTemplatesError(f"{revision!r} is no revision")
    if _git(folder, "rev-parse", "--is-inside-work-tree") is None:
        raise PtxTemplatesError(
            f"{folder.resolve()} is in no git repository, so nothing is known of {revision!r}"
        )
    commit = _git(folder, "rev-parse", "--verify", "--quiet", f"{revision}^{{commit}}")
    if commit is None:
        raise PtxTemplatesError(f"git knows no revision {revision!r}")
    before, now = _blobs(folder, commit.decode().strip()), _blobs(folder, "HEAD")

    def changed(kernel: Kernel) -> bool:
        path = f"{SNAPSHOTS}/{kernel.variant}.ptx"
        blob = before.get(path)
        if blob is None or blob != now.get(path):
            return True
        return _git(folder, "cat-file", "blob", blob) != render(kernel).text.encode()

    return [kernel for kernel in kernels if changed(kernel)]


def _blobs(folder: Path, commit: str) -> dict[str, str]:
    """Return the object of each snapshot in a commit, by path from the folder."""
    listing = _git(folder, "ls-tree", "-z", commit, f"{SNAPSHOTS}/") or b""
    entries = (entry.partition("\t") for entry in listing.decode().split("\0") if entry)
    return {path: head.split()[2] for head, _, path in entries}


def _git(folder: Path, *arguments: str) -> bytes | None:
    """Run git and return what it prints; None if it fails."""
    try:
        ran = subprocess.run(
            ["git", "-C", str(folder), *arguments], stdin=subprocess.DEVNULL, capture_output=True, check=False
        )
    except OSError as error:
        raise PtxTemplatesError(f"cannot run git: {error.strerror or error}") from error
    return ran.stdout if ran.returncode == 0 else None
