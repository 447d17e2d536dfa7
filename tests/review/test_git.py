"""Reading files of revisions: nothing is executed, fetched or written, whatever the repository says."""

from __future__ import annotations

import os
import stat
import subprocess
from typing import TYPE_CHECKING

import pytest

from ptxtemplates.errors import PtxTemplatesError
from ptxtemplates.git import Repository
from tests.review.repositories import clone_of, commit_project, git

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(scope="module")
def committed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return commit_project(tmp_path_factory.mktemp("committed"))


def state(folder: Path) -> dict[str, tuple[int, int]]:
    """Return the size and the time of every file."""
    return {
        str(path.relative_to(folder)): (path.lstat().st_size, path.lstat().st_mtime_ns)
        for path in folder.rglob("*")
    }


def test_names_of_a_commit(committed: Path) -> None:
    repository = Repository(committed)
    head, first = git(committed, "rev-parse", "HEAD"), git(committed, "rev-parse", "HEAD~1")
    assert [repository.find(name) for name in ("main", "HEAD", "@", head[:9])] == [head] * 4
    # an annotated tag is an object of its own
    assert [repository.find(name) for name in ("v1", "main~1", "HEAD^")] == [first] * 3
    assert repository.find("nowhere") is None


@pytest.mark.parametrize(
    "revision",
    ["--all", "-h", "--output=stolen", "", "HEAD\nHEAD", "HEAD\0", "HEAD:snapshots", "\x1b[2J", "\udcff"],
)
def test_what_is_no_commit(committed: Path, revision: str) -> None:
    before = state(committed)
    assert Repository(committed).find(revision) is None
    with pytest.raises(PtxTemplatesError, match="is no revision|knows no revision"):
        Repository(committed).commit(revision)
    assert state(committed) == before


def test_entries_and_contents(committed: Path) -> None:
    repository = Repository(committed)
    commit = repository.commit("main")
    found = repository.entries(commit, "snapshots", "snapshots.json", "gone")
    assert {path: entry.mode for path, entry in found.items()} == {
        "snapshots": "040000",
        "snapshots.json": "100644",
    }
    files = repository.entries(commit, "snapshots/")
    contents = repository.contents([entry.name for entry in files.values()])
    for (path, entry), content in zip(files.items(), contents, strict=True):
        assert content == (committed / path).read_bytes()
        assert entry.size == len(content)
    assert repository.contents([]) == []


def test_in_a_folder_of_the_repository_and_detached(committed: Path, tmp_path: Path) -> None:
    project = clone_of(committed, tmp_path / "project")
    (project / "engine").mkdir()
    git(project, "mv", "snapshots", "engine")
    git(project, "commit", "-qm", "moved")
    git(project, "checkout", "-q", "--detach")
    repository = Repository(project / "engine")
    assert [*repository.entries(repository.commit("HEAD"), "snapshots")] == ["snapshots"]
    assert repository.entries(repository.commit("v1"), "snapshots") == {}


