"""Type checks of what calls cuda.core, strictly and against the stubs of the one that is installed."""

from __future__ import annotations

import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest
from filelock import FileLock

from tests.helpers.variants import ROOT

if TYPE_CHECKING:
    from collections.abc import Callable

# a type checker does not follow the computed list of names of cuda.core
NAMES: Final = """
from cuda.core._memory._buffer import Buffer as Buffer
from cuda.core._memory._device_memory_resource import DeviceMemoryResource as DeviceMemoryResource
from cuda.core._memory._legacy import LegacyPinnedMemoryResource as LegacyPinnedMemoryResource
"""


def copy_stubs(target: Path) -> None:
    """Make the package that a type checker finds: the stubs lie in the part for a version of CUDA."""
    spec = find_spec("cuda.core")
    assert spec is not None
    assert spec.origin is not None
    # once it is imported, it says that it is that part
    package = next(parent for parent in Path(spec.origin).parents if parent.name == "core")
    versioned = max(package.glob("cu1*"))
    for stub in versioned.rglob("*.py*"):
        if stub.suffix in (".py", ".pyi"):
            (target / stub.relative_to(versioned)).parent.mkdir(parents=True, exist_ok=True)
            (target / stub.relative_to(versioned)).write_bytes(stub.read_bytes())
    (target / "__init__.py").write_text((package / "__init__.py").read_text() + NAMES)
    (target / "py.typed").touch()


def with_mistakes(text: str, mistakes: dict[str, str]) -> str:
    """Return a program in which what it has once is wrong."""
    for right, wrong in mistakes.items():
        assert text.count(right) == 1, right
        text = text.replace(right, wrong)
    return text


@pytest.fixture(scope="session")
def errors_of(tmp_path_factory: pytest.TempPathFactory, worker_id: str) -> Callable[..., list[list[str]]]:
    """Return what checks programs in one run, and returns what is said of each; the stubs are read once."""
    temporary = tmp_path_factory.getbasetemp()
    # the folder of one of several workers is in one that all of them share
    folder = (temporary if worker_id == "master" else temporary.parent) / "stubs"
    folder.mkdir(exist_ok=True)

    def checking(*texts: str) -> list[list[str]]:
        programs = [folder / f"program_{number}.py" for number in range(len(texts))]
        with FileLock(folder / "lock"):
            if not (folder / "mypy.ini").exists():
                copy_stubs(folder / "stubs" / "cuda" / "core")
                (folder / "mypy.ini").write_text(
                    f"[mypy]\nmypy_path = {folder / 'stubs'}:{ROOT}\nexplicit_package_bases = true\n"
                    "strict = true\n[mypy-cuda.*]\nignore_missing_imports = true\n"
                )
            for program, text in zip(programs, texts, strict=True):
                program.write_text(text)
            command = [sys.executable, "-m", "mypy", "--config-file", str(folder / "mypy.ini")]
            command += ["--cache-dir", str(folder / "cache"), *map(str, programs)]
            result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
        assert "cuda/core" in result.stdout or result.returncode == 0, result.stdout + result.stderr
        lines = result.stdout.splitlines()
        return [
            [line for line in lines if Path(line.partition(":")[0]).name == program.name]
            for program in programs
        ]

    return checking
