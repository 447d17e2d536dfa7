"""Colours of the page, in both schemes: text stands out from what is behind it (WCAG 2, level AA: 4.5 to 1)."""

from __future__ import annotations

import re

import pytest

from ptxtemplates.review.html import FOLDER

STYLE = (FOLDER / "page.css").read_text(encoding="utf-8")
SYNTAX = ("text", "muted", "comment", "opcode", "modifier", "directive", "number", "label")

BEHIND = {
    "page": (*SYNTAX, "link", "bad", "warn", "good", "info"),
    "surface": (*SYNTAX, "link", "bad", "good"),
    "gone": SYNTAX,
    "gone-mark": SYNTAX,
    "came": SYNTAX,
    "came-mark": SYNTAX,
    "bad-surface": ("bad", "text"),
    "warn-surface": ("warn",),
    "good-surface": ("good",),
    "info-surface": ("info", "text", "muted"),
}
"""What is written on each background."""


def colours(scheme: str) -> dict[str, str]:
    blocks = re.findall(r":root \{(.*?)\}", STYLE, re.DOTALL)
    assert len(blocks) == 2
    return dict(re.findall(r"--([\w-]+): (#[0-9a-f]{6});", blocks[scheme == "dark"]))


def luminance(colour: str) -> float:
    """Relative luminance, as WCAG 2 defines it."""
    parts = [int(colour[index : index + 2], 16) / 255 for index in (1, 3, 5)]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one: str, other: str) -> float:
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


def test_contrast_is_that_of_the_standard() -> None:
    assert contrast("#000000", "#ffffff") == pytest.approx(21)
    assert contrast("#777777", "#ffffff") == pytest.approx(4.48, abs=0.01)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_stands_out(scheme: str) -> None:
    found = colours(scheme)
    low = {
        f"{front} on {behind}": round(ratio, 2)
        for behind, fronts in BEHIND.items()
        for front in fronts
        if (ratio := contrast(found[front], found[behind])) < 4.5
    }
    assert not low


def test_both_schemes_have_the_same_colours_and_no_rule_has_others() -> None:
    light, dark = colours("light"), colours("dark")
    assert light.keys() == dark.keys()
    assert {*BEHIND} | {name for names in BEHIND.values() for name in names} | {"border"} == light.keys()
    rules = re.sub(r":root \{.*?\}", "", STYLE, flags=re.DOTALL)
    assert not re.findall(r"#[0-9a-fA-F]{3,8}\b|rgb|hsl", rules)
    assert {*re.findall(r"var\(--([\w-]+)\)", rules)} == light.keys()
