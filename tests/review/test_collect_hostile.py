"""Folders and revisions that anyone may have written: one clear error, nothing read or written elsewhere."""

from __future__ import annotations

import hashlib
import json
import os
import re
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest

from ptxtemplates.artifacts import build
from ptxtemplates.config import load
from ptxtemplates.errors import PtxTemplatesError
from ptxtemplates.review import reading
from ptxtemplates.review.collect import collect
from tests.helpers.cli import assert_refused, ptxtemplates
from tests.helpers.verifying import ROPE
from tests.review.repositories import clone_of, commit_project, git

if TYPE_CHECKING:
    from collections.abc import Callable

LIST = Path("kernels.toml")
SECRET = "root:x:0:0"


@pytest.fixture(scope="module")
def committed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return commit_project(tmp_path_factory.mktemp("committed"))


@pytest.fixture
def project(committed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "secret.ptx").write_text(SECRET)
    copy = clone_of(committed, tmp_path / "project")
    monkeypatch.chdir(copy)
    return copy


def refused(word: str, *parts: str) -> None:
    with pytest.raises(PtxTemplatesError) as error:
        collect(word, LIST)
    for part in parts:
        assert part in str(error.value)
    assert SECRET not in str(error.value)


def commit(project: Path) -> None:
    git(project, "add", "-A")
    git(project, "commit", "-qm", "hostile")


# ---- texts


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"\x7fELF\2\1\1\0\0", "is binary, not PTX text"),
        ("ptx".encode("utf-16"), "is UTF-16; PTX is ASCII: save it as UTF-8"),
        (b".version 8.0\n// caf\xe9\n", ":2: is not UTF-8"),
    ],
)
def test_what_is_no_text(project: Path, content: bytes, message: str) -> None:
    path = project / "snapshots" / f"{ROPE}.ptx"
    path.write_bytes(content)
    commit(project)
    name = f"snapshots/{ROPE}.ptx"
    for word, file in (("snapshots", name), ("HEAD", f"HEAD:{name}"), (name, name)):
        refused(word, f"{file}{'' if message[0] == ':' else ' '}{message}")


@pytest.mark.parametrize("name", ["a b", "..", "-rf", ".hidden", "new\nline", "ün", "\x1b[2J", "a\\b", ""])
def test_names_that_no_build_gives(project: Path, name: str) -> None:
    with (project / "snapshots" / f"{name}.ptx").open("wb") as stream:
        stream.truncate(reading.FILE_LIMIT + 1)  # of all that is wrong, the name is told first
    commit(project)
    for word in ("snapshots", "HEAD"):
        refused(word, "is not named as a kernel is: letters, digits")
    # also at a terminal: nothing of the name is printed that could act there
    result = ptxtemplates("diff", "HEAD", cwd=project)
    assert_refused(result, "is not named as a kernel is")
    assert "\x1b" not in result.stderr


def test_huge_files_are_not_read(project: Path) -> None:
    with (project / "snapshots" / f"{ROPE}.ptx").open("ab") as stream:
        stream.truncate(reading.FILE_LIMIT + 1)  # takes no room on the disk
    commit(project)
    for word in ("snapshots", "HEAD"):
        refused(word, f"snapshots/{ROPE}.ptx has 16777217 bytes, and more than 16 MiB are not read")


def test_so_many_files_are_not_read(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "SET_LIMIT", 20_000)
    for word in ("snapshots", "HEAD"):
        refused(word, "bytes, and of a set no more than")


# ---- links


def test_links_out_of_the_snapshots(project: Path) -> None:
    (project / "snapshots" / "stolen.ptx").symlink_to("../../secret.ptx")
    commit(project)
    refused("snapshots", "snapshots/stolen.ptx is a symbolic link that leads out of snapshots")
    refused("HEAD", "HEAD:snapshots/stolen.ptx is a symbolic link, and not the file of a kernel")


def test_a_link_within_the_snapshots_is_a_file_on_disk(project: Path) -> None:
    (project / "snapshots" / "same.ptx").symlink_to(f"{ROPE}.ptx")
    found = collect("snapshots", LIST).kernels
    assert found["same"].text == found[ROPE].text


def test_sidecar_that_is_a_link(project: Path) -> None:
    (project / "snapshots.json").unlink()
    (project / "snapshots.json").symlink_to("../secret.ptx")
    commit(project)
    refused("snapshots", "snapshots.json is a symbolic link that leads out of")
    refused("HEAD", "HEAD:snapshots.json is a symbolic link")


def test_folder_of_snapshots_that_is_a_link(project: Path, tmp_path: Path) -> None:
    (project / "snapshots").rename(tmp_path / "elsewhere")
    (project / "snapshots").symlink_to(tmp_path / "elsewhere")
    commit(project)
    refused(".", "snapshots is a symbolic link that leads out of .")
    refused("HEAD", "HEAD:snapshots is a symbolic link, and not the folder of the snapshots")
    # who names the link means what it leads to
    assert ROPE in collect("snapshots", LIST).kernels


