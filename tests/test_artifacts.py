"""Build directories: what is written, kept, removed and mended."""

from __future__ import annotations

import hashlib
import json
import multiprocessing
import os
import re
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import jsonschema
import pytest

from ptxtemplates.artifacts import build, check
from ptxtemplates.config import load
from ptxtemplates.errors import ArtifactError
from ptxtemplates.kernels import BatchedRope, FlashDecodingReduce
from ptxtemplates.manifest import dump, load_manifest
from ptxtemplates.stamp import LOCK, STAGING, STAMP
from tests.helpers.toy import TEMPLATE, Toy
from tests.helpers.variants import KERNELS, LIST, ROOT

if TYPE_CHECKING:
    from pathlib import Path

    from ptxtemplates.kernel import Kernel

FEW: list[Kernel] = [BatchedRope(num_heads=heads, head_dim=64, theta=1e4) for heads in (1, 8)]
OTHER: Kernel = FlashDecodingReduce(head_dim=64, num_heads=8, chunk_size=16)


def state(folder: Path) -> dict[str, tuple[bytes, int]]:
    """Every file: content and modification time."""
    return {
        path.relative_to(folder).as_posix(): (path.read_bytes(), path.stat().st_mtime_ns)
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def assert_valid(folder: Path, kernels: list[Kernel]) -> None:
    """Assert that a directory holds exactly `kernels`, and its manifest tells the truth."""
    entries = {entry["variant"]: entry for entry in load_manifest(folder / "manifest.json")}
    assert sorted(entries) == sorted(kernel.variant for kernel in kernels)
    for entry in entries.values():
        assert hashlib.sha256((folder / entry["file"]).read_bytes()).hexdigest() == entry["sha256"]
    assert sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*.ptx")) == sorted(
        entry["file"] for entry in entries.values()
    )
    assert not (folder / STAGING).exists()


