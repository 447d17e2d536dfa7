"""The page of a comparison: what it says, in which order, and that nothing in it is run or fetched."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import re
import subprocess
import sys
import unicodedata
from html.parser import HTMLParser
from itertools import pairwise
from pathlib import Path

import pytest

from ptxtemplates.errors import MissingExtraError
from ptxtemplates.review import html
from ptxtemplates.review.html import page
from ptxtemplates.review.model import Change, Comparison, Meaning
from ptxtemplates.review.page import machine
from tests.helpers.variants import ROOT
from tests.review.page_samples import (
    CHUNK,
    EVIL,
    KERNELS,
    REDUCE,
    ROPE,
    SAME,
    SHOWN,
    changed,
    hostile,
    loosened,
    side,
    usual,
)

CELL = r"<b>(\d*)</b><(?:code|del|ins|span)>(.*?)</(?:code|del|ins|span)>(?=<b>|<i>|</div>)"
"""Number and line of a row."""

VOID = {"meta", "br", "img", "link", "input", "hr"}


class Read(HTMLParser):
    """A page taken apart."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.scripts: list[tuple[dict[str, str | None], str]] = []
        self.styles: list[str] = []
        self.texts: list[str] = []
        self.comments: list[str] = []
        self._open: list[tuple[str, dict[str, str | None]]] = []
        self.feed(text)
        self.close()
        assert not self._open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag in ("dd", "dt", "li", "p", "td", "th"):
            self.texts.append(" ")
        if tag not in VOID:
            self._open.append(self.elements[-1])

    def handle_endtag(self, tag: str) -> None:
        assert self._open
        assert self._open.pop()[0] == tag, f"</{tag}> closes another element"

    def handle_data(self, data: str) -> None:
        tag, attributes = self._open[-1] if self._open else ("", {})
        if tag == "script":
            self.scripts.append((attributes, data))
        elif tag == "style":
            self.styles.append(data)
        else:
            self.texts.append(data)

    def handle_comment(self, data: str) -> None:
        self.comments.append(data)

    @property
    def text(self) -> str:
        return re.sub(r"\s+", " ", "".join(self.texts))

    def headings(self) -> list[int]:
        return [int(tag[1]) for tag, _ in self.elements if re.fullmatch("h[1-6]", tag)]


@pytest.fixture(scope="module")
def text() -> str:
    return page(usual())


@pytest.fixture(scope="module")
def read(text: str) -> Read:
    return Read(text)


@pytest.fixture(scope="module")
def evil() -> str:
    return page(hostile())


def part(text: str, name: str) -> str:
    """Return the part of the page about a kernel, as text."""
    found = text[text.index(f'id="kernel-{name}"') :]
    return Read("<div " + found[: found.index('<details class="kernel"')].rpartition("</details>")[0]).text


def test_overview_tells_what_there_is(read: Read) -> None:
    assert "old main (1a2b3c4d) → new working tree" in read.text
    counts = "1 results differ 1 removed 1 same over the reals 1 identical machine code 1 added 1 unchanged"
    assert counts in read.text
    assert "Costs on sm_80, sm_90." in read.text
    assert f"What the policy objects to {REDUCE}: breaks callers: block" in read.text


def test_most_important_first_and_only_that_is_open(text: str) -> None:
    folded = re.findall(r'<details class="kernel"( open)?>\n<summary><h3>([^<]*)', text)
    assert folded == [
        (" open", REDUCE),
        ("", "gone.kernel"),
        ("", ROPE),
        ("", CHUNK),
        ("", "new.kernel"),
    ]
    rows = re.findall(r'<th scope="row"><a href="#kernel-([^"]*)"', text)
    assert rows == [name for _, name in folded]
    assert re.search(
        r'<details class="unchanged">\n<summary>1 unchanged kernel</summary>\n<ul>\n<li>' + SAME, text
    )


def test_what_the_policy_objects_to_comes_before_what_matters_more() -> None:
    comparison = usual()._replace(failures=(f"{CHUNK}: the text changed",))
    assert re.findall("<h3>([^<]*)", page(comparison))[:2] == [CHUNK, REDUCE]
    assert "The policy objects: the text changed" in part(page(comparison), CHUNK)


def test_parts_of_a_kernel(text: str) -> None:
    said = part(text, REDUCE)
    assert "verdict results differ why not the same operations" in said
    assert "largest difference 99 ulp tried one key" in said
    assert "Smallest case that differs: one key: max_chunks 1, seed 7" in said
    assert "output_ptr[0, 3, 17] 0.25 -1.5" in said
    # breaking or not is said in words
    assert re.search(r"block ?\(32, 1, 1\) ?\(64, 1, 1\) ?breaking callers pass the block", said)
    assert re.search(r"\.target ?sm_80 ?sm_75 ?compatible older GPUs can load it too", said)
    assert "x5 made 5 times, shown once" in said
    assert "from macros/" in said


