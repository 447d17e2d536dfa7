"""What this package is made of: where its templates lie, and which code is installed."""

from __future__ import annotations

import contextlib
import os
import sys
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ptxtemplates.version import VERSION

if TYPE_CHECKING:
    from collections.abc import Iterable


def built_in_templates(package: Path) -> Path:
    """Find the templates that belong to the package in the folder `package`.

    A wheel carries them inside the package; a checkout has them beside it. The folder of the code that is
    running decides, never the import system's search path: an editable install also leaves a copy in
    site-packages, and that copy is stale from the first edit on.
    """
    inside = package / "templates"
    return inside if inside.is_dir() else package.parent / "templates"


BUILT_IN_TEMPLATES: Final = built_in_templates(Path(__file__).resolve().parent)


def template_lines(folders: Iterable[Path], name: str) -> list[str] | None:
    """Return the lines of the template that `name` means in the given folders; None if it cannot be read."""
    for folder in folders:
        with contextlib.suppress(FileNotFoundError):
            try:
                return (folder / name).read_text(encoding="utf-8", errors="replace").split("\n")
            except OSError:
                return None
    return None


@cache
def installation() -> str:
    """Identify the code that renders: Python, this package, Jinja.

    By names, sizes and times of the source files, which costs a tenth of reading them. What is kept from an
    earlier run is used only by the same code.
    """
    parts = [sys.version, VERSION]
    for package in ("ptxtemplates", "jinja2"):
        spec = find_spec(package)
        for folder in (spec.submodule_search_locations or []) if spec else []:
            for path, _, files in sorted(os.walk(folder)):
                for name in sorted(files):
                    if name.endswith(".py"):
                        source = Path(path, name)
                        state = source.stat()
                        parts.append(f"{source} {state.st_size} {state.st_mtime_ns}")
    return "\n".join(parts)
