"""A build's stamp: lets the next build see that it has nothing to do without rendering anything.

It ties what a build was made from to the manifest that came of it. A stamp is only ever believed where
everything it cannot vouch for (templates, built files) is compared too, and `build --check` never asks it.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
from typing import TYPE_CHECKING, Final

from ptxtemplates.manifest import MANIFEST, files_of, parse_manifest
from ptxtemplates.sources import BUILT_IN_TEMPLATES, installation

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from ptxtemplates.kernel import Kernel
    from ptxtemplates.products import Making

PRIVATE: Final = ".ptxtemplates"
"""Folder of a build directory for what is of no use to anyone else: stamp, lock, staging. Git ignores it."""

LOCK: Final = f"{PRIVATE}/lock"
STAGING: Final = f"{PRIVATE}/staging"
STAMP: Final = f"{PRIVATE}/stamp"


def finished_build(kernels: Sequence[Kernel], making: Making, out: Path) -> dict[str, bytes] | None:
    """Return the files of a directory, by relative path, if a build of `kernels` would change nothing."""
    manifest_file = out / MANIFEST
    try:
        manifest = manifest_file.read_bytes()
        wanted = stamp(kernels, making, manifest)
        if wanted is None or (out / STAMP).read_bytes() != wanted or (out / STAGING).exists():
            return None
        contents = {MANIFEST: manifest}
        folders = {kernel.variant: (kernel.template_folder, BUILT_IN_TEMPLATES) for kernel in kernels}
        digests: dict[tuple[tuple[Path, ...], str], str | None] = {}
        for entry in parse_manifest(manifest_file, manifest):
            for name, digest in entry["templates"].items():
                if entry["variant"] not in folders:
                    return None
                key = (folders[entry["variant"]], name)
                if key not in digests:
                    digests[key] = _template_digest(*key)
                if digests[key] != digest:
                    return None
            for path, digest in files_of(entry).items():
                contents[path] = (out / path).read_bytes()
                if hashlib.sha256(contents[path]).hexdigest() != digest:
                    return None
    except OSError:
        return None
    return contents


def stamp(kernels: Sequence[Kernel], making: Making, manifest: bytes) -> bytes | None:
    """Return the stamp of a build: digests of what goes into it beside templates, and of its manifest.

    None where a kernel has constants of other than plain types: their ``repr`` may not tell all.
    """
    digest = hashlib.sha256(os.fsencode(installation()) + json.dumps(making.identity()).encode())
    for kernel in kernels:
        parts = [
            kernel.variant,
            kernel.template,
            str(kernel.template_folder),
            kernel.variables,
            kernel.contract(),
        ]
        if not _is_plain(parts):
            return None
        digest.update(os.fsencode(repr(parts)))
    return f"{digest.hexdigest()} {hashlib.sha256(manifest).hexdigest()}\n".encode()


def _is_plain(value: object) -> bool:
    """Tell whether ``repr`` tells everything of a value."""
    if type(value) is list or type(value) is tuple:
        return all(_is_plain(item) for item in value)
    if type(value) is dict:
        return all(_is_plain(item) for pair in value.items() for item in pair)
    return type(value) in (str, int, float, bool, type(None))


def write_stamp(kernels: Sequence[Kernel], making: Making, out: Path, manifest: bytes) -> None:
    """Leave the stamp of a finished build. Failing to is no error: the next build renders."""
    wanted = stamp(kernels, making, manifest)
    if wanted is None:
        return
    with contextlib.suppress(OSError):
        with contextlib.suppress(FileNotFoundError):
            if (out / STAMP).read_bytes() == wanted:
                return
        staged = out / f"{STAMP}.{os.getpid()}"
        staged.write_bytes(wanted)
        staged.replace(out / STAMP)


def _template_digest(folders: tuple[Path, ...], name: str) -> str | None:
    for folder in folders:
        with contextlib.suppress(FileNotFoundError):
            text = (folder / name).read_bytes().replace(b"\r\n", b"\n").replace(b"\r", b"\n")
            return hashlib.sha256(text).hexdigest()
    return None