def test_costs(text: str) -> None:
    said = part(text, ROPE)
    for row in (
        "registers ?sm_80 ?18 ?unreadable ?\N{EN DASH}",
        r"registers ?sm_90 ?18 ?19 ?\+1 \(\+5\.6%\) worse",
        r"machine instructions ?sm_90 ?96 ?95 ?-1 \(-1\.0%\) better",
        r"occupancy ?sm_90 ?75% ?50% ?-25 points worse",
        r"spill stores ?sm_90 ?0 ?16 ?\+16 worse",
        "sectors ?emulator ?n/a ?12 ?\N{EN DASH}",
    ):
        assert re.search(row, said), row
    assert "Compared 17 of 20 figures: sm_75: the assembler does not know it" in said
    assert "No figure moved. Compared 20 of 20 figures." in part(text, CHUNK)


def test_lines_side_by_side(text: str) -> None:
    new = side(ROPE)
    number = next(index for index, line in enumerate(new.text.split("\n"), 1) if "%square, %r, %r" in line)
    assert new.places is not None
    file, line = new.places[number - 1]
    assert file == "macros/rotate.jinja"
    row = re.search(
        f"<div class=x><b>{number}</b><del>(.*?)</del><b>{number}</b><ins>(.*?)</ins><i>rotate:{line}</i></div>",
        text,
    )
    assert row
    old_line, new_line = (re.sub("</?span[^>]*>", "", line) for line in row.groups())
    assert "mul<mark>.rn</mark>.f32" in old_line
    assert "mul.f32" in new_line
    assert ".rn" not in new_line
    assert '<code>rotate</code> is <code class="file">macros/rotate.jinja</code>' in text
    # every line of both texts is there, folded or not
    rows = text[text.index(f'aria-label="Both texts of {ROPE}"') :]
    rows = rows[: rows.index("</div></div>\n</details>")]
    for edit, cells in ((lambda text: text, 1), (loosened, 2)):
        found = re.findall(rf"^<div class=[sxga]>{CELL * cells}", rows, re.MULTILINE)
        numbered = [groups[-2:] for groups in found]
        assert [int(number) for number, _ in numbered] == [*range(1, len(numbered) + 1)]
        shown = ["".join(Read(line).texts) for _, line in numbered]
        assert shown == side(ROPE, edit).text.removesuffix("\n").split("\n")
    assert re.search(r"<summary>\d+ unchanged lines</summary>", rows)


def test_a_change_made_elsewhere_too_points_there_and_is_folded() -> None:
    meaning = Meaning("results differ", "not the same operations")

    def edit(text: str) -> str:
        return text.replace("    ret;", "    exit;")

    other = "batched_rope.h32.d128.theta500000"
    changes = tuple(changed(name, edit, meaning=meaning) for name in (ROPE, other))
    text = page(Comparison("a", "b", changes, ()))
    assert re.findall(r'<details class="kernel"( open)?>', text) == [" open", ""]
    assert f'Changed as <a href="#kernel-{ROPE}">{ROPE}</a> did' in text


def test_no_kernels_and_none_changed() -> None:
    assert "No kernel changed." in Read(page(Comparison("a", "b", (), ()))).text
    same = Change(SAME, "unchanged", side(SAME), side(SAME))
    text = page(Comparison("a", "b", (same,), ("sm_90",)))
    assert "No kernel changed." in text
    assert "mov.u32" not in text


def test_structure(read: Read, evil: str) -> None:
    for found in (read, Read(evil)):
        levels = found.headings()
        assert levels[0] == 1
        assert levels.count(1) == 1
        assert all(after <= before + 1 for before, after in pairwise(levels))
        ids = [attributes["id"] for _, attributes in found.elements if "id" in attributes]
        assert len(ids) == len(set(ids))
        links = [attributes["href"] for tag, attributes in found.elements if tag == "a"]
        assert links
        for link in links:
            assert link
            assert link[0] == "#"
            assert link[1:] in ids
        tags = [tag for tag, _ in found.elements]
        for landmark in ("header", "main", "footer", "title"):
            assert tags.count(landmark) == 1
        assert ("html", {"lang": "en"}) in found.elements
        assert (
            "meta",
            {"name": "viewport", "content": "width=device-width, initial-scale=1"},
        ) in found.elements


