"""What a build was made from, for Make and Ninja."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ptxtemplates.errors import ArtifactError
from ptxtemplates.sources import BUILT_IN_TEMPLATES

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from pathlib import PurePath

    from ptxtemplates.kernel import Kernel
    from ptxtemplates.manifest import Entry

_UNWRITABLE: Final = re.compile(r"""[\x00-\x1f\x7f"*;<=>?^`|\\]|:\Z""")
"""What Make, Ninja or both take for something else, however it is escaped."""


def depfile(target: PurePath, dependencies: Iterable[PurePath]) -> str:
    """Write a rule without a recipe, in the part of Makefile syntax that Make and Ninja both read.

    There are no phony targets for the dependencies: a template that is gone is an error.

    Parameters
    ----------
    target : pathlib.PurePath
        As the build system names it: Ninja and Make compare text.
    dependencies : iterable of pathlib.PurePath
        In any order; paths of Windows are written with ``/``, which all tools there take.

    Raises
    ------
    ArtifactError
        If a path has a character that cannot be written for both.
    """
    if "%" in str(target):
        raise ArtifactError(f"Make takes the % in {target} for a pattern; give the depfile another path")
    names = sorted({_escaped(path) for path in dependencies})
    return " \\\n  ".join([f"{_escaped(target)}:", *names]) + "\n"


def _escaped(path: PurePath) -> str:
    text = path.as_posix()
    if wrong := _UNWRITABLE.search(text):
        raise ArtifactError(f"a depfile cannot hold the {wrong[0]!r} of {text!r}; rename the file or folder")
    drive = path.drive if path.drive.endswith(":") else ""  # C: of Windows, whose colon is read as it stands
    return drive + re.sub("([ #:])", r"\\\1", text[len(drive) :]).replace("$", "$$")


def dependencies_of(config: Path, kernels: Sequence[Kernel], entries: Iterable[Entry]) -> list[Path]:
    """Return every file that a build was made from, absolute and sorted.

    The list of variants, the templates, and the modules of kernels that are not this package's. A template
    that would hide a built-in one, were it there, is not among them.

    Parameters
    ----------
    config : pathlib.Path
        The list of variants.
    kernels : sequence of Kernel
        What was built.
    entries : iterable of dict
        What the manifest says of them; entries of other variants are passed over.
    """
    templates: Mapping[str, Iterable[str]] = {entry["variant"]: entry["templates"] for entry in entries}
    found = {config.absolute()}
    for kernel in kernels:
        for name in templates[kernel.variant]:
            candidates = [folder / name for folder in (kernel.template_folder, BUILT_IN_TEMPLATES)]
            found.update([path.absolute() for path in candidates if path.is_file()][:1])
    for kernel_type in {type(kernel) for kernel in kernels}:
        found.update(_modules(kernel_type))
    return sorted(found)


def _modules(kernel_type: type[Kernel]) -> Iterator[Path]:
    for base in kernel_type.__mro__:
        package = base.__module__.partition(".")[0]
        if package == "ptxtemplates" or package in sys.stdlib_module_names:
            continue
        file = getattr(sys.modules.get(base.__module__), "__file__", None)
        if file is not None:
            yield Path(file).absolute()
