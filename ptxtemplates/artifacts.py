"""The build directory: PTX files and the manifest that a loader reads."""

from __future__ import annotations

import contextlib
import shutil
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Final

from ptxtemplates.config import matches
from ptxtemplates.errors import ArtifactError
from ptxtemplates.manifest import MANIFEST, dump_manifest, entry_of, load_manifest
from ptxtemplates.rendering import render
from ptxtemplates.stamp import PRIVATE, finished_build, write_stamp

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from ptxtemplates.kernel import Kernel
    from ptxtemplates.manifest import Entry
    from ptxtemplates.rendering import RenderedKernel

LOCK: Final = f"{PRIVATE}/lock"
STAGING: Final = f"{PRIVATE}/staging"
LOCK_TIMEOUT_S: Final = 120.0


@dataclass(frozen=True)
class BuildPlan:
    """What separates a build directory from the kernels it should hold.

    Paths are relative, with ``/``.

    Attributes
    ----------
    contents : dict of str to bytes
        Every file that should be there.
    missing, differing, dropped : list of str
        Files to write because they are not there or not right; files of earlier builds to remove.
    """

    contents: dict[str, bytes]
    missing: list[str] = field(default_factory=list)
    differing: list[str] = field(default_factory=list)
    dropped: list[str] = field(default_factory=list)

    @property
    def written(self) -> list[str]:
        """Files to write."""
        return sorted(self.missing + self.differing)

    @property
    def unchanged(self) -> list[str]:
        """Files that are right as they are."""
        return sorted(self.contents.keys() - set(self.missing) - set(self.differing))

    @property
    def current(self) -> bool:
        """Whether there is nothing to do."""
        return not (self.missing or self.differing or self.dropped)


def build(
    kernels: Sequence[Kernel],
    out: Path,
    *,
    pattern: str | None = None,
    progress: Callable[[Iterable[Kernel]], Iterable[Kernel]] = iter,
) -> BuildPlan:
    """Render kernels into a directory, with a manifest.

    Everything is rendered and staged before the first file of the directory changes. Then files are renamed
    into place, those that an earlier build listed and this one does not are removed, and the manifest is
    replaced last: who checks sha256 never takes a half-finished build for a whole one. Files whose bytes
    would not change are not touched, foreign files neither.

    Parameters
    ----------
    kernels : sequence of Kernel
        What to render.
    out : pathlib.Path
        The build directory; made if it does not exist. One build at a time holds its lock.
    pattern : str, optional
        The shell pattern that `kernels` were selected by: entries of the old manifest that it does not match
        stay.
    progress : callable, optional
        Wraps the kernels and sees each go by.

    Returns
    -------
    BuildPlan
        What was done.

    Raises
    ------
    TemplateError
        If a kernel cannot be rendered, or its text breaks a rule.
    ArtifactError
        If the directory cannot be read or written.
    """
    if pattern is None and (contents := finished_build(kernels, out)):
        return BuildPlan(contents)
    rendered = [_checked(kernel) for kernel in progress(kernels)]
    with _file_errors(out), _made(out), _locked(out):
        plan = _plan(rendered, out, pattern)
        with _staged(plan, out) as staging:
            for path in plan.written:
                if path != MANIFEST:
                    (staging / path).replace(out / path)
            for path in plan.dropped:
                _remove(out, path)
            if MANIFEST in plan.written:
                (staging / MANIFEST).replace(out / MANIFEST)
        if pattern is None:
            write_stamp(kernels, out, plan.contents[MANIFEST])
    return plan


def check(
    kernels: Sequence[Kernel],
    out: Path,
    *,
    pattern: str | None = None,
    progress: Callable[[Iterable[Kernel]], Iterable[Kernel]] = iter,
) -> BuildPlan:
    """Say what `build` would do, and do nothing. Parameters and errors are those of `build`."""
    rendered = [_checked(kernel) for kernel in progress(kernels)]
    with _file_errors(out):
        return _plan(rendered, out, pattern)


def _checked(kernel: Kernel) -> RenderedKernel:
    rendered = render(kernel)
    rendered.check()
    return rendered


