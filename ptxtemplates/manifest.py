"""What a build directory says of itself: the manifest, as text and as values.

docs/manifest.md documents the format; ptxtemplates/schemas/manifest-1.json is its JSON Schema.
"""

from __future__ import annotations

import hashlib
import json
import re
from typing import TYPE_CHECKING, Any, Final

from ptxtemplates.errors import ArtifactError
from ptxtemplates.version import VERSION

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    from ptxtemplates.assembly import Assembly
    from ptxtemplates.kernel import Kernel
    from ptxtemplates.rendering import RenderedKernel

MANIFEST: Final = "manifest.json"
SCHEMA_VERSION: Final = 1
GENERATOR: Final = "ptxtemplates"

_NAME: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.+-]*")

Entry = dict[str, Any]
"""One variant in a manifest."""


def description_of(kernel: Kernel) -> dict[str, Any]:
    """Describe a kernel as the sidecar of the snapshots does: what callers rely on."""
    return {**kernel.contract(), "target": kernel.target}


def entry_of(rendered: RenderedKernel) -> Entry:
    """Describe a rendered kernel as a manifest does, not assembled."""
    kernel = rendered.kernel
    return {
        **description_of(kernel),
        "variant": kernel.variant,
        "file": f"{kernel.name}/{kernel.variant}.ptx",
        "ptx_version": kernel.ptx_version,
        "sha256": rendered.sha256,
        "templates": rendered.templates,
        "assemblies": None,
        "fatbin": None,
    }


def assembly_of(entry: Entry, assembly: Assembly) -> dict[str, Any]:
    """Describe the machine code of an entry's kernel for one architecture."""
    return {
        "file": f"{stem_of(entry)}.{assembly.architecture}.cubin",
        "sha256": hashlib.sha256(assembly.cubin).hexdigest(),
        "toolchain": assembly.toolchain,
        **assembly.resources_of(entry["entry"])._asdict(),
    }


def dump_manifest(entries: Iterable[Entry]) -> str:
    """Write a manifest: entries sorted by variant, keys sorted, the same bytes for the same entries."""
    return dump(
        {
            "generator": {"name": GENERATOR, "version": VERSION},
            "kernels": sorted(entries, key=lambda entry: str(entry["variant"])),
            "schema_version": SCHEMA_VERSION,
        }
    )


def load_manifest(path: Path) -> list[Entry]:
    """Read the entries of a manifest; none if there is no file.

    Raises
    ------
    ArtifactError
        If the file is no manifest of this package, or one of a newer version.
    """
    try:
        text = path.read_bytes()
    except FileNotFoundError:
        return []
    except OSError as error:
        raise ArtifactError(f"cannot read {path}: {error.strerror or error}") from error
    return parse_manifest(path, text)


def parse_manifest(path: Path, text: bytes) -> list[Entry]:
    """Do what `load_manifest` does for the bytes that were read from `path`."""
    if not text:
        return []  # what a crash of the machine can leave of a file just renamed
    try:
        manifest = json.loads(text, parse_constant=_no_number)
        generator, version, entries = (
            manifest["generator"]["name"],
            manifest["schema_version"],
            manifest["kernels"],
        )
        well_formed = isinstance(entries, list) and all(
            isinstance(entry[key], str) for entry in entries for key in ("variant", "kernel", "sha256")
        )
    except (ValueError, TypeError, KeyError, RecursionError):
        generator, version, entries, well_formed = None, None, [], False
    if generator != GENERATOR or not well_formed:
        raise ArtifactError(
            f"{path} is no manifest of {GENERATOR}; remove it, or build into another directory"
        )
    if version != SCHEMA_VERSION:
        raise ArtifactError(
            f"{path} has schema version {version}, not {SCHEMA_VERSION}: another version of {GENERATOR} "
            "wrote it; remove it, or build into another directory"
        )
    return list(entries)


def _no_number(constant: str) -> None:
    raise ValueError(f"{constant} is no JSON")


def stem_of(entry: Entry) -> str:
    """Return the path of a variant's files, relative to the manifest, without their endings.

    From its names, which decide it, and never from what a manifest may say: these paths are written to, and
    removed.

    Raises
    ------
    ArtifactError
        If the names are no names of files.
    """
    names = (entry["kernel"], entry["variant"])
    if not all(_NAME.fullmatch(name) for name in names):
        raise ArtifactError(f"the manifest has an entry whose names are no names of files: {names}")
    return f"{names[0]}/{names[1]}"


def files_of(entry: Entry) -> dict[str, str]:
    """Return every file of an entry, by path, and its sha256.

    Raises
    ------
    ArtifactError
        As `stem_of` does.
    """
    stem = stem_of(entry)
    files = {f"{stem}.ptx": entry["sha256"]}
    for architecture, assembly in (entry.get("assemblies") or {}).items():
        if not _NAME.fullmatch(architecture):
            raise ArtifactError(
                f"the manifest has an architecture that is no name of a file: {architecture!r}"
            )
        files[f"{stem}.{architecture}.cubin"] = assembly["sha256"]
    if entry.get("fatbin"):
        files[f"{stem}.fatbin"] = entry["fatbin"]["sha256"]
    return files


def texts_of(entries: Iterable[Entry], contents: Mapping[str, bytes]) -> dict[str, str]:
    """Return the PTX of each variant, from the contents of files by path."""
    return {entry["variant"]: contents[f"{stem_of(entry)}.ptx"].decode() for entry in entries}


def dump(value: object) -> str:
    """Write JSON for people: keys sorted, a line for each element down to where only scalars are left."""
    return _dump(value, "\n") + "\n"


def _dump(value: object, newline: str) -> str:
    inner = newline + "  "
    if isinstance(value, dict) and any(isinstance(item, dict | list) for item in value.values()):
        items = [f"{json.dumps(key)}: {_dump(value[key], inner)}" for key in sorted(value)]
        return "{" + inner + f",{inner}".join(items) + newline + "}"
    if isinstance(value, list) and any(isinstance(item, dict | list) for item in value):
        return "[" + inner + f",{inner}".join(_dump(item, inner) for item in value) + newline + "]"
    return json.dumps(value, sort_keys=True, allow_nan=False)
