"""The report for a pull-request comment: it fits, says what it leaves out, and nothing breaks out of it."""

from __future__ import annotations

import re
from html.parser import HTMLParser

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ptxtemplates.review.fenced import code
from ptxtemplates.review.markdown import LIMIT, MARKER, markdown
from ptxtemplates.review.model import Change, Comparison, Cost, CostChange, Hunk
from ptxtemplates.review.wording import visible
from tests.review.comparisons import (
    BLOCK,
    HIGHER,
    HOSTILE,
    added,
    changed,
    comparison,
    every_kind,
    hostile,
    hunk,
    removed,
    unchanged,
)

CUT = re.compile(r"\*\*Left out, so that this fits a comment: (.*?)\.\*\* The HTML report has all of it\.")


def outside_fences(text: str) -> list[str]:
    """Return the lines that are no code block; each fence must be closed by one of its own length."""
    lines, mark = [], ""
    for line in text.split("\n"):
        if mark:
            if re.fullmatch(rf" {{0,3}}{mark}`*[ \t]*", line):
                assert line == mark
                mark = ""
        elif line.startswith("```"):
            mark = line.removesuffix("diff")
            assert set(mark) == {"`"}, line
        else:
            lines.append(line)
    assert not mark, "a fence is open at the end"
    return lines


def check(text: str) -> None:
    """What holds of every report."""
    assert text.startswith(f"{MARKER}\n")
    assert text.endswith("\n")
    assert len(text.encode()) <= LIMIT
    depth = 0
    for line in outside_fences(text):
        if line.startswith("<details><summary>"):
            assert depth == 0, line
            assert line.count("<summary>") == line.count("</summary>") == 1
            depth = 1
        elif line == "</details>":
            depth -= 1
        assert depth in (0, 1)
    assert depth == 0


def test_a_whole_report() -> None:
    edit = hunk(["    mul.rn.f32 %y, %x, 2;"], ["    mul.f32 %y, %x, 2;"], times=4)
    old = CostChange("registers", "sm_80", 18, "unreadable")
    wrong = changed(
        "scale.w64", "same over the reals", [edit], moved=(HIGHER, old), contract=(BLOCK,), largest_ulp=2
    )
    text = markdown(comparison(wrong, added("scale.w16"), unchanged("scale.w8")))
    check(text)
    assert text == (
        """\
<!-- ptxtemplates-diff -->
### PTX kernels: `main (1a2b3c4)` to `working tree`

3 kernels: same over the reals 1, added 1, unchanged 1; 1 kernel can break callers.

| | kernels | callers | text | cost |
|---|---|---|---|---|
| **same over the reals** | `scale.w64` | **can break** | +4 -4 | registers +1, not compared: registers on sm_80 |

<details><summary>added (1)</summary>

- `scale.w16`

</details>

<details><summary>same over the reals: <code>scale.w64</code></summary>

**meaning**

- why: hashes are equal
- tried: one row
- largest difference: 2 ulp

| contract | before | after | | |
|---|---|---|---|---|
| `block` | `(32, 1, 1)` | `(64, 1, 1)` | **breaking** | a launch passes the block |

**cost**: compared 20 of 24 figures; sm_75: the assembler does not know it

| | | before | after | |
|---|---|--:|--:|--:|
| registers | sm_90 | 18 | 19 | +1 (+5.6%) |
| registers | sm_80 | 18 | unreadable |  |

```diff
@@ line 10 @@ scale.ptx.jinja:7 x4
     // around
-    mul.rn.f32 %y, %x, 2;
+    mul.f32 %y, %x, 2;
     // around
```

</details>
"""
    )


def test_importance_decides_the_order() -> None:
    text = markdown(every_kind())
    check(text)
    rows = re.findall(r"^\| \*\*.*?\*\* \| `([a-z.]+)`", text, re.MULTILINE)
    assert rows == ["d.wrong", "e.unknown", "c.rounding", "b.same", "a.comments"]
    assert re.findall(r"<summary>.*?: <code>([a-z.]+)</code>", text) == rows
    assert "h.unchanged" not in text
    assert "**1 change not allowed:**\n\n- `d.wrong: results differ`\n" in text
    assert "Left out" not in text


def test_nothing_changed() -> None:
    text = markdown(comparison(unchanged("a"), unchanged("b")))
    assert text.splitlines() == [
        MARKER,
        "### PTX kernels: `main (1a2b3c4)` to `working tree`",
        "",
        "2 kernels: unchanged 2.",
    ]
    check(markdown(comparison()))


