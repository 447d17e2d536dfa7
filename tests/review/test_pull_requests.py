"""The workflows of docs/pull-requests.md: their scripts run here, and their tokens may do little."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import textwrap
import zipfile
from pathlib import Path
from typing import Any, Final, NamedTuple

import click
import pytest

from ptxtemplates.cli import main
from ptxtemplates.review.markdown import LIMIT, MARKER
from tests.helpers.variants import ROOT
from tests.helpers.verifying import REDUCE
from tests.review.repositories import commit_project, git

GITHUB: Final = ROOT / ".github"
ACTION: Final = (GITHUB / "actions" / "ptx-review" / "action.yml").read_text(encoding="utf-8")
REVIEW: Final = (GITHUB / "workflows" / "ptx-review.yml").read_text(encoding="utf-8")
COMMENT: Final = (GITHUB / "workflows" / "ptx-review-comment.yml").read_text(encoding="utf-8")
GUIDE: Final = (ROOT / "docs" / "pull-requests.md").read_text(encoding="utf-8")
REPORTS: Final = (ROOT / "docs" / "diff-reports.md").read_text(encoding="utf-8")

NUMBER: Final = "17"
SHA: Final = "0123456789abcdef0123456789abcdef01234567"
FORK: Final = "4711"


def script(text: str, name: str) -> str:
    """Return what a step of this name runs."""
    _, _, rest = text.partition(f"- name: {name}\n")
    found = re.search(r"^( +)run: \|\n((?:\1  .*\n|\n)+)", rest, re.MULTILINE)
    assert found is not None
    return textwrap.dedent(found[2])


def run(text: str, folder: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run a script as GitHub does for ``shell: bash``."""
    variables = {"PATH": os.environ["PATH"], "HOME": str(folder), "LANG": "C.UTF-8", **environment}
    command = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", text]
    return subprocess.run(command, cwd=folder, env=variables, capture_output=True, text=True, check=False)


needs_bash = pytest.mark.skipif(
    any(shutil.which(program) is None for program in ("bash", "iconv", "jq", "unzip")),
    reason="the scripts are for GitHub's Linux machines: bash, iconv, jq and unzip",
)

# ---- the action


class Reviewed(NamedTuple):
    """What a run of the action left."""

    code: int
    results: Path
    summary: str
    log: str

    @property
    def comment(self) -> str:
        return (self.results / "comment.md").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return commit_project(tmp_path_factory.mktemp("project"))


def review(project: Path, folder: Path, tool: str | None = None, **inputs: str) -> Reviewed:
    """Run the step that compares, with this Python in place of what the step before installs."""
    program = folder / "ptx-review-tool" / "bin" / "ptxtemplates"
    program.parent.mkdir(parents=True)
    program.write_text(tool or f'#!/bin/sh\nexec "{sys.executable}" -m ptxtemplates "$@"\n')
    program.chmod(0o755)
    files = {name: folder / name.lower() for name in ("GITHUB_STEP_SUMMARY", "GITHUB_OUTPUT")}
    given = {
        "BASE": "HEAD^1",
        "HEAD": "",
        "CONFIG": "kernels.toml",
        "ARCH": "",
        "FAIL_ON": "",
        "NUMBER": NUMBER,
    }
    paths = {name: str(file) for name, file in files.items()}
    ended = run(
        script(ACTION, "compare"),
        project,
        RUNNER_TEMP=str(folder),
        PYTHONPATH=str(ROOT),
        **paths,
        **given | inputs,
    )
    assert ended.returncode == 0, ended.stderr
    written = files["GITHUB_OUTPUT"].read_text()
    [code] = re.findall(r"\Acode=(\d+)\n\Z", written)
    return Reviewed(int(code), folder / "ptx-review", files["GITHUB_STEP_SUMMARY"].read_text(), ended.stderr)