def strict(schema: Any) -> Any:
    """Return a schema that also refuses properties it does not name."""
    if isinstance(schema, list):
        return [strict(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    result = {key: strict(value) for key, value in schema.items()}
    if "properties" in result and "additionalProperties" not in result:
        result["additionalProperties"] = False
    return result


def test_manifest_follows_its_schema(tmp_path: Path) -> None:
    build(list(KERNELS.values()), tmp_path)
    schema = json.loads((ROOT / "ptxtemplates/schemas/manifest-1.json").read_text())
    jsonschema.Draft202012Validator.check_schema(schema)
    text = (tmp_path / "manifest.json").read_text()
    manifest = json.loads(text)
    jsonschema.Draft202012Validator(strict(schema)).validate(manifest)
    assert text == dump(manifest)
    assert [entry["variant"] for entry in manifest["kernels"]] == sorted(KERNELS)
    assert str(tmp_path) not in text


def test_manifest_says_what_the_text_says(tmp_path: Path) -> None:
    build(list(KERNELS.values()), tmp_path)
    for entry in load_manifest(tmp_path / "manifest.json"):
        text = (tmp_path / entry["file"]).read_text()
        header = re.search(
            r"\.visible \.entry (\w+)\((.*?)\)\n\.reqntid (\d+), (\d+), (\d+)\n", text, re.DOTALL
        )
        assert header is not None
        assert header[1] == entry["entry"]
        assert [int(extent) for extent in header.groups()[2:]] == entry["block"]
        said = re.findall(
            r"\.param \.(\w+) .*?(\w+)(?:,|\n)", header[2].replace(".param .u32 ", ".param .u32  ")
        )
        assert [(name, kind) for kind, name in said] == [
            (item["name"], item["type"]) for item in entry["parameters"]
        ]
        assert f".target {entry['target']}\n" in text
        assert f".version {entry['ptx_version']}\n" in text


def test_second_build_writes_nothing(tmp_path: Path) -> None:
    first = build(FEW, tmp_path)
    before = state(tmp_path)
    second = build(FEW, tmp_path)
    assert (len(first.written), first.unchanged) == (3, [])
    assert (second.written, len(second.unchanged), second.dropped) == ([], 3, [])
    assert state(tmp_path) == before
    assert_valid(tmp_path, FEW)


def test_only_what_changed_is_written(tmp_path: Path) -> None:
    build(FEW, tmp_path)
    before = state(tmp_path)
    plan = build([*FEW, OTHER], tmp_path)
    assert plan.written == [f"flash_decoding_reduce/{OTHER.variant}.ptx", "manifest.json"]
    after = state(tmp_path)
    assert all(after[path] == before[path] for path in before if path.endswith(".ptx"))
    assert_valid(tmp_path, [*FEW, OTHER])


def test_unlisted_files_go_and_foreign_ones_stay(tmp_path: Path) -> None:
    build([*FEW, OTHER], tmp_path)
    foreign = [tmp_path / "batched_rope" / "mine.ptx", tmp_path / "notes.txt"]
    for path in foreign:
        path.write_text("mine")
    plan = build(FEW[:1], tmp_path)
    assert plan.dropped == [
        f"batched_rope/{FEW[1].variant}.ptx",
        f"flash_decoding_reduce/{OTHER.variant}.ptx",
    ]
    assert not (tmp_path / "flash_decoding_reduce").exists()
    assert all(path.read_text() == "mine" for path in foreign)


def test_pattern_keeps_the_other_entries(tmp_path: Path) -> None:
    build([*FEW, OTHER], tmp_path)
    before = state(tmp_path)
    only = BatchedRope(num_heads=2, head_dim=64, theta=1e4)
    plan = build([only], tmp_path, pattern="batched_rope")
    assert plan.dropped == sorted(f"batched_rope/{kernel.variant}.ptx" for kernel in FEW)
    assert_valid(tmp_path, [only, OTHER])
    kept = f"flash_decoding_reduce/{OTHER.variant}.ptx"
    assert state(tmp_path)[kept] == before[kept]


def test_damage_is_mended(tmp_path: Path) -> None:
    build(FEW, tmp_path)
    path = tmp_path / "batched_rope" / f"{FEW[0].variant}.ptx"
    good = path.read_bytes()
    for damage in (b"", good[:-1], good.replace(b"\n", b"\r\n")):
        path.write_bytes(damage)
        assert check(FEW, tmp_path).differing == [f"batched_rope/{FEW[0].variant}.ptx"]
        assert build(FEW, tmp_path).written == [f"batched_rope/{FEW[0].variant}.ptx"]
        assert path.read_bytes() == good
    path.unlink()
    assert check(FEW, tmp_path).missing == [f"batched_rope/{FEW[0].variant}.ptx"]
    build(FEW, tmp_path)
    assert_valid(tmp_path, FEW)


def test_check_writes_nothing(tmp_path: Path) -> None:
    plan = check(FEW, tmp_path / "out")
    assert (len(plan.missing), plan.current) == (3, False)
    assert list(tmp_path.iterdir()) == []
    build(FEW, tmp_path / "out")
    before = state(tmp_path)
    assert check(FEW, tmp_path / "out").current
    stale = check(FEW[:1], tmp_path / "out")
    assert (stale.differing, stale.dropped) == (["manifest.json"], [f"batched_rope/{FEW[1].variant}.ptx"])
    assert state(tmp_path) == before


@pytest.mark.parametrize(
    "content",
    [
        "{",
        "[]",
        "3",
        "{}",
        '{"name": "my app", "icons": []}',
        '{"generator": {"name": "x"}, "schema_version": 1, "kernels": []}',
    ],
)
def test_foreign_manifest_is_not_touched(tmp_path: Path, content: str) -> None:
    (tmp_path / "manifest.json").write_text(content)
    with pytest.raises(ArtifactError, match="manifest.json is no manifest of ptxtemplates; remove it, or"):
        build(FEW, tmp_path)
    assert (tmp_path / "manifest.json").read_text() == content
    assert not list(tmp_path.rglob("*.ptx"))


def test_newer_manifest_is_not_touched(tmp_path: Path) -> None:
    build(FEW, tmp_path)
    newer = (tmp_path / "manifest.json").read_text().replace('"schema_version": 1', '"schema_version": 2')
    (tmp_path / "manifest.json").write_text(newer)
    with pytest.raises(ArtifactError, match="has schema version 2, not 1"):
        build(FEW, tmp_path)


def test_hostile_manifest_removes_nothing_outside(tmp_path: Path) -> None:
    outside = tmp_path / "outside.ptx"
    outside.write_text("mine")
    out = tmp_path / "out"
    build(FEW, out)
    manifest = json.loads((out / "manifest.json").read_text())
    names = [
        "../outside.ptx",
        "batched_rope/../../outside.ptx",
        str(outside),
        "batched_rope/notes.txt",
        "x\\..\\y/z.ptx",
    ]
    (out / "batched_rope" / "notes.txt").write_text("mine")
    manifest["kernels"] += [
        {**manifest["kernels"][0], "variant": f"v{i}", "file": name} for i, name in enumerate(names)
    ]
    (out / "manifest.json").write_text(dump(manifest))
    assert build(FEW, out).dropped == []
    assert outside.exists()
    assert (out / "batched_rope" / "notes.txt").exists()


@pytest.mark.parametrize("variant", ["../../outside", "/outside", "..", "a/b", "a\\b", "C:x", ".hidden"])
def test_hostile_names_are_refused(tmp_path: Path, variant: str) -> None:
    build(FEW, tmp_path)
    manifest = json.loads((tmp_path / "manifest.json").read_text())
    manifest["kernels"].append({**manifest["kernels"][0], "variant": variant})
    (tmp_path / "manifest.json").write_text(dump(manifest))
    with pytest.raises(ArtifactError, match="whose names are no names of files"):
        build([OTHER], tmp_path)


def test_out_is_a_file(tmp_path: Path) -> None:
    (tmp_path / "out").write_text("mine")
    with pytest.raises(ArtifactError, match="out is a file; give a directory"):
        build(FEW, tmp_path / "out")
    with pytest.raises(ArtifactError, match="cannot read or write .*out"):
        build(FEW, tmp_path / "out" / "deeper")
    assert (tmp_path / "out").read_text() == "mine"


def test_directory_where_a_file_belongs(tmp_path: Path) -> None:
    (tmp_path / "batched_rope" / f"{FEW[0].variant}.ptx").mkdir(parents=True)
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(ArtifactError, match=r"cannot read or write .*\.ptx: Is a directory"):
        build(FEW, tmp_path)
    assert [path for path in sorted(tmp_path.rglob("*")) if ".ptxtemplates" not in path.parts] == before


LIMITED = """
import resource, signal, sys
from pathlib import Path
from ptxtemplates import build, load
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[3]), int(sys.argv[3])))
try:
    build(load(Path(sys.argv[1])), Path(sys.argv[2]))
except Exception as error:
    print(type(error).__name__, error)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="no limit on file sizes")
@pytest.mark.parametrize("existing", [False, True])
def test_full_disk_leaves_everything_as_it_was(tmp_path: Path, existing: bool) -> None:
    """A limit on the size of files fails a write half-way, as a full disk does."""
    out = tmp_path / "out"
    if existing:
        build([*FEW, OTHER], out)
    before = state(tmp_path)
    result = subprocess.run(
        [sys.executable, "-c", LIMITED, str(LIST), str(out), "9000"],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    assert result.stdout.startswith("ArtifactError cannot read or write "), result.stdout
    assert "File too large" in result.stdout
    after = {path: content for path, content in state(tmp_path).items() if "/.ptxtemplates/" not in path}
    assert after == {path: content for path, content in before.items() if "/.ptxtemplates/" not in path}
    assert not (out / STAGING).exists()


STOPPED = """
import os, signal, sys
from pathlib import Path
from ptxtemplates import build, load
from ptxtemplates.config import select
signal_number, left, pattern = int(sys.argv[3]), int(sys.argv[4]), sys.argv[5]
replace, write = Path.replace, Path.write_bytes
def stop_at(path):
    global left
    if "/staging/" in str(path):
        if left == 0:
            os.kill(os.getpid(), signal_number)
        left -= 1
def counted_replace(self, target):
    if sys.argv[6] == "rename":
        stop_at(self)
    return replace(self, target)
def counted_write(self, content):
    if sys.argv[6] == "write":
        stop_at(self)
    return write(self, content)
Path.replace, Path.write_bytes = counted_replace, counted_write
build(load(Path(sys.argv[1])), Path(sys.argv[2]))
"""


def listed(folder: Path, heads: list[int], name: str = "batched_rope") -> Path:
    """Write a list of variants."""
    file = folder / f"{name}{heads}.toml"
    file.write_text(f'[[kernel]]\nname = "{name}"\nnum_heads = {heads}\nhead_dim = 64\ntheta = 1e4\n')
    return file


def stopped(file: Path, out: Path, at: int, number: int = signal.SIGKILL, where: str = "rename") -> None:
    """Run a build that is ended by a signal right before its `at`-th rename, or write, of a staged file."""
    result = subprocess.run(
        [sys.executable, "-c", STOPPED, str(file), str(out), str(int(number)), str(at), "", where],
        check=False,
        capture_output=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    assert result.returncode in (-number, 130), result


needs_signals = pytest.mark.skipif(sys.platform == "win32", reason="no SIGKILL")


@needs_signals
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
@pytest.mark.parametrize("at", [0, 1, 3, 4])
def test_stop_inside_the_burst_is_mended(tmp_path: Path, at: int, number: int) -> None:
    out = tmp_path / "out"
    before, other = listed(tmp_path, [1]), listed(tmp_path, [1, 2, 4, 8, 16])
    build(load(before), out)
    stopped(other, out, at, number)
    # the list goes back meanwhile, as if nothing had been: what was put there must go too
    if at > 0:
        assert not check(load(before), out).current
    build(load(before), out)
    assert_valid(out, load(before))
    assert check(load(before), out).current
    stopped(other, out, at, number)
    build(load(other), out)
    assert_valid(out, load(other))


@needs_signals
@pytest.mark.parametrize(("where", "at"), [("rename", 0), ("rename", 1), ("write", 0), ("write", 1)])
def test_two_stops_in_a_row_are_mended(tmp_path: Path, where: str, at: int) -> None:
    out = tmp_path / "out"
    build(load(listed(tmp_path, [1])), out)
    stopped(listed(tmp_path, [1, 2, 4, 8]), out, 2)
    last = listed(tmp_path, [1, 16])
    stopped(last, out, at, where=where)
    build(load(last), out)
    assert_valid(out, load(last))


@needs_signals
@pytest.mark.parametrize("at", [0, 2])
def test_pattern_after_a_stop_lists_only_what_is_there(tmp_path: Path, at: int) -> None:
    out = tmp_path / "out"
    build(load(listed(tmp_path, [1])), out)
    stopped(listed(tmp_path, [1, 2, 4], "batched_rope_backward"), out, at)
    build(load(listed(tmp_path, [1])), out, pattern="batched_rope")
    assert_valid(out, load(listed(tmp_path, [1])))


def test_entry_that_is_not_true_is_not_kept(tmp_path: Path) -> None:
    build([*FEW, OTHER], tmp_path)
    (tmp_path / "flash_decoding_reduce" / f"{OTHER.variant}.ptx").write_text("damaged")
    build(FEW, tmp_path, pattern="batched_rope")
    assert_valid(tmp_path, FEW)


@pytest.mark.parametrize(
    ("field", "value"), [("file", "../../x.ptx"), ("shared_memory", 1e999), ("deep", "[" * 900 + "]" * 900)]
)
def test_entry_that_no_build_wrote_is_not_kept(tmp_path: Path, field: str, value: Any) -> None:
    build([*FEW, OTHER], tmp_path)
    manifest = json.loads((tmp_path / "manifest.json").read_text())
    entry = next(entry for entry in manifest["kernels"] if entry["kernel"] == OTHER.name)
    entry[field] = json.loads(value) if field == "deep" else value
    (tmp_path / "manifest.json").write_text(json.dumps(manifest))
    if field == "file":
        build(FEW, tmp_path, pattern="batched_rope")
        assert_valid(tmp_path, FEW)
    else:
        with pytest.raises(
            ArtifactError, match="manifest.json (has entries that no build writes|is no manifest)"
        ):
            build(FEW, tmp_path, pattern="batched_rope")


def test_variant_that_changes_its_name_alone_is_built_anew(tmp_path: Path) -> None:
    out = tmp_path / "out"
    build([_stamped(tmp_path, numbers=1)], out)
    renamed = _stamped(tmp_path, numbers=1, variant=property(lambda self: "toy.q64"))
    build([renamed], out)
    assert check([renamed], out).current


def test_failure_while_waiting_disturbs_no_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from filelock import FileLock

    monkeypatch.setattr("ptxtemplates.artifacts.LOCK_TIMEOUT_S", 0.1)
    (tmp_path / STAGING).mkdir(parents=True)
    with FileLock(tmp_path / LOCK):
        with pytest.raises(ArtifactError, match="another build has held"):
            build(FEW, tmp_path)
        assert (tmp_path / STAGING).exists()
        assert (tmp_path / LOCK).exists()


@pytest.mark.skipif(sys.platform == "win32", reason="links need a privilege")
def test_linked_folder_is_refused(tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "batched_rope").symlink_to(elsewhere)
    with pytest.raises(ArtifactError, match="batched_rope is a symbolic link"):
        build(FEW, tmp_path / "out")
    assert list(elsewhere.iterdir()) == []


@pytest.mark.skipif(sys.platform == "win32", reason="links need a privilege")
def test_linked_stamp_is_replaced(tmp_path: Path) -> None:
    precious = tmp_path / "precious"
    precious.write_text("mine")
    (tmp_path / "out" / ".ptxtemplates").mkdir(parents=True)
    (tmp_path / "out" / STAMP).symlink_to(precious)
    build(FEW, tmp_path / "out")
    assert precious.read_text() == "mine"


def test_two_variants_of_one_file_are_refused(tmp_path: Path) -> None:
    twins = [BatchedRope(num_heads=1, head_dim=2, theta=1e4, entry=entry) for entry in ("F", "f")]
    with pytest.raises(ArtifactError, match="entry-f is asked for twice"):
        build(twins, str(tmp_path))


def _stamped(folder: Path, **attributes: Any) -> Kernel:
    (folder / "toy.ptx.jinja").write_text(TEMPLATE + "// {{ numbers }}\n")
    (folder / "other.ptx.jinja").write_text(TEMPLATE + "// other {{ numbers }}\n")
    numbers = attributes.pop("numbers")
    attributes |= {"template_folder": folder, "constants": lambda self: {"numbers": numbers}}
    kernel: type[Toy] = dataclass(frozen=True, kw_only=True)(type("Toy", (Toy,), attributes))
    return kernel(width=64)


def test_stamp_sees_every_constant_and_the_template(tmp_path: Path) -> None:
    out = tmp_path / "out"
    for kernel in (
        _stamped(tmp_path, numbers=[1.5, 2]),
        _stamped(tmp_path, numbers=[1.5, 3]),
        _stamped(tmp_path, numbers=[1.5, 3], template="other.ptx.jinja"),
        _stamped(tmp_path, numbers=(1.5, 3)),
        _stamped(tmp_path, numbers={"a": 1, "b": 2}),
        _stamped(tmp_path, numbers={"b": 2, "a": 1}),
        _stamped(tmp_path, numbers={1: 1}),
        _stamped(tmp_path, numbers={"1": 1}),
        _stamped(tmp_path, numbers=frozenset({7})),
        _stamped(tmp_path, numbers=frozenset({8})),
    ):
        build([kernel], out)
        assert check([kernel], out).current


def _build_often(folder: Path, kernels: list[Kernel]) -> None:
    for _ in range(5):
        build(kernels, folder)


def test_concurrent_builds_leave_a_valid_directory(tmp_path: Path) -> None:
    lists: list[list[Kernel]] = [FEW, [*FEW[:1], OTHER], [OTHER], list(KERNELS.values())[:6]]
    context = multiprocessing.get_context("spawn")
    processes = [context.Process(target=_build_often, args=(tmp_path, kernels)) for kernels in lists]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    assert [process.exitcode for process in processes] == [0] * len(lists)
    built = sorted(entry["variant"] for entry in load_manifest(tmp_path / "manifest.json"))
    winner = next(kernels for kernels in lists if sorted(kernel.variant for kernel in kernels) == built)
    assert_valid(tmp_path, winner)


def test_a_held_lock_is_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from filelock import FileLock

    monkeypatch.setattr("ptxtemplates.artifacts.LOCK_TIMEOUT_S", 0.2)
    (tmp_path / "out" / LOCK).parent.mkdir(parents=True)
    with FileLock(tmp_path / "out" / LOCK):
        start = time.monotonic()
        with pytest.raises(ArtifactError, match="another build has held"):
            build(FEW, tmp_path / "out")
        assert time.monotonic() - start >= 0.2
    build(FEW, tmp_path / "out")
    assert_valid(tmp_path / "out", FEW)


def test_private_files_are_ignored_by_git(tmp_path: Path) -> None:
    build(FEW, tmp_path)
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == [".ptxtemplates"]
    assert (tmp_path / ".ptxtemplates" / ".gitignore").read_bytes() == b"*\n"


def test_crash_can_leave_an_empty_manifest(tmp_path: Path) -> None:
    build(FEW, tmp_path)
    (tmp_path / "manifest.json").write_bytes(b"")
    build(FEW, tmp_path)
    assert_valid(tmp_path, FEW)