def test_links_in_a_circle_and_to_nowhere(project: Path) -> None:
    (project / "snapshots" / "circle.ptx").symlink_to("circle.ptx")
    refused("snapshots", "snapshots/circle.ptx")
    (project / "snapshots" / "circle.ptx").unlink()
    (project / "snapshots" / "nowhere.ptx").symlink_to("gone")
    refused("snapshots", "cannot read snapshots/nowhere.ptx: No such file")


def test_what_is_no_file(project: Path) -> None:
    (project / "snapshots" / "folder.ptx").mkdir()
    (project / "snapshots" / "folder.ptx" / "x").write_text("x")
    commit(project)
    refused("snapshots", "snapshots/folder.ptx is no regular file")
    refused("HEAD", "snapshots/folder.ptx is a folder, and not the file of a kernel")
    (project / "snapshots" / "folder.ptx" / "x").unlink()
    (project / "snapshots" / "folder.ptx").rmdir()
    os.mkfifo(project / "snapshots" / "pipe.ptx")
    refused("snapshots", "snapshots/pipe.ptx is no regular file")
    refused("snapshots/pipe.ptx", "snapshots/pipe.ptx is no regular file")


@pytest.mark.parametrize("path", ["snapshots", "snapshots/sub.ptx"])
def test_submodules(project: Path, path: str) -> None:
    if path == "snapshots":
        git(project, "rm", "-rq", "snapshots")
    head = git(project, "rev-parse", "HEAD")
    git(project, "update-index", "--add", "--cacheinfo", f"160000,{head},{path}")
    git(project, "commit", "-qm", "hostile")
    refused("HEAD", f"{path}", "is a submodule, and not")


def test_snapshots_that_are_a_file(project: Path) -> None:
    git(project, "rm", "-rq", "snapshots")
    (project / "snapshots").write_text("x")
    commit(project)
    refused("HEAD", "HEAD:snapshots is a file, and not the folder of the snapshots")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_unreadable(project: Path) -> None:
    (project / "snapshots" / f"{ROPE}.ptx").chmod(0)
    refused("snapshots", f"cannot read snapshots/{ROPE}.ptx: Permission denied")


# ---- sidecars


def changed(values: Any, key: str, value: Any) -> Any:
    values[ROPE][key] = value
    return values


def without(key: str, values: Any) -> Any:
    del values[ROPE][key]
    return values


SIDECARS: Final[dict[str, tuple[Callable[[Any], Any], str]]] = {
    "list": (lambda values: [values], "is no sidecar: an object with a description for each variant is"),
    "text": (lambda values: {**values, ROPE: "x"}, f"'{ROPE}' is not described by an object"),
    "stranger": (lambda values: {**values, "x": values[ROPE]}, "describes 'x', and"),
    **{
        f"no {key}": (partial(without, key), f"'{ROPE}' has no '{key}'")
        for key in ("block", "entry", "grid", "kernel", "parameters", "target")
    },
    "block": (lambda values: changed(values, "block", [1, 2]), "'block' must be three numbers of threads"),
    "blocks": (lambda values: changed(values, "block", [1, 2, -1]), "'block' must be three numbers"),
    "truth": (
        lambda values: changed(values, "shared_memory", True),
        "'shared_memory' must be a number of bytes",
    ),
    "grid": (lambda values: changed(values, "grid", [1, None, 1]), "'grid' must be three numbers, or names"),
    "limits": (lambda values: changed(values, "grid_limits", {"rows": "x"}), "'grid_limits' must be"),
    "argument": (
        lambda values: changed(values, "parameters", [{"name": "x"}]),
        "'parameters' must be a list",
    ),
    "nested": (
        lambda values: changed(
            values,
            "parameters",
            [
                {
                    **values[ROPE]["parameters"][0],
                    "tensor": {**values[ROPE]["parameters"][0]["tensor"], "points_to": 1},
                }
            ],
        ),
        "'parameters' must be a list of arguments",
    ),
    "baked": (
        lambda values: changed(values, "template_parameters", {"theta": []}),
        "'template_parameters' must",
    ),
}


@pytest.mark.parametrize("kind", SIDECARS)
def test_sidecars_of_another_shape(project: Path, kind: str) -> None:
    change, message = SIDECARS[kind]
    path = project / "snapshots.json"
    path.write_text(json.dumps(change(json.loads(path.read_text()))))
    commit(project)
    refused("snapshots", "snapshots.json", message)
    refused("HEAD", "HEAD:snapshots.json", message)