@needs_bash
def test_the_action_reviews_the_merge_commit(project: Path, tmp_path: Path) -> None:
    """``HEAD^1`` has a comment more in one text than the working tree renders."""
    found = review(project, tmp_path, FAIL_ON="contract,added")
    assert (found.code, found.log) == (0, "")
    assert found.comment.startswith(f"{MARKER}\n### PTX kernels: `HEAD^1 (")
    assert "4 kernels: " in found.comment
    assert "unchanged 3" in found.comment
    assert f"<code>{REDUCE}</code>" in found.comment
    assert "\n-// older\n" in found.comment
    assert found.summary == found.comment
    assert (found.results / "number").read_text() == f"{NUMBER}\n"
    kernels = json.loads((found.results / "report.json").read_text())["kernels"]
    assert [kernel["status"] for kernel in kernels].count("changed") == 1
    assert "<html" in (found.results / "report.html").read_text(encoding="utf-8")
    assert {file.name for file in found.results.iterdir()} == {
        "comment.md", "number", "report.html", "report.json"
    }  # fmt: skip


@needs_bash
def test_the_action_says_so_where_nothing_could_be_compared(project: Path, tmp_path: Path) -> None:
    found = review(project, tmp_path, BASE="no-such-revision")
    assert found.code == 2
    assert found.log.startswith("error: ")
    assert found.comment == f"{MARKER}\n### PTX kernels: could not be compared\n\n    {found.log}"
    assert found.summary == found.comment


@needs_bash
def test_a_shallow_clone_is_told_what_it_needs(project: Path, tmp_path: Path) -> None:
    shallow = tmp_path / "shallow"
    git(tmp_path, "clone", "-q", "--depth", "1", project.as_uri(), str(shallow))
    found = review(shallow, tmp_path)
    assert found.code == 2
    assert "HEAD^1" in found.comment


SHOWS_ITS_WORDS: Final = '#!/bin/sh\nprintf "%s\\n" "$@" >&2\nexit 1\n'