def test_environment_of_a_hook_does_not_redirect(
    committed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = tmp_path / "other"
    other.mkdir()
    git(other, "init", "-q")
    monkeypatch.setenv("GIT_DIR", str(other / ".git"))
    monkeypatch.setenv("GIT_WORK_TREE", str(other))
    monkeypatch.setenv("GIT_OBJECT_DIRECTORY", str(other / ".git/objects"))
    assert Repository(committed).find("v1") is not None


def test_nothing_of_the_repository_is_executed(committed: Path, tmp_path: Path) -> None:
    project = clone_of(committed, tmp_path / "project")
    trap, proof = tmp_path / "trap", tmp_path / "proof"
    trap.write_text(f'#!/bin/sh\necho "$0 $*" >> "{proof}"\n')
    trap.chmod(trap.stat().st_mode | stat.S_IXUSR)
    for key in (
        "core.fsmonitor",
        "core.pager",
        "pager.ls-tree",
        "pager.cat-file",
        "core.sshCommand",
        "core.editor",
        "diff.external",
        "diff.trap.textconv",
        "filter.trap.smudge",
        "filter.trap.clean",
        "core.alternateRefsCommand",
        "gpg.program",
        "alias.ls-tree",
        "alias.cat-file",
    ):
        git(project, "config", key, f"!{trap}" if key.startswith("alias") else str(trap))
    (project / ".git/info/attributes").write_text("*.ptx filter=trap diff=trap\n")
    for hook in ("post-checkout", "post-index-change", "reference-transaction", "pre-auto-gc"):
        (project / ".git/hooks").mkdir(exist_ok=True)
        (project / ".git/hooks" / hook).symlink_to(trap)
    before = state(project)
    repository = Repository(project)
    files = repository.entries(repository.commit("v1"), "snapshots/")
    assert b"// older" in b"".join(repository.contents([entry.name for entry in files.values()]))
    assert not proof.exists()
    assert state(project) == before
    git(project, "status")
    assert proof.exists(), "the trap does not work"


def test_a_replacement_is_not_taken_for_the_commit(committed: Path, tmp_path: Path) -> None:
    project = clone_of(committed, tmp_path / "project")
    git(project, "replace", "v1^{commit}", "main")
    repository = Repository(project)
    before, now = (repository.entries(repository.commit(name), "snapshots/") for name in ("v1", "main"))
    assert before != now


def test_shallow_clone_says_how_to_get_the_rest(committed: Path, tmp_path: Path) -> None:
    git(tmp_path, "clone", "-q", "--depth", "1", committed.as_uri(), "shallow")
    with pytest.raises(
        PtxTemplatesError, match="'HEAD~1': this clone is shallow; git fetch --unshallow .*fetch-depth: 0"
    ):
        Repository(tmp_path / "shallow").commit("HEAD~1")


def test_partial_clone_is_not_completed_behind_the_back(committed: Path, tmp_path: Path) -> None:
    source = clone_of(committed, tmp_path / "source")
    git(source, "config", "uploadpack.allowFilter", "true")
    git(tmp_path, "clone", "-q", "--no-checkout", "--filter=blob:none", source.as_uri(), "partial")
    repository = Repository(tmp_path / "partial")
    commit = repository.commit("HEAD")
    before = state(tmp_path / "partial")
    with pytest.raises(PtxTemplatesError, match="partial one .* git fetch --refetch --no-filter gets them"):
        repository.entries(commit, "snapshots/")
    assert state(tmp_path / "partial") == before
    git(tmp_path / "partial", "fetch", "-q", "--refetch", "--no-filter")
    assert len(repository.entries(commit, "snapshots/")) == 4


def test_a_lost_object_is_named(committed: Path, tmp_path: Path) -> None:
    project = clone_of(committed, tmp_path / "project")
    name = git(project, "rev-parse", "HEAD:snapshots.json")
    (project / ".git/objects" / name[:2] / name[2:]).unlink()
    with pytest.raises(PtxTemplatesError, match=f"git has no file {name} in this clone"):
        Repository(project).contents([name])


def test_branch_of_the_remote_is_suggested(committed: Path, tmp_path: Path) -> None:
    git(tmp_path, "clone", "-q", committed.as_uri(), "clone")
    git(tmp_path / "clone", "checkout", "-q", "-b", "change")
    git(tmp_path / "clone", "branch", "-q", "-D", "main")
    with pytest.raises(PtxTemplatesError, match="'main'; did you mean 'origin/main'"):
        Repository(tmp_path / "clone").commit("main")


def test_a_range_is_no_commit(committed: Path) -> None:
    with pytest.raises(PtxTemplatesError, match=r"'v1\.\.\.main': that is a range; .*merge-base"):
        Repository(committed).commit("v1...main")


def test_where_there_is_no_checkout(committed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    with pytest.raises(PtxTemplatesError, match="is in no git repository"):
        Repository(tmp_path)
    git(tmp_path, "clone", "-q", "--bare", committed.as_uri(), "bare")
    for folder in (tmp_path / "bare", committed / ".git"):
        with pytest.raises(PtxTemplatesError, match=r"is in a bare git repository, or in its \.git folder"):
            Repository(folder)
    with pytest.raises(PtxTemplatesError, match="git rev-parse: cannot change to .*gone"):
        Repository(tmp_path / "gone")


def test_before_the_first_commit(tmp_path: Path) -> None:
    git(tmp_path, "init", "-q")
    assert Repository(tmp_path).find("HEAD") is None


@pytest.mark.parametrize("path", ["", "."])
def test_git_in_the_folder_one_is_in_is_not_run(
    committed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, path: str
) -> None:
    fake = tmp_path / "git"
    fake.write_text(f"#!/bin/sh\ntouch '{tmp_path}/proof'\n")
    fake.chmod(0o755)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", path)
    with pytest.raises(PtxTemplatesError, match="cannot run git: it is not on PATH"):
        Repository(committed)
    assert not (tmp_path / "proof").exists()


def test_a_repository_of_somebody_else_is_refused_as_git_does(
    committed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wrapper = tmp_path / "bin" / "git"
    wrapper.parent.mkdir()
    real = subprocess.run(["which", "git"], capture_output=True, text=True, check=True).stdout.strip()
    wrapper.write_text(f'#!/bin/sh\nGIT_TEST_ASSUME_DIFFERENT_OWNER=1 exec "{real}" "$@"\n')
    wrapper.chmod(0o755)
    monkeypatch.setenv("PATH", f"{wrapper.parent}{os.pathsep}{os.environ['PATH']}")
    with pytest.raises(PtxTemplatesError, match="git rev-parse: detected dubious ownership"):
        Repository(committed)
    # a user's own word for it counts, as it does with git
    monkeypatch.setenv("GIT_CONFIG_COUNT", "1")
    monkeypatch.setenv("GIT_CONFIG_KEY_0", "safe.directory")
    monkeypatch.setenv("GIT_CONFIG_VALUE_0", "*")
    assert Repository(committed).find("main") is not None
