"""The page in a real browser: desktop and phone, light and dark."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from ptxtemplates.assembly.tools import find_tool
from ptxtemplates.errors import MissingExtraError
from ptxtemplates.review.html import page
from ptxtemplates.review.page.machine import TOOLS
from tests.review.browser import DESKTOP, VIEWS, View, browser, why_not
from tests.review.page_samples import REDUCE, ROPE, SHOWN, hostile, side, usual

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.review.browser import Browser

pytestmark = pytest.mark.skipif(why_not() is not None, reason=why_not() or "-")

LIGHT = View("light", *DESKTOP, "light")
ROW = f"document.getElementById('kernel-{ROPE}').querySelector('.both .x')"

OPEN_ALL = """
    for (const part of document.querySelectorAll("details")) part.open = true;
    new Promise(done => setTimeout(done, 100));
"""

CONTRASTS = """
(() => {
  const parsed = colour => colour.match(/[\\d.]+/g).map(Number);
  const luminance = ([r, g, b]) => [r, g, b].map(v => v / 255)
    .map(v => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)
    .reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
  const behind = element => {
    for (let at = element; at; at = at.parentElement) {
      const colour = parsed(getComputedStyle(at).backgroundColor);
      if (colour.length === 3 || colour[3] === 1) return colour;
      if (colour[3] !== 0) throw Error("half transparent: " + at.className);
    }
    return [255, 255, 255];
  };
  const low = new Set();
  let seen = 0;
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const element = walker.currentNode.parentElement;
    if (!walker.currentNode.data.trim() || !element.checkVisibility() || element.closest("script,style")) continue;
    seen += 1;
    const pair = [luminance(parsed(getComputedStyle(element).color)), luminance(behind(element))].sort((a, b) => a - b);
    const ratio = (pair[1] + 0.05) / (pair[0] + 0.05);
    if (ratio < 4.5) low.add(`${element.tagName}.${element.className} ${ratio.toFixed(2)}`);
  }
  return [seen, [...low]];
})()
"""


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    with browser() as found:
        yield found


@pytest.fixture(scope="module")
def usual_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("page") / "usual.html"
    file.write_text(page(usual()), encoding="utf-8", newline="\n")
    return file


@pytest.fixture(scope="module")
def hostile_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("page") / "hostile.html"
    file.write_text(page(hostile()), encoding="utf-8", newline="\n")
    return file


def sass_is_missing() -> bool:
    try:
        return not all(map(find_tool, TOOLS))
    except MissingExtraError:
        return True


needs_sass = pytest.mark.skipif(sass_is_missing(), reason=f"not installed: {' or '.join(TOOLS)}")


def widths(chromium: Browser) -> list[int]:
    found: list[int] = chromium.value("[document.documentElement.scrollWidth, innerWidth]")
    return found


@pytest.mark.parametrize("view", VIEWS, ids=[view.name for view in VIEWS])
def test_fits_and_is_readable(chromium: Browser, usual_file: Path, view: View) -> None:
    chromium.open(usual_file, view)
    assert widths(chromium) == [view.width, view.width]
    chromium.value(OPEN_ALL)
    assert widths(chromium) == [view.width, view.width], "open parts are wider than the screen"
    background = chromium.value("getComputedStyle(document.body).backgroundColor")
    assert background == {"light": "rgb(255, 255, 255)", "dark": "rgb(17, 21, 27)"}[view.scheme]
    seen, low = chromium.value(CONTRASTS)
    assert seen > 2000
    assert low == []
    # a phone shows a line that both texts have once, a desktop twice
    same = "document.querySelector('.both .s')"
    shown = chromium.value(
        f"[...{same}.querySelectorAll('code')].filter(line => line.checkVisibility()).length"
    )
    assert shown == (1 if view.phone else 2)
    assert chromium.complaints() == []


def test_long_lines_scroll_in_their_box_on_a_phone(chromium: Browser, usual_file: Path) -> None:
    chromium.open(usual_file, VIEWS[2])
    assert VIEWS[2].phone
    chromium.value(OPEN_ALL)
    for box in (".unified", ".both"):
        inside, outside = chromium.value(
            f"(box => [box.scrollWidth, box.clientWidth])(document.querySelector('{box}'))"
        )
        assert outside < VIEWS[2].width
        assert inside > outside


@pytest.mark.parametrize("view", VIEWS, ids=[view.name for view in VIEWS])
def test_hostile_text_is_not_run(chromium: Browser, hostile_file: Path, view: View) -> None:
    chromium.open(hostile_file, view)
    chromium.value(OPEN_ALL)
    assert chromium.value("document.title") == f"Kernels: {SHOWN} → {SHOWN}"
    assert chromium.value("document.querySelectorAll('img').length") == 0
    assert SHOWN in chromium.value("document.querySelector('.both .a').textContent")
    assert widths(chromium) == [view.width, view.width]
    assert chromium.complaints() == []


def test_other_scripts_and_styles_would_be_refused(
    chromium: Browser, usual_file: Path, tmp_path: Path
) -> None:
    """Were a text not escaped, the page's policy would still stop it."""
    file = tmp_path / "broken.html"
    text = usual_file.read_text(encoding="utf-8")
    added = "<script>document.title = 'run'</script><img src='https://example.org/x.png' onerror=\"document.title = 'run'\">"
    file.write_text(text.replace("</main>", f"{added}</main>"), encoding="utf-8")
    chromium.open(file, LIGHT)
    complaints = chromium.complaints()
    assert chromium.value("document.title").startswith("Kernels: ")
    refused = [each for each in complaints if "Content Security Policy" in each]
    for kind in ("inline script", "inline event handler", "the image"):
        assert [each for each in refused if kind in each], (kind, complaints)


