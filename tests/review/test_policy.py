"""The words of --fail-on: what each objects to, and what it cannot be told."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from ptxtemplates.errors import PtxTemplatesError
from ptxtemplates.review.model import VERDICTS, Change, ContractChange, Cost, CostChange, Meaning, Side
from ptxtemplates.review.policy import FIGURES, Judgement, Policy, parse

if TYPE_CHECKING:
    from ptxtemplates.review.model import Cell

SIDE = Side("k", "text", None, None, "k.ptx")


def changed(
    *costs: CostChange, verdict: str = "same bits", contract: tuple[ContractChange, ...] = ()
) -> Change:
    return Change(
        "k", "changed", SIDE, SIDE, None, contract, Cost(costs, 10, 12, ()), Meaning(verdict, "because of it")
    )


def figure(what: str, before: Cell, after: Cell, where: str = "sm_90") -> Change:
    return changed(CostChange(what, where, before, after))


def judge(words: str, *changes: Change) -> Judgement:
    return parse(words).judge(changes)


def test_without_rules_everything_is_allowed() -> None:
    worst = changed(
        CostChange("registers", "sm_90", 1, 255),
        verdict="results differ",
        contract=(ContractChange("block", "1", "2", True, ""),),
    )
    assert Policy().judge([worst]) == Judgement((), ())


def test_contract_is_what_breaks_callers() -> None:
    breaking = ContractChange("parameter 3 (rows): type", "u32", "u64", True, "pass 8 bytes")
    harmless = ContractChange(".version", "7.0", "6.3", False, "older drivers load it")
    gone = ContractChange("parameter 4", "u32", "", True, "")
    assert judge("contract", changed(contract=(harmless,))) == ((), ())
    assert judge("contract", changed(contract=(harmless, breaking, gone))).refused == (
        "k: breaks callers: parameter 3 (rows): type, from u32 to u64",
        "k: breaks callers: parameter 4, from u32 to nothing",
    )


@pytest.mark.parametrize(
    ("word", "refused"),
    [
        ("meaning", ["results differ", "cannot tell"]),
        ("rounding", ["same over the reals", "results differ", "cannot tell"]),
    ],
)
def test_verdicts(word: str, refused: list[str]) -> None:
    assert [verdict for verdict in VERDICTS if judge(word, changed(verdict=verdict)).refused] == refused
    assert judge(word, changed(verdict="cannot tell")).refused == ("k: cannot tell: because of it",)


def test_what_was_never_looked_at_is_no_consent() -> None:
    unknown = Change("k", "changed", SIDE, SIDE)
    for word in ("meaning", "rounding", *FIGURES):
        judgement = judge(word, unknown)
        assert (len(judgement.refused), len(judgement.unanswered)) == (0, 1), word


def test_kernels_that_come_and_go() -> None:
    changes = [
        Change("a", "added", None, SIDE),
        Change("r", "removed", SIDE, None),
        Change("u", "unchanged", SIDE, SIDE),
    ]
    assert judge("added", *changes) == (("a: was added",), ())
    assert judge("removed", *changes) == (("r: was removed",), ())
    others = ",".join(["contract", "meaning", "rounding", *FIGURES])
    assert judge(others, *changes) == ((), ())


@pytest.mark.parametrize("word", FIGURES)
def test_every_figure_objects_to_the_worse_and_to_nothing_else(word: str) -> None:
    worse = FIGURES[word].worse == "more"
    for what in FIGURES[word].names:
        more, less = figure(what, 10, 12), figure(what, 12, 10)
        assert bool(judge(word, more).refused) is worse
        assert bool(judge(word, less).refused) is not worse
        others = ",".join(other for other in FIGURES if other != word)
        assert judge(others, more, less) == ((), ())


@pytest.mark.parametrize(
    ("words", "before", "after", "refused"),
    [
        ("registers", 32, 33, True),
        ("registers>0", 32, 33, True),
        ("registers>1", 32, 33, False),
        ("registers>1", 32, 34, True),
        ("registers>5%", 40, 42, False),
        ("registers>5%", 40, 43, True),
        ("registers>2.5%", 40, 41, False),
        ("registers > 2.4%", 40, 41, True),
        ("registers>500%", 0, 1, True),
        ("registers>5%,registers>1", 40, 42, True),
        ("registers>5%", 40, 10, False),
    ],
)
def test_thresholds(words: str, before: int, after: int, refused: bool) -> None:
    assert bool(judge(words, figure("registers", before, after)).refused) is refused


def test_thresholds_of_shares() -> None:
    assert judge("occupancy>10%", figure("occupancy", 0.5, 0.45)) == ((), ())
    assert judge("occupancy>10%", figure("occupancy", 0.5, 0.4375)).refused == (
        "k: occupancy on sm_90 from 0.5 to 0.4375, more than 10%",
    )
    assert judge("sectors-over-ideal>0.5", figure("sectors over ideal", 1.0, 1.5, "emulator")) == ((), ())


def test_sentences() -> None:
    worse = [
        figure("registers", 32, 40),
        figure("spill stores", 0, 8),
        figure("sectors", 100, 200, "emulator"),
    ]
    assert judge("registers>5%,spills,sectors", *worse).refused == (
        "k: registers on sm_90 from 32 to 40, more than 5%",
        "k: spill stores on sm_90 from 0 to 8",
        "k: sectors in the emulator from 100 to 200",
    )


@pytest.mark.parametrize(
    ("before", "after", "where", "open_"),
    [
        (32, "unreadable", "sm_90", True),
        ("unreadable", 32, "sm_90", True),
        ("unreadable", "unreadable", "sm_90", True),
        (32, "n/a", "sm_90", True),
        ("n/a", 32, "sm_90", True),
        ("n/a", "n/a", "sm_90", False),  # neither text runs there
        ("n/a", "n/a", "emulator", True),
    ],
)
def test_what_is_no_figure_is_no_consent(before: Cell, after: Cell, where: str, open_: bool) -> None:
    change = figure("registers", before, after, where)
    judgement = judge("registers", change)
    assert (judgement.refused, bool(judgement.unanswered)) == ((), open_)
    assert judge("spills,contract,meaning", change) == ((), ())
    if open_:
        assert f"from {before} to {after}, so registers is not answered" in judgement.unanswered[0]


def test_nothing_compared_is_no_consent() -> None:
    change = changed()._replace(cost=Cost((), 0, 10, ("ptxas is not installed",)))
    assert judge("registers", change) == ((), ("k: registers: ptxas is not installed",))
    assert judge("registers", changed()) == ((), ())


def test_what_is_needed_to_answer() -> None:
    assert parse("added,removed,contract").needs == set()
    assert parse("registers>5%").needs == {"assembler"}
    assert parse("meaning").needs == parse("rounding").needs == parse("sectors").needs == {"emulator"}
    assert parse("spills,bytes").needs == {"assembler", "emulator"}


@pytest.mark.parametrize(
    ("words", "parts"),
    [
        ("", ["has an empty word", "there are added, bytes, contract, instructions, meaning, occupancy"]),
        ("contract,,meaning", ["has an empty word"]),
        ("contracts", ["does not know 'contracts'", "there are added, bytes, contract,"]),
        ("registers>", ["does not know 'registers>'", "registers>5% or registers>2"]),
        ("registers>-1", ["does not know 'registers>-1'"]),
        ("registers>=5", ["does not know 'registers>=5'"]),
        ("registers<5", ["does not know 'registers<5'"]),
        ("registers>1e999", ["does not know"]),
        ("registers>nan", ["does not know"]),
        ("registers>9999999999", ["does not know"]),
        ("Registers", ["does not know 'Registers'"]),
        ("contract>5%", ["contract takes no threshold; bytes, instructions,", "do"]),
        ("occupancy>10", ["occupancy takes a share of what it was, occupancy>10%"]),
    ],
)
def test_words_that_mean_nothing(words: str, parts: list[str]) -> None:
    with pytest.raises(PtxTemplatesError) as error:
        parse(words)
    for part in parts:
        assert part in str(error.value)