@needs_bash
def test_inputs_are_words_and_nothing_else(project: Path, tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    found = review(
        project, tmp_path, SHOWS_ITS_WORDS,
        BASE=f"$(touch {mark})", HEAD="a b", CONFIG="-c", ARCH="sm_80  sm_* ;id", FAIL_ON="`id`,registers>5%",
    )  # fmt: skip
    results = tmp_path / "ptx-review"
    assert found.log.splitlines() == [
        "diff", "-c", "-c", "--markdown", f"{results}/comment.md", "--html", f"{results}/report.html", "--json",
        "--arch", "sm_80", "--arch", "sm_*", "--arch", ";id", "--fail-on", "`id`,registers>5%",
        "--", f"$(touch {mark})", "a b",
    ]  # fmt: skip
    assert not mark.exists()


@needs_bash
def test_an_error_in_a_comment_is_text(project: Path, tmp_path: Path) -> None:
    tool = "#!/bin/sh\nprintf 'error: \\033[2J@octocat\\r</pre>\\n```\\n%05000d\\n' 7 >&2\nexit 2\n"
    found = review(project, tmp_path, tool)
    assert found.code == 2
    lines = found.comment.splitlines()
    assert lines[3:5] == ["    error: [2J@octocat</pre>", "    ```"]
    assert all(line.startswith("    ") for line in lines[3:])
    assert len(found.comment) < 2_500


def test_the_job_ends_as_the_comparison_did() -> None:
    """Behind the artifact, so that a policy's objection hides nothing."""
    assert ACTION.index("upload-artifact") < ACTION.index('run: exit "$CODE"')
    assert "CODE: ${{ steps.compare.outputs.code }}" in ACTION


# ---- the comment

GH: Final = '''\
#!{python}
"""Stands in for GitHub's command line."""
import json, pathlib, subprocess, sys
folder = pathlib.Path({folder!r})
words = sys.argv[1:]
assert words.pop(0) == "api", words
method, body, query, path = "GET", None, None, None
while words:
    word = words.pop(0)
    if word == "--method":
        method = words.pop(0)
    elif word == "--input":
        body = json.loads(pathlib.Path(words.pop(0)).read_text(encoding="utf-8"))
    elif word == "--jq":
        query = words.pop(0)
    elif word not in ("--paginate", "--silent"):
        assert path is None, word
        path = word
if method != "GET":
    with open(folder / "sent.jsonl", "a") as file:
        file.write(json.dumps([method, path, body]) + "\\n")
    sys.exit()
if path.endswith("/zip"):
    sys.stdout.buffer.write((folder / "artifact.zip").read_bytes())
    sys.exit()
answer = json.loads((folder / "answers.json").read_text())[path]
sys.exit(subprocess.run(["jq", "-r", query], input=json.dumps(answer), text=True).returncode)
'''

REPORT: Final = f'{MARKER}\n### PTX kernels\n\n`@octocat` → `$(id)` \\ "\n'


class Posting:
    """A pull request, the artifact of its run, and what is posted."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.members: dict[str, bytes] = {"number": f"{NUMBER}\n".encode(), "comment.md": REPORT.encode()}
        self.artifacts: list[dict[str, Any]] = [
            {"id": 5, "size_in_bytes": 1_000, "expired": False, "created_at": "2026-01-01T00:00:00Z"}
        ]
        self.pull: dict[str, Any] = {"state": "open", "head": {"sha": SHA, "repo": {"id": int(FORK)}}}
        self.comments: list[dict[str, Any]] = []

    def run(self) -> subprocess.CompletedProcess[str]:
        program = self.folder / "bin" / "gh"
        program.parent.mkdir()
        program.write_text(GH.format(python=sys.executable, folder=str(self.folder)))
        program.chmod(0o755)
        with zipfile.ZipFile(self.folder / "artifact.zip", "w", zipfile.ZIP_DEFLATED) as archive:
            for name, content in self.members.items():
                archive.writestr(name, content)
        answers = {
            "repos/o/r/actions/runs/99/artifacts?name=ptx-review&per_page=100": {"artifacts": self.artifacts},
            f"repos/o/r/pulls/{NUMBER}": self.pull,
            f"repos/o/r/issues/{NUMBER}/comments?per_page=100": self.comments,
        }
        (self.folder / "answers.json").write_text(json.dumps(answers))
        (self.folder / "temp").mkdir()
        return run(
            script(COMMENT, "comment"),
            self.folder,
            PATH=f"{program.parent}{os.pathsep}{os.environ['PATH']}",
            RUNNER_TEMP=str(self.folder / "temp"),
            REPOSITORY="o/r",
            SERVER="https://github.example",
            RUN="99",
            HEAD_SHA=SHA,
            HEAD_REPOSITORY=FORK,
        )

    @property
    def sent(self) -> list[Any]:
        file = self.folder / "sent.jsonl"
        return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []


@pytest.fixture
def posting(tmp_path: Path) -> Posting:
    return Posting(tmp_path)


BODY: Final = (
    f"{REPORT}\n<sub>Written by the run of {SHA}; [its artifact]"
    "(https://github.example/o/r/actions/runs/99#artifacts) has the whole report.</sub>\n"
)


def comment_of(login: str, body: str, number: int) -> dict[str, Any]:
    return {"id": number, "user": {"login": login}, "body": body}


@needs_bash
def test_the_first_comment_is_made(posting: Posting) -> None:
    ended = posting.run()
    assert (ended.returncode, ended.stderr) == (0, "")
    assert posting.sent == [["POST", f"repos/o/r/issues/{NUMBER}/comments", {"body": BODY}]]


@needs_bash
def test_our_comment_is_updated_and_nobody_elses(posting: Posting) -> None:
    posting.comments = [
        comment_of("octocat", f"{MARKER}\nmine", 1),
        comment_of("github-actions[bot]", f"another\n{MARKER}", 2),
        comment_of("github-actions[bot]", f"{MARKER}\nold", 3),
        comment_of("github-actions[bot]", f"{MARKER}\nolder", 4),
    ]
    ended = posting.run()
    assert (ended.returncode, ended.stderr) == (0, "")
    assert posting.sent == [["PATCH", "repos/o/r/issues/comments/3", {"body": BODY}]]


@needs_bash
@pytest.mark.parametrize(
    "pull",
    [
        {"state": "closed", "head": {"sha": SHA, "repo": {"id": int(FORK)}}},
        {"state": "open", "head": {"sha": SHA[::-1], "repo": {"id": int(FORK)}}},
        {"state": "open", "head": {"sha": SHA, "repo": {"id": 1}}},
        {"state": "open", "head": {"sha": SHA, "repo": None}},
    ],
    ids=["closed", "commit", "repository", "deleted"],
)
def test_another_pull_request_is_left_alone(posting: Posting, pull: dict[str, Any]) -> None:
    posting.pull = pull
    assert posting.run().returncode == 0
    assert posting.sent == []


@needs_bash
@pytest.mark.parametrize(
    ("member", "content", "message"),
    [
        ("number", b"17/../../1", "no number"),
        ("number", b"17\n18", "no number"),
        ("number", b"-1", "no number"),
        ("number", b"$(id)", "no number"),
        ("number", b"", "no number"),
        ("number", b"1" * 1_000_000, "no number"),
        ("comment.md", b"no marker\n", "no marker"),
        ("comment.md", b"\n" + REPORT.encode(), "no marker"),
        ("comment.md", b"", "no marker"),
        ("comment.md", REPORT.encode() + b"\xff", "not UTF-8"),
        ("comment.md", REPORT.encode() + b"x" * LIMIT, "too long"),
        ("comment.md", REPORT.encode() + b"x" * 30_000_000, "too long"),
    ],
)
def test_an_artifact_that_is_not_ours_is_refused(
    posting: Posting, member: str, content: bytes, message: str
) -> None:
    posting.members[member] = content
    ended = posting.run()
    assert ended.returncode == 1
    assert re.fullmatch(rf"::error::.*{message}.*\n", ended.stdout)
    assert posting.sent == []


@needs_bash
@pytest.mark.parametrize("member", ["number", "comment.md"])
def test_a_missing_member_is_refused(posting: Posting, member: str) -> None:
    del posting.members[member]
    assert posting.run().returncode == 1
    assert posting.sent == []


@needs_bash
def test_members_are_unpacked_to_nowhere(posting: Posting) -> None:
    for name in ("../escaped", "/tmp/escaped", "report.html"):
        posting.members[name] = b"x"
    assert posting.run().returncode == 0
    names = {file.name for file in (posting.folder / "temp").iterdir()}
    assert names == {"review.zip", "number", "comment.md", "body.json"}
    assert not (posting.folder / "escaped").exists()


@needs_bash
def test_a_large_artifact_is_not_fetched(posting: Posting) -> None:
    posting.artifacts[0]["size_in_bytes"] = 50_000_001
    ended = posting.run()
    assert (ended.returncode, ended.stdout) == (1, "::error::the artifact is too large\n")


@needs_bash
def test_a_run_without_a_report_is_no_error(posting: Posting) -> None:
    posting.artifacts = [{**posting.artifacts[0], "expired": True}]
    ended = posting.run()
    assert (ended.returncode, ended.stdout) == (0, "the run left no report\n")
    assert posting.sent == []


@needs_bash
def test_a_report_of_the_largest_size_fits_with_its_last_line(posting: Posting) -> None:
    posting.members["comment.md"] = REPORT.encode() + b"x" * (LIMIT - len(REPORT.encode()))
    assert posting.run().returncode == 0
    [[_, _, body]] = posting.sent
    assert LIMIT < len(body["body"].encode()) < 65_536


# ---- what they may do, and what is written of them


def scripts(text: str) -> list[str]:
    blocks = re.findall(r"^( +)run: \|\n((?:\1  .*\n|\n)+)", text, re.MULTILINE)
    return [block for _, block in blocks] + re.findall(r"run: ([^|\n].*)\n", text)


def test_no_script_has_anything_put_into_its_text() -> None:
    found = [block for text in (ACTION, REVIEW, COMMENT) for block in scripts(text)]
    assert len(found) == 4
    assert not [block for block in found if "${{" in block]


def test_the_review_can_only_read() -> None:
    assert re.findall(r"permissions:.*\n((?: .*\n)*?)(?=\S)", REVIEW) == ["  contents: read\n"]
    assert "\non:\n  pull_request:\npermissions:" in REVIEW
    assert "persist-credentials: false" in REVIEW
    for text in (ACTION, REVIEW, COMMENT):
        assert "pull_request_target" not in text
        assert "secrets." not in text


def test_the_comment_runs_nothing_of_the_pull_request() -> None:
    assert "\npermissions: {}\n" in COMMENT
    assert re.findall(r"^    permissions:\n((?:      .*\n)+)", COMMENT, re.MULTILINE) == [
        "      actions: read\n      pull-requests: write\n"
    ]
    assert "uses:" not in COMMENT
    assert not re.search(r"\b(git|pip|python|checkout|eval|source)\b", script(COMMENT, "comment"))
    assert "\n  workflow_run:\n    workflows: [ptx-review]\n    types: [completed]\n" in COMMENT
    assert REVIEW.startswith("#")
    assert "\nname: ptx-review\n" in REVIEW
    # the one place for words of the pull request, a branch name, that is no text of a script
    told = re.findall(r"\$\{\{ (.*?) \}\}", COMMENT)
    assert set(told) == {
        "github.token", "github.repository", "github.server_url", "github.event.workflow_run.id",
        "github.event.workflow_run.head_sha", "github.event.workflow_run.head_repository.id",
        "github.event.workflow_run.head_branch",
    }  # fmt: skip


def test_jobs_end_and_actions_are_githubs_own_or_pinned() -> None:
    for text in (REVIEW, COMMENT):
        assert text.count("runs-on:") == text.count("timeout-minutes:") == 1
    used = [
        (file, version)
        for text in (ACTION, REVIEW)
        for file, version in re.findall(r"uses: ([^@\s]+)@(\S+)", text)
    ]
    assert len(used) == 3
    for action, version in used:
        assert action.startswith("actions/") or re.fullmatch(r"[0-9a-f]{40}", version), action


def test_the_action_installs_the_package_it_is_part_of() -> None:
    [extras] = re.findall(r'install -q "\$GITHUB_ACTION_PATH/\.\./\.\./\.\.\[(.*)\]"', ACTION)
    assert (GITHUB / "actions" / "ptx-review" / ".." / ".." / "..").resolve() == ROOT
    declared = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    assert all(re.search(rf"^{extra} = \[", declared, re.MULTILINE) for extra in extras.split(","))


def test_the_guide_shows_the_workflow_and_every_input() -> None:
    [block] = re.findall(r"```yaml\n(name: ptx-review\n.*?)```", GUIDE, re.DOTALL)
    assert REVIEW.partition("\n")[2] == block
    inputs, _, _ = ACTION.partition("\nruns:\n")
    assert re.findall(r"^  ([a-z-]+):$", inputs, re.MULTILINE) == re.findall(
        r"^\| `([a-z-]+)` \|", GUIDE, re.MULTILINE
    )
    assert MARKER in REPORTS
    assert COMMENT.count(MARKER) == 2
    assert ACTION.count(MARKER) == 1


def commands() -> list[list[str]]:
    """Return each call of ours that the guides show, as words."""
    blocks = re.findall(r"```sh\n(.*?)```", GUIDE + REPORTS, re.DOTALL)
    shown = [line for block in blocks for line in block.splitlines()]
    shown += re.findall(
        r"`(ptxtemplates diff [^`\n]+)`", re.sub(r"```.*?```", "", GUIDE + REPORTS, flags=re.DOTALL)
    )
    return [shlex.split(line.partition(" | ")[0]) for line in shown]


@pytest.mark.parametrize("words", commands(), ids=" ".join)
def test_commands_of_the_guides_take_their_options(words: list[str]) -> None:
    program, name, *options = words
    assert (program, name) == ("ptxtemplates", "diff")
    command = main.get_command(click.Context(main), name)
    assert command is not None
    command.make_context(name, options)  # parses, and runs nothing


def test_there_are_commands() -> None:
    assert len(commands()) >= 4