def test_nothing_compared_is_not_nothing_moved() -> None:
    text = markdown(comparison(changed("a")._replace(cost=Cost((), 0, 24, ("no assembler",)))))
    assert "nothing moved" not in text
    assert "| nothing compared |\n" in text
    assert "**cost**: compared 0 of 24 figures; no assembler\n" in text


def different(number: int, verdict: str, lines: int = 12) -> Change:
    """Return a change that is like no other of another number."""
    word = "".join(chr(ord("a") + int(digit)) for digit in f"{number:03}")
    old = [f"    mul.rn.f32 %{word}{line}, %x, %y;" for line in range(lines)]
    return changed(f"kernel{number:03}", verdict, [hunk(old, [line.replace(".rn", "") for line in old])])


def test_300_changed_kernels_fit_and_the_least_important_are_cut() -> None:
    verdicts = ["identical machine code", "same bits", "same over the reals", "results differ", "cannot tell"]
    text = markdown(comparison(*(different(number, verdicts[number % 5]) for number in range(300))))
    check(text)
    assert len(text.encode()) > LIMIT * 0.9, "there was room for more"
    assert "300 kernels: results differ 60, cannot tell 60, same over the reals 60" in text
    rows = re.findall(r"^\| \*\*(.*?)\*\* \| `(\w+)`", text, re.MULTILINE)
    details = re.findall(r"<summary>(.*?): <code>(\w+)</code>", text)
    # what is there is the beginning of the same list, and what is not is counted
    assert rows[: len(details)] == details
    assert [verdict for verdict, _ in details[:60]] == ["results differ"] * min(60, len(details))
    [cut] = CUT.findall(text)
    assert f"{300 - len(rows)} rows of the table" in cut
    assert f"the details of {300 - len(details)} changes" in cut
    assert 20 < len(details) < len(rows) < 300
    assert text.index("Left out") < text.index("<details>"), "a reader sees it before what is left"


def test_300_variants_of_one_change_are_one_entry_with_its_lines() -> None:
    changes = [
        changed(
            f"a_kernel_with_a_name_of_a_usual_length.h{number}.d128",
            "results differ",
            [hunk([f"    add.u32 %x, %x, {number + 1000};"], ["    add.u32 %x, %x, 0;"])],
            reason=f"reason {number}",
        )
        for number in range(300)
    ]
    text = markdown(comparison(*changes))
    check(text)
    assert len(re.findall(r"<summary>", text)) == 1
    assert text.count("```diff\n") == 1
    assert re.search(r"^- \d+ more kernels$", text, re.MULTILINE)
    assert CUT.findall(text) == ["parts of 1 of the details below"]


def test_one_long_change_does_not_displace_the_others() -> None:
    hunks = [hunk([f"    // {'gone ' * 10}{number}"], [f"    // {number}"]) for number in range(2_000)]
    text = markdown(comparison(changed("long", "results differ", hunks), different(1, "same bits")))
    check(text)
    [shown] = re.findall(r"\((\d+),?(\d*) more places with changed lines\)", text)
    assert int("".join(shown)) + text.count("@@ line") == 2_001
    assert "<code>kernel001</code>" in text
    assert CUT.findall(text) == ["parts of 1 of the details below"]


def test_long_lists_of_objections_and_names_are_cut_and_counted() -> None:
    names = [f"kernel{number}.{'x' * 50}" for number in range(1_000)]
    text = markdown(
        comparison(
            *(added(f"a{name}") for name in names),
            *(removed(f"r{name}") for name in names),
            different(1, "same bits"),
            failures=tuple(names),
        )
    )
    check(text)
    [cut] = CUT.findall(text)
    assert len(cut.split(", ")) == 3
    found = {
        noun: number for number, noun in re.findall(r"([\d,]+) (objection|removed kernel|added kernel)s", cut)
    }
    assert int(found["objection"]) == 1_000 - len(re.findall(r"^- `kernel", text, re.MULTILINE))
    assert int(found["added kernel"]) == 1_000 - len(re.findall(r"^- `akernel", text, re.MULTILINE))
    assert int(found["removed kernel"]) == 1_000 - len(re.findall(r"^- `rkernel", text, re.MULTILINE))
    assert "<code>kernel001</code>" in text, "details of what changed have room all the same"