def _plan(rendered: list[RenderedKernel], out: Path, pattern: str | None) -> BuildPlan:
    """Compare the directory with what it should hold."""
    entries = {item.kernel.variant: entry_of(item) for item in rendered}
    contents = {entries[item.kernel.variant]["file"]: item.text.encode() for item in rendered}
    known = [*_interrupted(out), *load_manifest(out / MANIFEST)]
    kept = {}
    if pattern is not None:
        for entry in known:
            if not matches(entry["variant"], entry["kernel"], pattern):
                kept[entry["variant"]] = entry
    dropped = (
        {entry["file"] for entry in known} - contents.keys() - {entry["file"] for entry in kept.values()}
    )
    contents[MANIFEST] = dump_manifest((kept | entries).values()).encode()
    plan = BuildPlan(contents)
    for path, content in contents.items():
        try:
            right = (out / path).read_bytes() == content
        except FileNotFoundError:
            plan.missing.append(path)
        else:
            if not right:
                plan.differing.append(path)
    plan.dropped.extend(sorted(path for path in dropped if _is_ours(path) and (out / path).is_file()))
    return plan


def _interrupted(out: Path) -> list[Entry]:
    """Return the entries of a build that was killed while it renamed: its files may be there, unlisted."""
    try:
        return load_manifest(out / STAGING / MANIFEST)
    except ArtifactError:
        return []  # killed before the manifest was staged whole, and so before the first rename


def _is_ours(path: str) -> bool:
    """Tell whether a manifest may name `path` for removal: nothing outside the directory, nothing but PTX."""
    pure = PurePosixPath(path)
    return len(pure.parts) == 2 and ".." not in pure.parts and "\\" not in path and pure.suffix == ".ptx"


@contextlib.contextmanager
def _file_errors(out: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        path = error.filename2 or error.filename or out
        raise ArtifactError(f"cannot read or write {path}: {error.strerror or error}") from error


@contextlib.contextmanager
def _made(out: Path) -> Iterator[None]:
    """Make the directory; take it away again if what follows fails and leaves it empty."""
    if out.exists() and not out.is_dir():
        raise ArtifactError(f"{out} is a file; give a directory to build into")
    private = out / PRIVATE
    made = [folder for folder in (private, out, *out.parents) if not folder.exists()]
    private.mkdir(parents=True, exist_ok=True)
    try:
        if private in made:
            (private / ".gitignore").write_bytes(b"*\n")
        yield
    except BaseException:
        if private in made:
            shutil.rmtree(private, ignore_errors=True)
        with contextlib.suppress(OSError):
            for folder in made[1:]:
                folder.rmdir()
        raise


@contextlib.contextmanager
def _locked(out: Path) -> Iterator[None]:
    from filelock import FileLock, Timeout  # 20 ms: only a build needs it

    try:
        with FileLock(out / LOCK, timeout=LOCK_TIMEOUT_S):
            yield
    except Timeout as error:
        raise ArtifactError(
            f"another build has held {out / LOCK} for {LOCK_TIMEOUT_S:.0f} s; wait for it, or end it"
        ) from error


@contextlib.contextmanager
def _staged(plan: BuildPlan, out: Path) -> Iterator[Path]:
    """Write every changed file, manifest included, into the staging directory; it is gone afterwards."""
    staging = out / STAGING
    shutil.rmtree(staging, ignore_errors=True)
    if plan.current:
        yield staging
        return
    try:
        for path in plan.written:
            for folder in (staging, out):
                (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (staging / path).write_bytes(plan.contents[path])
        yield staging
    finally:
        shutil.rmtree(staging, ignore_errors=True)
        for folder in {(out / path).parent for path in plan.contents}:
            with contextlib.suppress(OSError):  # a kernel's folder that stayed empty because staging failed
                folder.rmdir()


def _remove(out: Path, path: str) -> None:
    (out / path).unlink(missing_ok=True)
    with contextlib.suppress(OSError):  # other files are in it
        (out / path).parent.rmdir()
