"""Kernels of a folder on disk: a build directory, or snapshots with their sidecar."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ptxtemplates.errors import PtxTemplatesError
from ptxtemplates.manifest import MANIFEST, parse_manifest, stem_of
from ptxtemplates.review.descriptions import checked, read_sidecar
from ptxtemplates.review.model import KernelSet, Side
from ptxtemplates.review.reading import check_sizes, decoded, exists, read, variant_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ptxtemplates.manifest import Entry

SNAPSHOTS: Final = "snapshots"
SIDECAR: Final = "snapshots.json"


def of_folder(folder: Path) -> KernelSet:
    """Read a build directory, a folder of snapshots, or the folder that those lie in.

    Raises
    ------
    PtxTemplatesError
        If it is none of these, or something in it is not what it says, leads out of it or is too large.
    """
    title = str(folder)
    if exists(folder / MANIFEST):
        return KernelSet(title, _built(folder))
    if (folder / SNAPSHOTS).is_dir() and not _texts(folder):
        if not (folder / SNAPSHOTS).resolve().is_relative_to(folder.resolve()):
            raise PtxTemplatesError(f"{folder / SNAPSHOTS} is a symbolic link that leads out of {folder}")
        return KernelSet(title, _snapshots(folder / SNAPSHOTS))
    return KernelSet(title, _snapshots(folder))


def sides_of(
    files: Mapping[str, bytes], folder: str, sidecar: bytes | None, sidecar_file: str
) -> dict[str, Side]:
    """Make the kernels of a folder of snapshots, by name.

    A kernel that the sidecar does not describe is compared without a description, and so is every one where
    there is no sidecar. One that is described and not there makes the folder a half one.

    Parameters
    ----------
    files : mapping of str to bytes
        What each file of the folder holds, by its name, ``<variant>.ptx``.
    folder, sidecar_file : str
        What messages call them.
    sidecar : bytes or None
        What that file holds, if it is there.
    """
    descriptions = {} if sidecar is None else read_sidecar(sidecar, sidecar_file)
    sides = {}
    for name in sorted(files):
        file = f"{folder}/{name}"
        variant = variant_of(name, file)
        sides[variant] = Side(variant, decoded(files[name], file), descriptions.get(variant), None, file)
    for variant in descriptions:
        if variant not in sides:
            raise PtxTemplatesError(
                f"{sidecar_file} describes {variant!r}, and {folder} has no text of that name"
            )
    return dict(sorted(sides.items()))


def _snapshots(folder: Path) -> dict[str, Side]:
    paths = _texts(folder)
    # as the folder was named, and not where a link leads: what lies beside that is another's
    named = Path(os.path.abspath(folder))  # noqa: PTH100 - resolve() would follow the link
    sidecar = named.parent / f"{named.name}.json"
    if not paths and not exists(sidecar):
        raise PtxTemplatesError(
            f"{folder} holds no kernels: neither {MANIFEST} of a build nor .ptx files nor {SNAPSHOTS}/"
        )
    for path in paths:
        variant_of(path.name, str(path))  # before any message has it
    check_sizes([(str(path), path.stat().st_size) for path in paths if path.is_file()])
    return sides_of(
        {path.name: read(path, folder) for path in paths},
        str(folder),
        read(sidecar, sidecar.parent) if exists(sidecar) else None,
        str(sidecar) if folder.name in ("", "..") else f"{folder}.json",
    )


def _texts(folder: Path) -> list[Path]:
    try:
        return sorted(path for path in folder.iterdir() if path.name.endswith(".ptx"))
    except OSError as error:
        raise PtxTemplatesError(f"cannot read {folder}: {error.strerror or error}") from error


def _built(folder: Path) -> dict[str, Side]:
    manifest = folder / MANIFEST
    entries = parse_manifest(manifest, read(manifest, folder))
    if not entries:
        raise PtxTemplatesError(f"{manifest} lists no kernels")
    files = [_file(entry, manifest) for entry in entries]
    paths = [folder / file for file in files]
    check_sizes([(str(path), path.stat().st_size) for path in paths if path.is_file()])
    sides: dict[str, Side] = {}
    for entry, path in zip(entries, paths, strict=True):
        variant = entry["variant"]
        if variant in sides:
            raise PtxTemplatesError(f"{manifest} lists {variant!r} twice")
        content = read(path, folder)
        if hashlib.sha256(content).hexdigest() != entry["sha256"]:
            raise PtxTemplatesError(
                f"{path} is not what {manifest} says, by its sha256: "
                "it was changed, or a build has not ended; build again"
            )
        description = checked(entry, f"{manifest}: {variant!r}")
        sides[variant] = Side(variant, decoded(content, str(path)), description, None, str(path))
    return dict(sorted(sides.items()))


def _file(entry: Entry, manifest: Path) -> str:
    """Return where the text of an entry lies: where its names say, and nowhere else."""
    file = f"{stem_of(entry)}.ptx"
    if entry.get("file") != file:
        raise PtxTemplatesError(
            f"{manifest}: the file of {entry['variant']!r} must be {file!r}, not {entry.get('file')!r}"
        )
    return file
