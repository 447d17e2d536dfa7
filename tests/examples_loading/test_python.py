"""The Python example and the snippet: held to cuda.core's own stubs, and executed with a stand-in of it."""

from __future__ import annotations

import runpy
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest

from tests.examples_loading.building import EXAMPLES, README, VARIANT, snippet
from tests.examples_loading.standin import Buffer, Core
from tests.helpers.stubs import with_mistakes

if TYPE_CHECKING:
    from collections.abc import Callable

SOURCE: Final = EXAMPLES / "python" / "rope.py"


def text_of(build: Path, variant: str = VARIANT) -> str:
    return (build / "batched_rope" / f"{variant}.ptx").read_text()


@pytest.fixture
def execute(monkeypatch: pytest.MonkeyPatch) -> Callable[..., object]:
    """Return what runs the example with a stand-in as its user runs it, and returns its exit code."""

    def executing(core: Core, *words: str | Path) -> object:
        monkeypatch.setitem(sys.modules, "cuda.core", core.module())
        monkeypatch.setattr(sys, "argv", [str(SOURCE), *map(str, words)])
        with pytest.raises(SystemExit) as ended:
            runpy.run_path(str(SOURCE), run_name="__main__")
        return ended.value.code

    return executing


def test_calls_and_result(
    execute: Callable[..., object], texts: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = text_of(texts)
    core = Core(text)
    assert execute(core, texts) is None
    assert capsys.readouterr().out == "ok\n"
    assert core.calls == [
        ("set_current",),
        ("from_ptx", text.encode(), "batched_rope"),
        ("launch", ((8, 4, 1), (32, 1, 1)), "batched_rope", 3),
        ("sync",),
    ]


def test_fat_binary_comes_first(
    execute: Callable[..., object], binaries: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    core = Core(text_of(binaries))
    assert execute(core, binaries, "2") is None
    assert capsys.readouterr().out == "ok\n"
    fatbin = (binaries / "batched_rope" / f"{VARIANT}.fatbin").read_bytes()
    assert core.calls[1:3] == [
        ("from_fatbin", fatbin, "batched_rope"),
        ("launch", ((8, 2, 1), (32, 1, 1)), "batched_rope", 3),
    ]


def test_a_wrong_value_is_seen(execute: Callable[..., object], texts: Path) -> None:
    text = text_of(texts)
    wrong = text.replace("st.global.v2.f32 [%out], { %even,", "st.global.v2.f32 [%out], { %odd,")
    wrong = wrong if wrong != text else text.replace("neg.f32", "mov.f32")
    assert wrong != text
    assert "and it should be" in str(execute(Core(wrong), texts))


@pytest.mark.parametrize("rows", ["0", "65536"])
def test_rows_that_no_grid_has_are_refused_before_anything_happens(
    execute: Callable[..., object], texts: Path, rows: str
) -> None:
    core = Core(text_of(texts))
    assert execute(core, texts, rows) == f"{rows} rows are not possible in one launch: slice them"
    assert core.calls == []


def test_what_the_assembler_says_is_shown(
    monkeypatch: pytest.MonkeyPatch, texts: Path, tmp_path: Path
) -> None:
    """The linker is the real one here."""
    broken = tmp_path / "batched_rope" / f"{VARIANT}.ptx"
    broken.parent.mkdir()
    broken.write_text(text_of(texts).replace("mad.wide.u32", "mad.wode.u32"))
    (tmp_path / "manifest.json").write_bytes((texts / "manifest.json").read_bytes())
    monkeypatch.setitem(sys.modules, "cuda.core", Core("", refused=True).module())
    names = runpy.run_path(str(SOURCE))
    with pytest.raises(Exception, match=r"line \d+; error   : Unknown modifier '\.wode'") as error:
        names["main"](tmp_path, 4)
    assert str(error.value.__context__) == "the driver refuses it"


def test_a_refusal_without_a_log_is_passed_on(monkeypatch: pytest.MonkeyPatch, texts: Path) -> None:
    monkeypatch.setitem(sys.modules, "cuda.core", Core("", refused=True).module())
    names = runpy.run_path(str(SOURCE))
    with pytest.raises(RuntimeError, match="the driver refuses it"):
        names["main"](texts, 4)


def test_snippet_of_the_readme(monkeypatch: pytest.MonkeyPatch, shown: Path) -> None:
    core = Core(text_of(shown, "batched_rope.h32.d128.theta10000"))
    module = core.module()
    monkeypatch.setitem(sys.modules, "cuda.core", module)
    monkeypatch.chdir(shown.parent)
    waiting: list[Callable[[], None]] = []
    x, positions = Buffer(3 * 32 * 128 * 4, waiting, host=False), Buffer(3 * 4, waiting, host=False)
    names: dict[str, Any] = {"rows": 3, "x_pointer": x, "out_pointer": x, "positions_pointer": positions}
    exec(snippet(README, "python", "cuda.core"), names)
    names["stream"].sync()
    assert core.calls[2:] == [
        ("launch", ((32, 3, 1), (64, 1, 1)), "batched_rope", 3),
        ("sync",),
    ]


def test_programs_fit_the_stubs_of_cuda_core(errors_of: Callable[..., list[list[str]]]) -> None:
    example = SOURCE.read_text()
    names = "rows: int = 3\nx_pointer: int = 0\nout_pointer: int = 0\npositions_pointer: int = 0\n"
    mistakes = {
        "copy_to(out_host, stream=stream)": "copy_to(out_host, stream)",
        "device.allocate(4 * n, stream=stream)": "device.allocate(4 * n)",
        "ObjectCode.from_fatbin": "ObjectCode.from_fat_binary",
        "LaunchConfig(grid=grid": "LaunchConfig(blocks=grid",
    }
    of_example, of_mistaken, of_snippet = errors_of(
        example, with_mistakes(example, mistakes), names + snippet(README, "python", "cuda.core")
    )
    assert of_example == []
    assert of_snippet == []
    assert len([line for line in of_mistaken if ": error: " in line]) >= len(mistakes)
