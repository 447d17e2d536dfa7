"""The build directory: PTX files and the manifest that a loader reads."""

from __future__ import annotations

import contextlib
import hashlib
import shutil
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ptxtemplates.config import matches
from ptxtemplates.errors import ArtifactError
from ptxtemplates.manifest import MANIFEST, dump_manifest, files_of, load_manifest
from ptxtemplates.products import Making, make
from ptxtemplates.stamp import LOCK, PRIVATE, STAGING, finished_build, write_stamp

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from ptxtemplates.kernel import Kernel
    from ptxtemplates.manifest import Entry
    from ptxtemplates.products import Product

LOCK_TIMEOUT_S: Final = 120.0
ONLY_PTX: Final = Making()


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
    out: Path | str,
    *,
    pattern: str | None = None,
    making: Making = ONLY_PTX,
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
    out : pathlib.Path or str
        The build directory; made if it does not exist. One build at a time holds its lock.
    making : Making, optional
        What to make of each kernel beside its PTX.
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
    TemplateError, AssemblyError, MissingExtraError
        As `ptxtemplates.products.make` says.
    ArtifactError
        If the directory cannot be read or written, or two variants would share a file.
    """
    out = Path(out)
    if pattern is None and (contents := finished_build(kernels, making, out)):
        return BuildPlan(contents)
    _refuse_twins(kernels)
    products = make(kernels, making, progress)
    with _file_errors(out), _locked(out):
        _clear_interrupted(out)
        plan = _plan(products, out, pattern, load_manifest(out / MANIFEST))
        if not plan.current:
            _stage(plan, out)
            _put_in_place(plan, out)
    if pattern is None:
        write_stamp(kernels, making, out, plan.contents[MANIFEST])
    return plan


def check(
    kernels: Sequence[Kernel],
    out: Path | str,
    *,
    pattern: str | None = None,
    making: Making = ONLY_PTX,
    progress: Callable[[Iterable[Kernel]], Iterable[Kernel]] = iter,
) -> BuildPlan:
    """Say what `build` would do, and do nothing. Parameters and errors are those of `build`."""
    out = Path(out)
    _refuse_twins(kernels)
    products = make(kernels, making, progress)
    with _file_errors(out):
        return _plan(products, out, pattern, [*_interrupted(out), *load_manifest(out / MANIFEST)])


def _refuse_twins(kernels: Sequence[Kernel]) -> None:
    """File systems that fold case would give two such variants one file."""
    seen: set[str] = set()
    for kernel in kernels:
        folded = kernel.variant.casefold()
        if folded in seen:
            raise ArtifactError(f"variant {kernel.variant} is asked for twice, up to upper and lower case")
        seen.add(folded)


def _plan(products: list[Product], out: Path, pattern: str | None, known: list[Entry]) -> BuildPlan:
    """Compare the directory with what it should hold. `known` are the entries of earlier builds."""
    entries = {product.entry["variant"]: product.entry for product in products}
    contents = {path: content for product in products for path, content in product.files.items()}
    kept = {}
    for entry in known:
        others = pattern is not None and not matches(entry["variant"], entry["kernel"], pattern)
        if others and _is_true(entry, out):
            kept[entry["variant"]] = entry
    dropped = _files(known) - contents.keys() - _files(kept.values())
    try:
        contents[MANIFEST] = dump_manifest((kept | entries).values()).encode()
    except (ValueError, RecursionError) as error:
        raise ArtifactError(f"{out / MANIFEST} has entries that no build writes; remove it") from error
    plan = BuildPlan(contents)
    for path, content in contents.items():
        folder = (out / path).parent
        if path != MANIFEST and folder.is_symlink():
            raise ArtifactError(f"{folder} is a symbolic link; a build writes into its own directory only")
        try:
            right = (out / path).read_bytes() == content
        except FileNotFoundError:
            plan.missing.append(path)
        else:
            if not right:
                plan.differing.append(path)
    plan.dropped.extend(sorted(path for path in dropped if _is_there(out / path)))
    return plan


def _files(entries: Iterable[Entry]) -> set[str]:
    return {path for entry in entries for path in files_of(entry)}


def _is_true(entry: Entry, out: Path) -> bool:
    """Tell whether the files of an entry are what the entry says, and where it says."""
    named = [entry, *(entry.get("assemblies") or {}).values(), *filter(None, [entry.get("fatbin")])]
    if [item.get("file") for item in named] != list(files_of(entry)):
        return False
    try:
        return all(
            hashlib.sha256((out / path).read_bytes()).hexdigest() == digest
            for path, digest in files_of(entry).items()
        )
    except OSError:
        return False


def _is_there(path: Path) -> bool:
    """Tell whether a file of an earlier build is still there, in a folder of the build directory."""
    return path.is_file() and not path.parent.is_symlink()


def _interrupted(out: Path) -> list[Entry]:
    """Return the entries of a build that stopped while it renamed: its files may be there, unlisted."""
    try:
        return load_manifest(out / STAGING / MANIFEST)
    except ArtifactError:
        return []  # it stopped before the manifest was staged whole, and so before the first rename


def _clear_interrupted(out: Path) -> None:
    """Remove what a build that stopped put in place and no manifest lists."""
    for path in _files(_interrupted(out)) - _files(load_manifest(out / MANIFEST)):
        if _is_there(out / path):
            _remove(out, path)
    if (out / STAGING).is_symlink():
        (out / STAGING).unlink()
    shutil.rmtree(out / STAGING, ignore_errors=True)


def _stage(plan: BuildPlan, out: Path) -> None:
    """Write every changed file, the manifest last, into the staging folder; all of them or nothing."""
    staging = out / STAGING
    made = []
    try:
        for path in [*(path for path in plan.written if path != MANIFEST), MANIFEST]:
            for folder in ((staging / path).parent, (out / path).parent):
                if not folder.is_dir():
                    folder.mkdir(parents=True)
                    made.append(folder)
            (staging / path).write_bytes(plan.contents[path])
    except BaseException:
        shutil.rmtree(staging, ignore_errors=True)
        for folder in made:
            with contextlib.suppress(OSError):
                folder.rmdir()
        raise


def _put_in_place(plan: BuildPlan, out: Path) -> None:
    """Rename staged files into the directory, remove what is no longer listed, replace the manifest last.

    Whatever stops this leaves the staged manifest behind, from which the next build knows what may be there.
    """
    staging = out / STAGING
    for path in plan.written:
        if path != MANIFEST:
            (staging / path).replace(out / path)
    for path in plan.dropped:
        _remove(out, path)
    if MANIFEST in plan.written:
        (staging / MANIFEST).replace(out / MANIFEST)
    shutil.rmtree(staging, ignore_errors=True)


@contextlib.contextmanager
def _file_errors(out: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        path = error.filename2 or error.filename or out
        raise ArtifactError(f"cannot read or write {path}: {error.strerror or error}") from error


@contextlib.contextmanager
def _locked(out: Path) -> Iterator[None]:
    """Make the directory if need be, and keep other builds out of it.

    A build that fails leaves the folder with the lock: another may be waiting for it.
    """
    from filelock import FileLock, Timeout  # 20 ms: only a build needs it

    if out.exists() and not out.is_dir():
        raise ArtifactError(f"{out} is a file; give a directory to build into")
    private = out / PRIVATE
    private.mkdir(parents=True, exist_ok=True)
    ignore = private / ".gitignore"
    if not ignore.exists():
        ignore.write_bytes(b"*\n")
    try:
        with FileLock(out / LOCK, timeout=LOCK_TIMEOUT_S):
            yield
    except Timeout as error:
        raise ArtifactError(
            f"another build has held {out / LOCK} for {LOCK_TIMEOUT_S:.0f} s; wait for it, or end it"
        ) from error


def _remove(out: Path, path: str) -> None:
    (out / path).unlink(missing_ok=True)
    with contextlib.suppress(OSError):  # other files are in it
        (out / path).parent.rmdir()
