"""Every variant of kernels.toml against its reviewed text, and what a text cannot say against snapshots.json.

``pytest tests/test_snapshots.py --snapshot-update`` rewrites both.
"""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING, Any

import pytest
from syrupy.extensions.single_file import SingleFileSnapshotExtension

from ptxtemplates.manifest import description_of, dump
from ptxtemplates.rendering import render
from tests.helpers.variants import KERNELS, ROOT

if TYPE_CHECKING:
    from syrupy.assertion import SnapshotAssertion
    from syrupy.location import PyTestLocation

    from ptxtemplates.kernel import Kernel

SNAPSHOTS = ROOT / "snapshots"
SIDECAR = ROOT / "snapshots.json"


class PtxSnapshots(SingleFileSnapshotExtension):
    """One file of bytes a variant, all in the top-level folder."""

    file_extension = "ptx"

    @classmethod
    def dirname(cls, *, test_location: PyTestLocation) -> str:
        """Return the one folder."""
        return str(SNAPSHOTS)

    @classmethod
    def get_snapshot_name(cls, *, test_location: PyTestLocation, index: Any = 0) -> str:
        """Return the variant's name: the test id between the brackets."""
        return test_location.snapshot_name.partition("[")[2].removesuffix("]")

    @classmethod
    def matches_test_location(cls, *, test_location: PyTestLocation, snapshot_location: str) -> bool:
        """Say that every snapshot belongs to this test file and no other."""
        return test_location.basename == "test_snapshots"


@pytest.mark.parametrize("kernel", KERNELS.values(), ids=KERNELS)
def test_snapshot(kernel: Kernel, snapshot: SnapshotAssertion) -> None:
    rendered = render(kernel)
    rendered.check()
    same = rendered.text.encode() == snapshot(extension_class=PtxSnapshots)
    assert same, _difference(kernel.variant, rendered.text)


def _difference(variant: str, text: str) -> str:
    """Show changed lines: of two byte strings pytest shows little that a reviewer can use."""
    path = SNAPSHOTS / f"{variant}.ptx"
    if not path.exists():
        return f"{path.name} does not exist; --snapshot-update writes it"
    old = path.read_text(encoding="utf-8").splitlines()
    return "\n".join(difflib.unified_diff(old, text.splitlines(), "snapshot", "rendered", lineterm="", n=2))


def test_there_is_a_snapshot_for_each_variant_and_nothing_else(pytestconfig: pytest.Config) -> None:
    """However pytest is called: syrupy looks for stale files only when all of a suite runs."""
    wanted = {f"{variant}.ptx" for variant in KERNELS}
    if pytestconfig.getoption("update_snapshots"):
        for path in SNAPSHOTS.glob("*.ptx"):
            if path.name not in wanted:
                path.unlink()
    assert {path.name for path in SNAPSHOTS.iterdir()} == wanted


def test_snapshots_are_clean_bytes() -> None:
    for path in SNAPSHOTS.iterdir():
        content = path.read_bytes()
        assert content.endswith(b"}\n"), path.name
        assert b"\r" not in content, path.name


def test_sidecar(pytestconfig: pytest.Config) -> None:
    text = dump({variant: description_of(kernel) for variant, kernel in KERNELS.items()})
    if pytestconfig.getoption("update_snapshots"):
        SIDECAR.write_bytes(text.encode())
    assert SIDECAR.read_bytes() == text.encode()