def test_nothing_is_fetched_and_only_our_script_runs(text: str, evil: str) -> None:
    for content in (text, evil):
        read = Read(content)
        assert not {tag for tag, _ in read.elements} & {
            "img",
            "link",
            "iframe",
            "object",
            "embed",
            "base",
            "form",
        }
        for _, attributes in read.elements:
            assert not [
                name for name in attributes if name.startswith("on") or name in ("src", "style", "action")
            ]
        [style] = read.styles
        assert "url(" not in style
        assert "@import" not in style
        [script] = [data for attributes, data in read.scripts if attributes.get("type") != "application/json"]
        [policy] = [
            a["content"] for _, a in read.elements if a.get("http-equiv") == "Content-Security-Policy"
        ]
        digests = [
            base64.b64encode(hashlib.sha256(each.encode()).digest()).decode() for each in (style, script)
        ]
        assert policy == (
            f"default-src 'none'; style-src 'sha256-{digests[0]}'; script-src 'sha256-{digests[1]}'; "
            "base-uri 'none'; form-action 'none'"
        )


def test_hostile_text_stays_text(evil: str) -> None:
    read = Read(evil)
    said = "".join(read.texts)
    # titles, names, files, lines, places, notes, settings, values: each at least once
    assert said.count(SHOWN) > 40
    assert not read.comments
    assert "49" not in SHOWN
    hidden = {
        letter
        for letter in evil
        if unicodedata.category(letter) in ("Cc", "Cf", "Zl", "Zp") and letter != "\n"
    }
    assert not hidden
    assert "é" in said
    for attributes, data in read.scripts:
        if attributes.get("type") == "application/json":
            assert not set("<>&") & set(data)
            json.loads(data)
    assert EVIL not in evil


def test_a_carriage_return_is_seen_and_ends_no_line(evil: str) -> None:
    first = re.search(r"<div class=a><b></b><span></span><b>1</b><ins>(.*?)</ins>", evil)
    assert first
    assert first[1].removesuffix("</span>").endswith(r"é\r")


def test_same_page_each_time_without_time_or_machine(text: str) -> None:
    code = "from tests.review.page_samples import usual; from ptxtemplates.review.html import page; import sys; sys.stdout.buffer.write(page(usual()).encode())"
    again = subprocess.run(
        [sys.executable, "-c", code],
        cwd=ROOT,
        env={**os.environ, "PYTHONHASHSEED": "7"},
        capture_output=True,
        check=True,
    ).stdout
    assert again == text.encode()
    for word in (str(ROOT), str(Path.home()), sys.prefix, "/tmp"):
        assert word not in text


def test_without_an_assembler_the_page_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> Path:
        raise MissingExtraError(f"/opt/some where/bin/{name} is no program that may be run")

    monkeypatch.setattr(machine, "find_tool", missing)
    text = page(usual())
    assert "No machine instructions of the old text: " in text
    assert "ptxas is no program that may be run." in text
    assert "/opt" not in text
    assert "application/json" not in text


def test_without_pygments(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pygments", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'ptxtemplates\[review\]'"):
        page(usual())


def test_the_room_is_light_until_a_page_is_made() -> None:
    code = "import ptxtemplates.review.html, sys; print([name for name in ('pygments', 'numpy') if name in sys.modules])"
    assert (
        subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
        == "[]\n"
    )


def largest(count: int) -> list[Change]:
    names = sorted(KERNELS, key=lambda name: -len(side(name).text))[:count]
    return [
        changed(name, lambda text: text.replace("// ", "//  "), meaning=Meaning("same bits", ""))
        for name in names
    ]


def test_twenty_changed_kernels_take_less_than_5_mb() -> None:
    """The five largest, four times: more than any twenty take."""
    text = page(Comparison("a", "b", tuple(largest(5)), ("sm_80", "sm_90")))
    assert text.count("Both texts of") == 5
    size = 4 * len(text.encode())
    print(f"20 of the largest kernels: {size:,} bytes")
    assert 100_000 < size < 5_000_000


def test_of_very_many_lines_the_least_important_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    first, second, third = largest(3)
    worst = third._replace(meaning=Meaning("results differ", ""))
    assert worst.old is not None
    monkeypatch.setattr(html, "MOST_LINES", 3 * worst.old.text.count("\n"))
    text = page(Comparison("a", "b", (first, second, worst), ()))
    assert text.count("this page shows the whole text of the most important kernels only") == 2
    assert f"Both texts of {worst.name}" in text
    assert "no architecture was asked for" in text
