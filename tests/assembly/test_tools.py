"""NVIDIA's programs are found in packages, then on PATH; what is missing is said."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import pytest

from ptxtemplates.assembly.tools import find_tool
from ptxtemplates.errors import MissingExtraError

if TYPE_CHECKING:
    from pathlib import Path

ENDING = ".exe" if sys.platform == "win32" else ""


def program(folder: Path, name: str) -> Path:
    """Write a program that does nothing."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name}{ENDING}"
    path.write_bytes(b"")
    path.chmod(0o755)
    return path


@pytest.fixture
def nothing_installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Hide NVIDIA's packages and every program; return an empty folder on PATH."""
    folder = tmp_path / "path"
    folder.mkdir()
    monkeypatch.setenv("PATH", str(folder))
    monkeypatch.setitem(sys.modules, "nvidia", None)
    return folder


@pytest.mark.parametrize("name", ["ptxas", "nvdisasm", "fatbinary"])
def test_missing_program_names_its_package(nothing_installed: Path, name: str) -> None:
    with pytest.raises(MissingExtraError) as caught:
        find_tool(name)
    assert str(caught.value).endswith("pip install 'ptxtemplates[cuda]'")


def test_on_path(nothing_installed: Path) -> None:
    expected = program(nothing_installed, "fatbinary")
    assert find_tool("fatbinary").samefile(expected)


def test_package_comes_before_path_and_newest_first(
    nothing_installed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program(nothing_installed, "nvdisasm")
    for release in ("cu12", "cu13"):
        program(tmp_path / "site" / "nvidia" / release / "bin", "nvdisasm")
    monkeypatch.delitem(sys.modules, "nvidia")
    monkeypatch.syspath_prepend(str(tmp_path / "site"))
    found = find_tool("nvdisasm")
    assert found.parent.parent.name == "cu13"
    assert found.is_relative_to(tmp_path)


def test_installed_disassembler_is_found() -> None:
    try:
        assert find_tool("nvdisasm").is_file()
    except MissingExtraError as error:
        pytest.skip(str(error))