@pytest.mark.parametrize(
    "content", [b"", b"{", b"\xff", b'{"x": NaN}', b"[" * 100_000, b'{"x": ' + b"9" * 5000 + b"}", b"\0"]
)
def test_sidecars_that_are_no_json(project: Path, content: bytes) -> None:
    (project / "snapshots.json").write_bytes(content)
    commit(project)
    for word in ("snapshots", "HEAD"):
        refused(word, "snapshots.json is not JSON that can be read: ")


# ---- build directories


@pytest.fixture
def built(project: Path) -> Path:
    build(load(LIST), "out")
    return project / "out"


def rewrite(built: Path, change: Any) -> None:
    path = built / "manifest.json"
    values = json.loads(path.read_text())
    change(values["kernels"])
    path.write_text(json.dumps(values))


@pytest.mark.parametrize(
    "file",
    [
        "/etc/passwd",
        "../secret.ptx",
        "batched_rope/../../../secret.ptx",
        "batched_rope/a b.ptx",
        "C:\\x",
        None,
        7,
    ],
)
def test_manifest_that_leads_elsewhere(built: Path, file: object) -> None:
    rewrite(built, lambda kernels: kernels[0].update(file=file))
    refused("out", f"the file of '{ROPE}' must be 'batched_rope/{ROPE}.ptx', not {file!r}")


@pytest.mark.parametrize("name", ["../../secret", "a b", "/etc/passwd", ""])
@pytest.mark.parametrize("key", ["variant", "kernel"])
def test_manifest_with_names_that_are_none(built: Path, key: str, name: str) -> None:
    rewrite(built, lambda kernels: kernels[0].update({key: name}))
    refused("out", "the manifest has an entry whose names are no names of files")


def test_manifest_and_files_that_differ(built: Path) -> None:
    path = built / "batched_rope" / f"{ROPE}.ptx"
    path.write_bytes(path.read_bytes() + b"\n")
    refused("out", f"out/batched_rope/{ROPE}.ptx is not what out/manifest.json says, by its sha256")
    path.unlink()
    refused("out", f"cannot read out/batched_rope/{ROPE}.ptx: No such file")


def test_links_out_of_a_build_directory(built: Path, tmp_path: Path) -> None:
    path = built / "batched_rope" / f"{ROPE}.ptx"
    path.unlink()
    path.symlink_to(tmp_path / "secret.ptx")
    digest = hashlib.sha256(SECRET.encode()).hexdigest()
    rewrite(built, lambda kernels: kernels[0].update(sha256=digest))
    refused("out", f"out/batched_rope/{ROPE}.ptx is a symbolic link that leads out of out")
    (built / "batched_rope").rename(tmp_path / "batched_rope")
    (built / "batched_rope").symlink_to(tmp_path / "batched_rope")
    refused("out", f"out/batched_rope/{ROPE}.ptx is a symbolic link that leads out of out")
    (built / "manifest.json").rename(tmp_path / "manifest.json")
    (built / "manifest.json").symlink_to(tmp_path / "manifest.json")
    refused("out", "out/manifest.json is a symbolic link that leads out of out")


def test_manifests_of_another_shape(built: Path) -> None:
    rewrite(built, lambda kernels: kernels.append(kernels[0]))
    refused("out", f"out/manifest.json lists '{ROPE}' twice")
    rewrite(built, lambda kernels: kernels.pop())
    rewrite(built, lambda kernels: kernels[0].pop("block"))
    refused("out", f"out/manifest.json: '{ROPE}' has no 'block'")
    rewrite(built, lambda kernels: kernels.clear())
    refused("out", "out/manifest.json lists no kernels")
    (built / "manifest.json").write_text("{}")
    refused("out", "out/manifest.json is no manifest of ptxtemplates")
    (built / "manifest.json").write_bytes(b"")
    refused("out", "out/manifest.json lists no kernels")


# ---- the command


@pytest.mark.parametrize(
    ("arguments", "part"),
    [
        (("nowhere",), "no file or folder is named 'nowhere', and git knows no revision"),
        (("--", "--all"), "'--all' is no revision"),
        (("--", "-h", "main"), "'-h' is no revision"),
        (("main", "../secret.ptx", "--kernel", "x"), "no kernel of the name of one in ../secret.ptx"),
        (("HEAD~7",), "git knows no revision 'HEAD~7'"),
        (("v1..main",), "that is a range; name one commit"),
    ],
)
def test_the_command_says_one_line_and_writes_nothing(
    project: Path, arguments: tuple[str, ...], part: str
) -> None:
    def files() -> dict[Path, int]:
        return {path: path.lstat().st_mtime_ns for path in project.parent.rglob("*")}

    before = files()
    result = ptxtemplates("diff", "--html", "page.html", *arguments, cwd=project)
    assert_refused(result, part)
    assert not re.search("Traceback", result.stderr)
    assert files() == before
