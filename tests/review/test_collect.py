"""What the words of a comparison mean, and how kernels of two sets find each other."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from ptxtemplates.artifacts import build
from ptxtemplates.config import load
from ptxtemplates.errors import PtxTemplatesError
from ptxtemplates.rendering import render
from ptxtemplates.review.collect import collect, collect_both, collect_working_tree
from tests.helpers.verifying import BACKWARD, CHUNK, REDUCE, ROPE
from tests.review.repositories import NAMES, clone_of, commit_project, git

LIST = Path("kernels.toml")


@pytest.fixture(scope="module")
def committed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return commit_project(tmp_path_factory.mktemp("committed"))


@pytest.fixture
def project(committed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    copy = clone_of(committed, tmp_path / "project")
    monkeypatch.chdir(copy)
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    return copy


def test_every_source_gives_the_same_kernels(project: Path) -> None:
    build(load(LIST), "out")
    rendered = collect_working_tree(LIST)
    assert [*rendered.kernels] == NAMES
    sidecar = json.loads((project / "snapshots.json").read_text())
    for word in (
        "snapshots",
        "./snapshots/",
        str(project / "snapshots"),
        ".",
        str(project),
        "out",
        "main",
        "HEAD",
    ):
        kernels = collect(word, LIST).kernels
        assert [*kernels] == NAMES, word
        for name, side in kernels.items():
            assert (side.name, side.text) == (name, rendered.kernels[name].text), word
            assert side.description == sidecar[name] == rendered.kernels[name].description, word
            assert side.places is None


def test_places_of_the_working_tree_are_those_of_the_templates() -> None:
    side = collect_working_tree(Path(__file__).parents[2] / "kernels.toml").kernels[
        "batched_rope.h32.d128.theta10000"
    ]
    assert side.places is not None
    assert len(side.places) == len(side.text.split("\n"))
    assert {template for template, _ in side.places} >= {"batched_rope.ptx.jinja", "macros/rotate.jinja"}


def test_titles_and_files(project: Path) -> None:
    head, first = git(project, "rev-parse", "HEAD"), git(project, "rev-parse", "v1^{commit}")
    assert collect("main", LIST).title == f"main ({head[:8]})"
    assert collect("v1", LIST).title == f"v1 ({first[:8]})"
    assert collect(head, LIST).title == collect(head[:10], LIST).title == head[:8]
    assert collect_working_tree(LIST).title == "working tree"
    assert collect("snapshots", LIST).title == "snapshots"
    assert collect("HEAD~1", LIST).kernels[ROPE].file == f"HEAD~1:snapshots/{ROPE}.ptx"
    assert collect(".", LIST).kernels[ROPE].file == f"snapshots/{ROPE}.ptx"


def test_a_revision_is_what_is_committed_and_not_what_lies_there(project: Path) -> None:
    (project / "snapshots" / f"{REDUCE}.ptx").write_text("changed\n")
    (project / "snapshots.json").unlink()
    old, new = collect_both("v1", "main", LIST)
    assert [
        name for name in NAMES if old.kernels[name] != new.kernels[name]._replace(file=old.kernels[name].file)
    ] == [REDUCE]
    assert old.kernels[REDUCE].text == new.kernels[REDUCE].text + "// older\n"
    assert collect("snapshots", LIST).kernels[REDUCE].text == "changed\n"


def test_snapshots_beside_a_list_elsewhere(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (project / "engine").mkdir()
    git(project, "mv", "snapshots", "snapshots.json", "kernels.toml", "engine")
    git(project, "commit", "-qm", "moved")
    assert [*collect("HEAD", Path("engine/kernels.toml")).kernels] == NAMES
    monkeypatch.chdir(project / "engine")
    assert [*collect("HEAD", LIST).kernels] == NAMES
    monkeypatch.chdir("snapshots")
    assert collect(".", Path("../kernels.toml")).kernels[ROPE].description is not None
    assert collect("..", Path("../kernels.toml")).kernels[ROPE].description is not None


def test_a_revision_from_before_there_were_kernels_has_none(project: Path) -> None:
    git(project, "checkout", "-q", "--orphan", "empty")
    git(project, "rm", "-rqf", ".")
    (project / "README").write_text("nothing yet\n")
    git(project, "add", ".")
    git(project, "commit", "-qm", "start")
    git(project, "checkout", "-q", "main")
    old, new = collect_both("empty", None, LIST)
    assert (old.kernels, [*new.kernels]) == ({}, NAMES)
    with pytest.raises(PtxTemplatesError, match=r"neither empty \(.*\) nor empty~0 \(.*\) has kernels"):
        collect_both("empty", "empty~0", LIST)
    git(project, "rm", "-rqf", "snapshots")
    git(project, "commit", "-qm", "lost")
    with pytest.raises(PtxTemplatesError, match=r"HEAD \(.*\) has no snapshots/ beside kernels.toml"):
        collect("HEAD", LIST)


def test_a_text_that_the_sidecar_does_not_describe_has_no_description(project: Path) -> None:
    (project / "snapshots" / "foreign.ptx").write_text(".version 8.0\n")
    found = collect("snapshots", LIST).kernels
    assert found["foreign"].description is None
    assert found[ROPE].description is not None
    (project / "snapshots.json").unlink()
    assert [side.description for side in collect(".", LIST).kernels.values()] == [None] * 5


def test_a_folder_of_any_name_has_its_sidecar_beside_it(project: Path) -> None:
    (project / "snapshots").rename(project / "base")
    assert collect("base", LIST).kernels[ROPE].description is None
    (project / "snapshots.json").rename(project / "base.json")
    assert collect("base", LIST).kernels[ROPE].description is not None


def test_other_files_of_the_folder_are_nobodys_business(project: Path) -> None:
    (project / "snapshots" / "README.md").write_bytes(b"\xff\0")
    (project / "snapshots" / "a folder").mkdir()
    (project / "snapshots" / "to nowhere").symlink_to("/nowhere")
    git(project, "add", ".")
    git(project, "commit", "-qm", "more")
    assert [*collect("snapshots", LIST).kernels] == [*collect("HEAD", LIST).kernels] == NAMES


def test_windows_line_ends_and_byte_order_mark_are_no_change(project: Path) -> None:
    path = project / "snapshots" / f"{ROPE}.ptx"
    before = path.read_bytes()
    path.write_bytes(b"\xef\xbb\xbf" + before.replace(b"\n", b"\r\n"))
    assert collect("snapshots", LIST).kernels[ROPE].text == before.decode()


def test_what_does_not_parse_is_kept(project: Path) -> None:
    path = project / "snapshots" / f"{ROPE}.ptx"
    half = path.read_bytes()[:700]
    path.write_bytes(half)
    assert collect("snapshots", LIST).kernels[ROPE].text == half.decode()
    kernels = collect(f"snapshots/{ROPE}.ptx", LIST).kernels
    assert [(name, side.text) for name, side in kernels.items()] == [(ROPE, half.decode())]


def test_a_word_that_is_both_path_and_revision_is_refused(project: Path) -> None:
    (project / "main").mkdir()
    with pytest.raises(
        PtxTemplatesError, match="'main' is a path and a git revision too: write './main' or 'main~0'"
    ):
        collect("main", LIST)
    assert collect("main~0", LIST).title.startswith("main~0 (")
    with pytest.raises(PtxTemplatesError, match="^main holds no kernels"):
        collect(f".{os.sep}main", LIST)


@pytest.mark.parametrize(
    ("word", "message"),
    [
        ("nowhere", "no file or folder is named 'nowhere', and git knows no revision 'nowhere'"),
        ("--all", "no file or folder is named '--all', and '--all' is no revision"),
        ("-", "'-' is no revision"),
        ("", "an empty word names nothing to compare"),
        ("./main", "./main does not exist"),
        ("../v1", "../v1 does not exist"),
        ("gone.ptx", "gone.ptx does not exist"),
        ("/no/such", "/no/such does not exist"),
        ("kernels.toml", "kernels.toml is neither a folder nor a .ptx file"),
        ("snapshots.json", "snapshots.json is neither a folder nor a .ptx file"),
        (".git", ".git holds no kernels"),
    ],
)
def test_words_that_mean_nothing(project: Path, word: str, message: str) -> None:
    with pytest.raises(PtxTemplatesError) as error:
        collect(word, LIST)
    assert message in str(error.value)


def test_paths_need_no_git(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    assert [*collect("snapshots", LIST).kernels] == NAMES
    with pytest.raises(PtxTemplatesError, match="no file or folder is named 'main', and cannot run git"):
        collect("main", LIST)


# ---- single files


def entry(name: str, body: str = "ret;") -> str:
    return f"\n\t// .globl\t{name}\n.visible .entry {name}()\n{{\n    {body}\n}}\n"


HEAD = ".version 7.0\n.target sm_80\n.address_size 64\n"


def test_two_files_are_compared_whatever_they_are_called(tmp_path: Path) -> None:
    (tmp_path / "a.ptx").write_text(HEAD + entry("before"))
    (tmp_path / "b.ptx").write_text(HEAD + entry("after"))
    (tmp_path / "half.ptx").write_text(HEAD + entry("cut")[:-4])
    old, new = collect_both(str(tmp_path / "a.ptx"), str(tmp_path / "b.ptx"), LIST)
    assert ([*old.kernels], [*new.kernels]) == (["after"], ["after"])
    assert old.kernels["after"].text == HEAD + entry("before")
    assert old.kernels["after"].description is None
    assert (old.title, new.title) == (str(tmp_path / "a.ptx"), str(tmp_path / "b.ptx"))
    old, new = collect_both(str(tmp_path / "a.ptx"), str(tmp_path / "half.ptx"), LIST)
    assert ([*old.kernels], [*new.kernels]) == (["half"], ["half"])


def test_several_entries_are_several_kernels_with_a_text_of_their_own(tmp_path: Path) -> None:
    table = ".global .b8 table[4];\n"
    one, two = tmp_path / "one.ptx", tmp_path / "two.ptx"
    one.write_text(HEAD + table + entry("a") + entry("b") + entry("c"))
    two.write_text(HEAD + table + entry("b") + entry("a", "exit;\n    ret;") + entry("d"))
    old, new = collect_both(str(one), str(two), LIST)
    assert ([*old.kernels], [*new.kernels]) == (["a", "b", "c"], ["a", "b", "d"])
    assert old.kernels["b"].text == new.kernels["b"].text == HEAD + table + entry("b")
    assert old.kernels["a"].text == HEAD + table + entry("a")
    assert new.kernels["a"].text == HEAD + table + entry("a", "exit;\n    ret;")
    assert new.kernels["d"].file == f"{two}:d"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (entry("a") + entry("a"), "'a' is defined twice"),
        (
            entry("a").rstrip() + ".visible .entry b() { ret; }\n",
            "'a' ends and 'b' begins; break the line there",
        ),
    ],
)
def test_entries_that_cannot_be_told_apart(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "x.ptx").write_text(HEAD + text)
    with pytest.raises(PtxTemplatesError) as error:
        collect(str(tmp_path / "x.ptx"), LIST)
    assert message in str(error.value)
    assert str(error.value).startswith(f"{tmp_path / 'x.ptx'}:")


def test_a_file_and_a_set_compare_what_the_file_has(project: Path) -> None:
    path = project / f"{ROPE}.ptx"
    path.write_bytes((project / "snapshots" / path.name).read_bytes() + b"// mine\n")
    old, new = collect_both(path.name, None, LIST)
    assert ([*old.kernels], [*new.kernels]) == ([ROPE], [ROPE])
    assert new.title == "working tree"
    old, new = collect_both("main", path.name, LIST)
    assert ([*old.kernels], [*new.kernels]) == ([ROPE], [ROPE])
    assert new.kernels[ROPE].text.endswith("// mine\n")
    path.rename(project / "batched_rop.ptx")
    with pytest.raises(
        PtxTemplatesError, match="working tree has no kernel .* in batched_rop.ptx; did you mean"
    ):
        collect_both("batched_rop.ptx", None, LIST)


# ---- choosing


def test_patterns_choose_by_variant_and_by_kernel(project: Path) -> None:
    def chosen(*patterns: str) -> list[str]:
        old, new = collect_both("v1", None, LIST, patterns)
        assert [*old.kernels] == [*new.kernels]
        return [*old.kernels]

    assert chosen("batched_rope") == [ROPE]
    assert chosen("batched_rope*") == sorted([ROPE, BACKWARD])
    assert chosen("*.c5", "*chunk*") == sorted([REDUCE, CHUNK])
    with pytest.raises(
        PtxTemplatesError, match="no kernel matches 'batched_rop'; did you mean 'batched_rope'"
    ):
        chosen("*", "batched_rop")


def test_a_pattern_leaves_a_kernel_that_one_set_lacks(project: Path) -> None:
    (project / "snapshots" / f"{ROPE}.ptx").rename(project / "snapshots" / "batched_rope.other.ptx")
    (project / "snapshots.json").unlink()
    old, new = collect_both("main", "snapshots", LIST, ["batched_rope.*"])
    assert ([*old.kernels], [*new.kernels]) == ([ROPE], ["batched_rope.other"])


def test_a_template_that_fails_is_told_with_its_line(project: Path) -> None:
    (project / "kernels.toml").write_text(
        '[[kernel]]\nname = "batched_rope"\nnum_heads = 0\nhead_dim = 8\ntheta = 1\n'
    )
    with pytest.raises(PtxTemplatesError, match="^kernels.toml:3: "):
        collect_both("main", None, LIST)


def test_the_list_renders_as_the_snapshots(project: Path) -> None:
    for kernel in load(LIST):
        assert collect_working_tree(LIST).kernels[kernel.variant].text == render(kernel).text
