"""A build's stamp: lets the next build see that it has nothing to do without rendering anything.

It ties what a build was made from to the manifest that came of it. A stamp is only ever believed where
everything it cannot vouch for (templates, built files) is compared too, and `build --check` never asks it.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
from pathlib import Path
from typing import TYPE_CHECKING, Final

import jinja2.compiler

from ptxtemplates.manifest import MANIFEST, parse_manifest
from ptxtemplates.sources import BUILT_IN_TEMPLATES

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ptxtemplates.kernel import Kernel

PRIVATE: Final = ".ptxtemplates"
"""Folder of a build directory for what is of no use to anyone else: stamp, lock, staging. Git ignores it."""

STAMP: Final = f"{PRIVATE}/stamp"


def finished_build(kernels: Sequence[Kernel], out: Path) -> dict[str, bytes] | None:
    """Return the files of a directory, by relative path, if a build of `kernels` would change nothing."""
    manifest_file = out / MANIFEST
    try:
        manifest = manifest_file.read_bytes()
        if (out / STAMP).read_text(encoding="ascii") != stamp(kernels, manifest):
            return None
        contents = {MANIFEST: manifest}
        folders = {kernel.variant: (kernel.template_folder, BUILT_IN_TEMPLATES) for kernel in kernels}
        digests: dict[tuple[tuple[Path, ...], str], str | None] = {}
        for entry in parse_manifest(manifest_file, manifest):
            for name, digest in entry["templates"].items():
                key = (folders[entry["variant"]], name)
                if key not in digests:
                    digests[key] = _template_digest(*key)
                if digests[key] != digest:
                    return None
            content = (out / entry["file"]).read_bytes()
            if hashlib.sha256(content).hexdigest() != entry["sha256"]:
                return None
            contents[entry["file"]] = content
    except (OSError, UnicodeDecodeError):
        return None
    return contents


def stamp(kernels: Sequence[Kernel], manifest: bytes) -> str:
    """Return the stamp of a build: digests of what goes into it beside templates, and of its manifest."""
    digest = hashlib.sha256()
    package = Path(__file__).parent
    for source in (*sorted(package.rglob("*.py")), Path(jinja2.compiler.__file__)):
        digest.update(source.read_bytes())
    for kernel in kernels:
        digest.update(repr((type(kernel).__qualname__, kernel.variables, kernel.contract())).encode())
    return json.dumps({"inputs": digest.hexdigest(), "manifest": hashlib.sha256(manifest).hexdigest()}) + "\n"


def write_stamp(kernels: Sequence[Kernel], out: Path, manifest: bytes) -> None:
    """Leave the stamp of a finished build, if it is not there already."""
    text = stamp(kernels, manifest)
    with contextlib.suppress(OSError, UnicodeDecodeError):
        if (out / STAMP).read_text(encoding="ascii") == text:
            return
    (out / STAMP).write_text(text, encoding="ascii", newline="\n")


def _template_digest(folders: tuple[Path, ...], name: str) -> str | None:
    for folder in folders:
        with contextlib.suppress(FileNotFoundError):
            text = (folder / name).read_bytes().replace(b"\r\n", b"\n").replace(b"\r", b"\n")
            return hashlib.sha256(text).hexdigest()
    return None
