"""Files as a git revision has them, through plumbing that reads objects alone.

Nothing of the repository is executed: no hook, filter, text conversion, pager or file monitor, and nothing is
fetched. No file is checked out, and none is written.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from ptxtemplates.errors import PtxTemplatesError

if TYPE_CHECKING:
    from collections.abc import Sequence

KEPT: Final = ("GIT_CEILING_DIRECTORIES", "GIT_DISCOVERY_ACROSS_FILESYSTEM")
"""What of the environment says where git may look. The others that begin with ``GIT_`` redirect it, as hooks
find them; those of the user's configuration (``GIT_CONFIG_...``) stay too."""

FIXED: Final = {
    "GIT_ALLOW_PROTOCOL": "none",  # a partial clone fetches what it lacks; this and the next forbid it
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_NO_REPLACE_OBJECTS": "1",  # a commit is what its name says
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_TERMINAL_PROMPT": "0",
    "LC_ALL": "C",
}
OPTIONS: Final = (
    "--no-pager",
    "--literal-pathspecs",
    "-c",
    "core.fsmonitor=false",
    # a folder of the tree that looks like a repository of its own, with a configuration of its own, is none
    "-c",
    "safe.bareRepository=explicit",
)
REGULAR: Final = ("100644", "100755", "100664")  # the last: by very old versions of git

_COMMIT: Final = re.compile(rb"([0-9a-f]{40,64}) commit [0-9]+")
_BLOB: Final = re.compile(rb"([0-9a-f]{40,64}) blob ([0-9]+)\n")


class Entry(NamedTuple):
    """What a path is in a commit.

    Attributes
    ----------
    mode : str
        Six digits; `REGULAR` has those of files, ``120000`` is a symbolic link, ``160000`` a submodule.
    name : str
        Of the object that holds the content.
    size : int
        Bytes; 0 of a folder and of a submodule.
    """

    mode: str
    name: str
    size: int


class Repository:
    """The git repository around a folder.

    Parameters
    ----------
    folder : pathlib.Path
        Paths are relative to it.

    Raises
    ------
    PtxTemplatesError
        If git is not installed or will not read there, or the folder is in no repository, in a bare one, or
        in what a repository keeps for itself.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._program = _program()
        try:
            facts = self._run("rev-parse", "--is-inside-work-tree", "--is-shallow-repository").split()
        except PtxTemplatesError as error:
            if "not a git repository" in str(error):
                raise PtxTemplatesError(f"{folder.resolve()} is in no git repository") from error
            if "bare repository" in str(error):
                raise PtxTemplatesError(_bare(folder)) from error
            raise
        if facts[0] != b"true":
            raise PtxTemplatesError(_bare(folder))
        self.shallow = facts[1] == b"true"

    def find(self, revision: str) -> str | None:
        """Return the name of the commit that a revision means, all digits; None if it means none here."""
        if not revision or not revision.isprintable():
            return None
        # asked on standard input, it can be no option, whatever it begins with
        question = f"{revision}^{{commit}}\n".encode()
        found = _COMMIT.fullmatch(self._run("cat-file", "--batch-check", given=question).rstrip(b"\n"))
        return None if found is None else found[1].decode()

    def commit(self, revision: str) -> str:
        """Do what `find` does, of a revision that must be there.

        Raises
        ------
        PtxTemplatesError
            If it is not. The message says what may be missing.
        """
        if revision.startswith("-"):
            raise PtxTemplatesError(f"{revision!r} is no revision")
        found = self.find(revision)
        if found is None:
            raise PtxTemplatesError(f"git knows no revision {revision!r}{self._hint(revision)}")
        return found

    def _hint(self, revision: str) -> str:
        if ".." in revision:
            return ": that is a range; name one commit, such as the output of git merge-base"
        if self.find(f"origin/{revision}") is not None:
            return f"; did you mean 'origin/{revision}'?"
        if self.shallow:
            return (
                ": this clone is shallow; git fetch --unshallow gets the rest, fetch-depth: 0 of "
                "actions/checkout does not leave it out"
            )
        return ""

    def entries(self, commit: str, *paths: str) -> dict[str, Entry]:
        """Return what paths are in a commit, as far as they are there; for ``folder/`` what is in it."""
        found = {}
        for line in self._run("ls-tree", "-z", "-l", commit, "--", *paths).split(b"\0")[:-1]:
            head, _, path = line.partition(b"\t")
            mode, _, name, size = head.decode().split()
            found[path.decode(errors="surrogateescape")] = Entry(mode, name, int(size) if size != "-" else 0)
        return found

    def contents(self, names: Sequence[str]) -> list[bytes]:
        """Return the content of each object, all in one go.

        Raises
        ------
        PtxTemplatesError
            If one is not in this clone, or no file.
        """
        question = "".join(f"{name}\n" for name in names).encode()
        answer = self._run("cat-file", "--batch", "--buffer", given=question)
        contents = []
        position = 0
        for name in names:
            found = _BLOB.match(answer, position)
            if found is None:
                raise PtxTemplatesError(f"git has no file {name} in this clone; git fsck says what is wrong")
            end = found.end() + int(found[2])
            contents.append(answer[found.end() : end])
            position = end + 1
        return contents

    def _run(self, *arguments: str, given: bytes = b"") -> bytes:
        """Run git and return what it prints."""
        environment = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith("GIT_") or name in KEPT or name.startswith("GIT_CONFIG_")
        }
        command = [self._program, *OPTIONS, "-C", str(self._folder), *arguments]
        try:
            ran = subprocess.run(
                command, input=given, capture_output=True, check=False, env=environment | FIXED
            )
        except OSError as error:
            raise PtxTemplatesError(f"cannot run git: {error.strerror or error}") from error
        if ran.returncode == 0:
            return ran.stdout
        complaints = ran.stderr.decode(errors="replace")
        if "promisor" in complaints:
            raise PtxTemplatesError(
                "this clone is a partial one and lacks files of that revision; "
                "git fetch --refetch --no-filter gets them"
            )
        fatal = re.search("^fatal: (.*)$", complaints, re.MULTILINE)
        raise PtxTemplatesError(
            f"git {arguments[0]}: {fatal[1] if fatal else complaints.strip() or 'failed'}"
        )


def _bare(folder: Path) -> str:
    return f"{folder.resolve()} is in a bare git repository, or in its .git folder; work in a checkout of it"


def _program() -> str:
    """Find git on ``PATH``, and never in the folder one happens to be in: that may be anyone's."""
    found = shutil.which("git")
    if found is None or not Path(found).is_absolute():
        raise PtxTemplatesError("cannot run git: it is not on PATH")
    return found
