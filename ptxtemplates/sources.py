"""Where the built-in templates lie."""

from __future__ import annotations

from pathlib import Path
from typing import Final


def built_in_templates(package: Path) -> Path:
    """Find the templates that belong to the package in the folder `package`.

    A wheel carries them inside the package; a checkout has them beside it. The folder of the code that is
    running decides, never the import system's search path: an editable install also leaves a copy in
    site-packages, and that copy is stale from the first edit on.
    """
    inside = package / "templates"
    return inside if inside.is_dir() else package.parent / "templates"


BUILT_IN_TEMPLATES: Final = built_in_templates(Path(__file__).resolve().parent)