@needs_sass
def test_machine_instructions_of_a_line(chromium: Browser, usual_file: Path) -> None:
    chromium.open(usual_file, LIGHT)
    chromium.value(f"location.hash = 'kernel-{ROPE}'")
    opened = f"{ROW}.closest('details.kernel').open"
    assert chromium.value(f"new Promise(done => setTimeout(() => done({opened}), 100))") is True
    sides = f"{ROW}.closest('details.sides')"
    assert chromium.value(f"{sides}.querySelector('.hint').checkVisibility()") is False
    chromium.value(f"{sides}.querySelector('summary').focus()")
    chromium.press("Enter", 13, "\r")  # by keyboard
    assert chromium.value(f"new Promise(done => setTimeout(() => done({sides}.open), 100))") is True
    assert "sm_80" in chromium.value(f"{sides}.querySelector('.hint').innerText")
    assert chromium.value(f"{ROW}.querySelectorAll('button').length") == 2
    number = next(
        index for index, line in enumerate(side(ROPE).text.split("\n"), 1) if "%square, %r, %r" in line
    )
    for which, name in enumerate(("old", "new")):
        button = f"{ROW}.querySelectorAll('button')[{which}]"
        assert (
            chromium.value(f"{button}.getAttribute('aria-label')")
            == f"{name} line {number}: machine instructions"
        )
        chromium.value(f"{button}.focus()")
        chromium.press(" ", 32, " ")
        shown: Any = chromium.value(f"{ROW}.nextElementSibling.querySelector('pre.{name}').innerText")
        assert "FMUL" in shown
        assert chromium.value(f"{button}.getAttribute('aria-expanded')") == "true"
    for which in range(2):
        chromium.value(f"{ROW}.querySelectorAll('button')[{which}].click()")
    assert chromium.value(f"{ROW}.nextElementSibling.className") != "machine"
    # a line of comment becomes no instruction
    assert chromium.value(f"{sides}.querySelector('.both b').querySelector('button')") is None
    assert chromium.complaints() == []


def test_folded_lines_open(chromium: Browser, usual_file: Path) -> None:
    chromium.open(usual_file, LIGHT)
    fold = f"document.getElementById('kernel-{REDUCE}').querySelector('.fold')"
    chromium.value(f"{fold}.closest('.sides').open = true")
    first = f"{fold}.querySelector('code')"
    assert chromium.value(f"{first}.checkVisibility()") is False
    assert chromium.value(f"{fold}.querySelector('summary').innerText").endswith("unchanged lines")
    chromium.value(f"{fold}.querySelector('summary').click()")
    assert chromium.value(f"{first}.checkVisibility()") is True
    assert chromium.value(f"{first}.innerText") == side(REDUCE).text.split("\n")[0]


def test_without_scripts_all_but_machine_instructions_is_there(chromium: Browser, usual_file: Path) -> None:
    chromium.open(usual_file, LIGHT, scripts=False)
    # what is evaluated from outside runs also then; nothing of the page has
    fold = f"document.getElementById('kernel-{ROPE}').querySelector('.fold')"
    for part in (f"{fold}.closest('.kernel')", f"{fold}.closest('.sides')", fold):
        chromium.value(f"{part}.querySelector(':scope > summary').click()")
    assert chromium.value(f"{fold}.querySelector('code').checkVisibility()") is True
    assert chromium.value("document.querySelectorAll('button').length") == 0
    assert chromium.value("document.querySelector('.hint').checkVisibility()") is False
    assert "need JavaScript" in chromium.value("document.querySelector('noscript').innerText")


@pytest.mark.parametrize("view", [VIEWS[0], VIEWS[2]], ids=["desktop", "phone"])
def test_keyboard_reaches_all_that_can_be_chosen(chromium: Browser, usual_file: Path, view: View) -> None:
    chromium.open(usual_file, view)
    chromium.press("Tab", 9)
    assert chromium.value("document.activeElement.className") == "skip"
    left, width = chromium.value(
        "(box => [box.left, box.width])(document.activeElement.getBoundingClientRect())"
    )
    assert left >= 0
    assert width > 0
    reached = 1
    for _ in range(60):
        chromium.press("Tab", 9)
        if chromium.value("document.activeElement === document.body"):
            break
        assert chromium.value("getComputedStyle(document.activeElement).outlineStyle") != "none"
        reached += 1
    chosen = "[...document.querySelectorAll('a, summary, button, [tabindex]')]"
    assert reached == chromium.value(f"{chosen}.filter(each => each.checkVisibility()).length")


def test_print_shows_what_is_open(chromium: Browser, usual_file: Path) -> None:
    chromium.open(usual_file, LIGHT)
    chromium.ask("Emulation.setEmulatedMedia", media="print", features=[])
    assert chromium.value("getComputedStyle(document.querySelector('.rows')).overflowX") == "visible"
    assert chromium.value("document.querySelector('.skip').checkVisibility()") is False
    assert len(chromium.ask("Page.printToPDF")["data"]) > 10_000