def test_a_long_line_is_cut_and_says_so() -> None:
    text = markdown(comparison(changed("a", "same bits", [hunk([], ["    // " + "x" * 100_000])])))
    check(text)
    assert "x... (100,007 characters)\n" in text


class Rendered(HTMLParser):
    """Reads what a Markdown renderer made: its tags, and the text in and out of code."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: set[str] = set()
        self.open: list[str] = []
        self.prose: list[str] = []
        self.code: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        assert all(
            (tag, name) in {("code", "class"), ("th", "style"), ("td", "style")} for name, _ in attrs
        ), (tag, attrs)
        self.open.append(tag)
        if tag == "code":
            self.code.append("")

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_comment(self, data: str) -> None:
        assert f"<!--{data}-->" == MARKER
        self.tags.add("comment")

    def handle_data(self, data: str) -> None:
        if "code" in self.open:
            self.code[-1] += data
        else:
            self.prose.append(data)


MADE = {
    "code", "comment", "details", "h3", "li", "p", "pre", "strong", "summary", "table", "tbody", "td", "th",
    "thead", "tr", "ul",
}  # fmt: skip


def rendered(text: str) -> Rendered:
    markdown_it = pytest.importorskip("markdown_it", reason="reads reports as GitHub does: markdown-it-py")
    # html: raw HTML stays; GitHub's renderer takes tables and makes links of bare addresses too
    html = markdown_it.MarkdownIt("commonmark", {"html": True}).enable("table").render(text)
    found = Rendered()
    found.feed(html)
    found.close()
    assert not found.open
    return found


@pytest.mark.parametrize("text", HOSTILE)
def test_nothing_breaks_out(text: str) -> None:
    report = markdown(hostile(text))
    check(report)
    found = rendered(report)
    assert found.tags <= MADE
    prose = "".join(found.prose)
    for mark in ("@", "#", "GH-", "://", "www.", "octocat", "script", "<", "`", "|", "$", ":tada"):
        assert mark not in prose
    if text.strip():
        # as it is, in code: control characters alone are written out
        shown = "\t".join(map(visible, text.split("\t")))
        assert any(shown in each for each in found.code)
        assert any(f"+{shown * 2}\n" in each for each in found.code)


@pytest.mark.parametrize("text", HOSTILE)
def test_tables_keep_their_columns(text: str) -> None:
    found = rendered(markdown(hostile(text)))
    assert found.tags >= {"table", "td"}
    report = markdown(hostile(text))
    for line in outside_fences(report):
        if line.startswith("| "):
            # no bar but those between columns; 5 in each of our tables
            assert line.count("|") == 6, line


LINES = st.lists(st.text(st.characters(), max_size=400), max_size=4)
EDITS = st.builds(lambda old, new, times: hunk(old, new, times=times), LINES, LINES, st.integers(1, 99))
CHANGES = st.builds(
    lambda name, verdict, hunks, reason: changed(name, verdict, hunks, reason=reason, moved=(HIGHER,)),
    st.text(st.characters(), max_size=200),
    st.sampled_from(["same bits", "results differ", "cannot tell"]),
    st.lists(EDITS, max_size=4),
    st.text(st.characters(), max_size=600),
)


@given(st.lists(CHANGES, max_size=5), st.text(st.characters()), st.integers(1, 60))
def test_any_report_fits_and_is_whole(changes: list[Change], text: str, copies: int) -> None:
    many = tuple(changes) * copies
    check(markdown(comparison(*many, *hostile(text).changes, failures=(text,) * copies, old=text)))


MARKS = st.text(st.sampled_from("`~|<>/\\-+ \n\t#@*_[]()!&;:.details1"), max_size=40)


@given(MARKS)
def test_no_marks_break_out(text: str) -> None:
    report = markdown(hostile(text))
    check(report)
    assert rendered(report).tags <= MADE


@given(MARKS)
def test_code_is_one_element(text: str) -> None:
    found = rendered(f"x {code(text)} y")
    assert found.tags <= {"p", "code"}
    assert "".join(found.prose).split() == ["x", "y"]


def test_a_fence_is_longer_than_any_inside() -> None:
    long = Hunk(((1, "`" * 290),), (), (), ((2, "   ```"),), 1, ())
    check(markdown(Comparison("a", "b", (changed("a", "same bits", [long]),), ())))
