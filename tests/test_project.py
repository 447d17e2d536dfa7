"""The project's own promises: style, import order, current documents, commands in the README."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys

import pytest

from scripts import generate_docs
from tests.helpers.variants import ROOT


@pytest.mark.parametrize(
    "command",
    [
        ("-m", "ruff", "check", "."),
        ("-m", "ruff", "format", "--check", "."),
        ("-m", "mypy"),
        ("-c", "from importlinter.cli import lint_imports_command; lint_imports_command()", "--no-cache"),
    ],
    ids=["ruff", "format", "mypy", "imports"],
)
def test_style(command: tuple[str, ...]) -> None:
    result = subprocess.run([sys.executable, *command], cwd=ROOT, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stdout + result.stderr


@pytest.mark.parametrize("document", generate_docs.GENERATED)
def test_generated_documents_are_current(document: str) -> None:
    """``python -m scripts.generate_docs`` mends them."""
    assert (ROOT / "docs" / document).read_text(encoding="utf-8") == generate_docs.rewritten(document)


def test_links_lead_somewhere() -> None:
    for document in [ROOT / "README.md", *(ROOT / "docs").glob("*.md")]:
        for target in re.findall(r"\]\((?!https?://|#)([^)#]+)\)", document.read_text(encoding="utf-8")):
            assert (document.parent / target).exists(), f"{document.name}: {target}"


def commands_of_readme() -> list[str]:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    section = text[text.index("## Two commands") : text.index("## In your repository")]
    return re.findall(r"```sh\n(.*)\n```", section)


def test_ci_calls_the_test_command_of_the_readme() -> None:
    build, test = commands_of_readme()
    assert build.endswith(".venv/bin/ptxtemplates build")
    for file in (".ci/run", ".github/workflows/tests.yml"):
        assert test in (ROOT / file).read_text()


def test_readme_shows_what_is_rendered() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    [template] = re.findall(r"```jinja\n(.*?)```", text, re.DOTALL)
    [ptx] = re.findall(r"```ptx\n(.*?)```", text, re.DOTALL)
    assert template in (ROOT / "templates" / "batched_rope.ptx.jinja").read_text()
    assert ptx in (ROOT / "snapshots" / "batched_rope.h32.d128.theta10000.ptx").read_text()


def test_no_file_but_snapshots_is_too_long_to_read() -> None:
    for path in [*(ROOT / "ptxtemplates").rglob("*.py"), *(ROOT / "templates").rglob("*.jinja")]:
        assert len(path.read_text().splitlines()) <= 400, path


@pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")
def test_line_ends_are_fixed() -> None:
    if not (ROOT / ".git").exists():
        pytest.skip("not a git checkout")
    result = subprocess.run(
        ["git", "check-attr", "eol", "snapshots/x.ptx", "templates/x.jinja"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    assert result.stdout.count("eol: lf") == 2
