"""A wheel, an editable install, a plain checkout, a source distribution: each finds the right templates."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tomllib
import venv
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from ptxtemplates.kernels import BatchedRope
from ptxtemplates.rendering import render
from ptxtemplates.sources import built_in_templates
from ptxtemplates.version import VERSION
from tests.helpers.variants import ROOT

if TYPE_CHECKING:
    from collections.abc import Callable

ROPE = ("render", "batched_rope", "--set", "num_heads=32", "--set", "head_dim=128", "--set", "theta=1e4")
TEXT = render(BatchedRope(num_heads=32, head_dim=128, theta=1e4)).text
MARK = "// a template that was edited after the install\n"


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Copy what is under version control, or would be, into a folder of its own."""
    folder = tmp_path_factory.mktemp("checkout")
    ignored = shutil.ignore_patterns("__pycache__", ".*_cache", "build", "dist")
    for name in ("ptxtemplates", "templates"):
        shutil.copytree(ROOT / name, folder / name, ignore=ignored)
    for name in ("pyproject.toml", "README.md", "LICENSE", "kernels.toml"):
        shutil.copy(ROOT / name, folder / name)
    return folder


@pytest.fixture(scope="module")
def wheel(checkout: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("wheel")
    run(sys.executable, "-m", "build", "--no-isolation", "--outdir", out, cwd=checkout)
    [built] = out.glob("*.whl")
    return built


@pytest.fixture
def environment(tmp_path: Path) -> Callable[..., Path]:
    """Make an environment with the base dependencies of the running one, and install into it."""

    def make(*install: str | Path) -> Path:
        # what is installed already need not be installed again: jinja2, click, filelock, hatchling, pip
        own = Path(pytest.__file__).parents[1]
        venv.create(tmp_path / "venv", with_pip=not (own / "pip").is_dir())
        python = tmp_path / "venv" / ("Scripts" if os.name == "nt" else "bin") / "python"
        found = run(python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))").strip()
        Path(found, "borrowed.pth").write_text(f"{own}\n")
        run(python, "-m", "pip", "install", "--no-deps", "--no-build-isolation", "--no-index", *install)
        return python

    return make


def run(*command: str | Path, cwd: Path | None = None) -> str:
    plain = {key: value for key, value in os.environ.items() if not key.startswith("PYTHON")}
    result = subprocess.run(
        list(map(str, command)),
        cwd=cwd,
        env=plain,
        capture_output=True,
        text=True,
        encoding="utf-8",
        check=False,
    )
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout


def test_wheel_holds_code_templates_and_schema(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    for path in sorted((ROOT / "templates").rglob("*.jinja")):
        assert f"ptxtemplates/templates/{path.relative_to(ROOT / 'templates').as_posix()}" in names
    assert "ptxtemplates/py.typed" in names
    assert "ptxtemplates/schemas/manifest-1.json" in names
    assert any(name.endswith("licenses/LICENSE") for name in names)
    assert not [
        name
        for name in names
        if name.split("/")[0] not in ("ptxtemplates", f"ptxtemplates-{VERSION}.dist-info")
    ]
    assert not [name for name in names if "__pycache__" in name]


def test_installed_wheel(wheel: Path, environment: Callable[..., Path], tmp_path: Path) -> None:
    python = environment(wheel)
    assert run(python, "-m", "ptxtemplates", *ROPE, cwd=tmp_path) == TEXT
    assert run(python.with_name("ptxtemplates"), *ROPE, cwd=tmp_path) == TEXT
    where = run(
        python, "-c", "import ptxtemplates.sources as s; print(s.BUILT_IN_TEMPLATES)", cwd=tmp_path
    ).strip()
    assert "site-packages" in where


def test_editable_install_uses_the_checkout(
    checkout: Path, environment: Callable[..., Path], tmp_path: Path
) -> None:
    """A copy of the templates may lie in site-packages: it must never win over the checkout."""
    mine = tmp_path / "mine"
    shutil.copytree(checkout, mine)
    python = environment("-e", mine)
    assert run(python, "-m", "ptxtemplates", *ROPE, cwd=tmp_path) == TEXT
    template = mine / "templates" / "batched_rope.ptx.jinja"
    template.write_text(template.read_text().replace("    ret;\n", f"    {MARK}    ret;\n"))
    site = Path(run(python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))").strip())
    stale = site / "ptxtemplates" / "templates"
    stale.mkdir(parents=True, exist_ok=True)
    (stale / "batched_rope.ptx.jinja").write_text("stale")
    assert run(python, "-m", "ptxtemplates", *ROPE, cwd=tmp_path) == TEXT.replace(
        "    ret;\n", f"    {MARK}    ret;\n"
    )


def test_plain_checkout(checkout: Path) -> None:
    assert run(sys.executable, "-m", "ptxtemplates", *ROPE, cwd=checkout) == TEXT
    where = run(
        sys.executable, "-c", "import ptxtemplates.sources as s; print(s.BUILT_IN_TEMPLATES)", cwd=checkout
    )
    assert Path(where.strip()) == checkout.resolve() / "templates"


def test_templates_inside_the_package_come_first(tmp_path: Path) -> None:
    package = tmp_path / "ptxtemplates"
    package.mkdir()
    (tmp_path / "templates").mkdir()
    assert built_in_templates(package) == tmp_path / "templates"
    (package / "templates").mkdir()
    assert built_in_templates(package) == package / "templates"


def test_base_install_needs_only_three_packages() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert sorted(name.split(">")[0] for name in project["dependencies"]) == ["click", "filelock", "jinja2"]
    assert project["version"] == VERSION
    code = (
        "import sys; from ptxtemplates.cli import main;"
        "main(['list'], standalone_mode=False); main(['build', '--check'], standalone_mode=False);"
        "print(sorted({'numpy', 'cuda', 'ml_dtypes', 'pygments'} & set(sys.modules)))"
    )
    assert run(sys.executable, "-c", code, cwd=ROOT).splitlines()[-1] == "[]"
