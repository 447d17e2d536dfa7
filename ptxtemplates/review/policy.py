"""What a change may do: the words of ``--fail-on``, and the changes that they object to."""

from __future__ import annotations

import re
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Final, NamedTuple

from ptxtemplates.errors import PtxTemplatesError
from ptxtemplates.review.model import VERDICTS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from ptxtemplates.review.model import Change, CostChange, Meaning

EMULATOR: Final = "emulator"
"""Where `CostChange.where` is no architecture."""


class Figure(NamedTuple):
    """A word that means a figure of the cost.

    Attributes
    ----------
    names : tuple of str
        `CostChange.what` of each figure that the word means.
    where : str
        What gives it: ``assembler`` or ``emulator``.
    worse : str
        Which way is worse: ``more`` or ``less``.
    absolute : bool
        Whether a threshold may be a number, and not only a share.
    """

    names: tuple[str, ...]
    where: str
    worse: str = "more"
    absolute: bool = True


FIGURES: Final = {
    "bytes": Figure(("bytes",), EMULATOR),
    "instructions": Figure(("machine instructions",), "assembler"),
    "occupancy": Figure(("occupancy",), "assembler", worse="less", absolute=False),
    "registers": Figure(("registers",), "assembler"),
    "sectors": Figure(("sectors",), EMULATOR),
    "sectors-over-ideal": Figure(("sectors over ideal",), EMULATOR),
    "shared-memory": Figure(("shared memory",), "assembler"),
    "spills": Figure(("spill stores", "spill loads"), "assembler"),
    "thread-instructions": Figure(("thread-instructions",), EMULATOR),
}

VERDICT_WORDS: Final = {"meaning": VERDICTS[3:], "rounding": VERDICTS[2:]}
"""The verdicts that a word objects to."""


class Threshold(NamedTuple):
    """How much worse a figure may get: a number, or a share of what it was."""

    amount: Fraction
    share: bool

    def allows(self, before: float, worsening: float) -> bool:
        """Tell whether a figure that was `before` may get worse by `worsening`."""
        limit = self.amount * Fraction(before) / 100 if self.share else self.amount
        return Fraction(worsening) <= limit

    def __str__(self) -> str:
        """Write it as it is given."""
        return f"{float(self.amount):g}{'%' if self.share else ''}"


NOTHING: Final = Threshold(Fraction(0), share=False)


class Rule(NamedTuple):
    """A word of a policy; `threshold` is that of a figure."""

    word: str
    threshold: Threshold


class Judgement(NamedTuple):
    """What a policy says of changes, a sentence each.

    Attributes
    ----------
    refused : tuple of str
        What it objects to.
    unanswered : tuple of str
        What it asks for and nobody could tell. That is no consent.
    """

    refused: tuple[str, ...]
    unanswered: tuple[str, ...]


@dataclass(frozen=True)
class Policy:
    """What changes are held to. `parse` makes one; without rules it allows everything."""

    rules: tuple[Rule, ...] = ()

    def judge(self, changes: Iterable[Change]) -> Judgement:
        """Hold changes to every rule.

        Returns
        -------
        Judgement
            Each sentence once, in the order of the changes, then of the rules.
        """
        refused: dict[str, None] = {}
        unanswered: dict[str, None] = {}
        for change in changes:
            for rule in self.rules:
                said, open_ = _SAYS[rule.word](change, rule)
                refused.update(dict.fromkeys(f"{change.name}: {text}" for text in said))
                unanswered.update(dict.fromkeys(f"{change.name}: {text}" for text in open_))
        return Judgement(tuple(refused), tuple(unanswered))

    @property
    def needs(self) -> frozenset[str]:
        """What it cannot be answered without: ``assembler``, ``emulator``."""
        figures = {FIGURES[rule.word].where for rule in self.rules if rule.word in FIGURES}
        return frozenset(
            figures | ({EMULATOR} if any(rule.word in VERDICT_WORDS for rule in self.rules) else set())
        )


_WORD: Final = re.compile(r"([a-z-]+)(?:\s*>\s*([0-9]{1,9}(?:\.[0-9]{1,9})?)(%?))?")


def parse(words: str) -> Policy:
    """Read a policy.

    Parameters
    ----------
    words : str
        Separated by commas. A figure may have a threshold behind ``>``: a number, or a share of what the
        figure was before, such as ``registers>5%``. Without one every step to the worse is refused.

    Raises
    ------
    PtxTemplatesError
        If a word is unknown, or has a threshold that it cannot have.
    """
    return Policy(tuple(_rule(word.strip()) for word in words.split(",")))


def _rule(text: str) -> Rule:
    known = f"there are {', '.join(sorted(_SAYS))}"
    if not text:
        raise PtxTemplatesError(f"--fail-on has an empty word; {known}")
    match = _WORD.fullmatch(text)
    if match is None or match[1] not in _SAYS:
        raise PtxTemplatesError(
            f"--fail-on does not know {text!r}; {known}; of a figure also registers>5% or registers>2"
        )
    word, amount, share = match.groups()
    if amount is None:
        return Rule(word, NOTHING)
    if word not in FIGURES:
        raise PtxTemplatesError(f"--fail-on {word} takes no threshold; {', '.join(sorted(FIGURES))} do")
    if not share and not FIGURES[word].absolute:
        raise PtxTemplatesError(f"--fail-on {word} takes a share of what it was, {word}>{amount}%")
    return Rule(word, Threshold(Fraction(amount), bool(share)))


_Said = tuple["Sequence[str]", "Sequence[str]"]
"""What a rule refuses, and what it could not be told."""


def _of_contract(change: Change, rule: Rule) -> _Said:
    return [
        f"breaks callers: {item.what}, from {item.before or 'nothing'} to {item.after or 'nothing'}"
        for item in change.contract
        if item.breaking
    ], ()


def _of_status(change: Change, rule: Rule) -> _Said:
    return ([f"was {rule.word}"] if change.status == rule.word else []), ()


def _of_meaning(change: Change, rule: Rule) -> _Said:
    if change.status != "changed":
        return (), ()
    if change.meaning is None:
        return (), [f"{rule.word}: nothing is known of what it computes"]
    refused = change.meaning.verdict in VERDICT_WORDS[rule.word]
    return ([_verdict(change.meaning)] if refused else []), ()


def _verdict(meaning: Meaning) -> str:
    return f"{meaning.verdict}: {meaning.reason}" if meaning.reason else meaning.verdict


def _of_figure(change: Change, rule: Rule) -> _Said:
    if change.status != "changed":
        return (), ()
    if change.cost is None:
        return (), [f"{rule.word}: nothing is known of what it costs"]
    figure = FIGURES[rule.word]
    refused: list[str] = []
    unanswered: list[str] = []
    for item in change.cost.changes:
        if item.what not in figure.names:
            continue
        if isinstance(item.before, str) or isinstance(item.after, str):
            if not _out_of_question(item):
                unanswered.append(f"{_figure(item)}, so {rule.word} is not answered")
            continue
        worsening = item.after - item.before if figure.worse == "more" else item.before - item.after
        if worsening > 0 and not rule.threshold.allows(item.before, worsening):
            allowed = f", more than {rule.threshold}" if rule.threshold.amount else ""
            refused.append(f"{_figure(item)}{allowed}")
    if not (change.cost.compared or unanswered) and change.cost.asked:
        unanswered.append(f"{rule.word}: {'; '.join(change.cost.notes) or 'no figure could be compared'}")
    return refused, unanswered


def _out_of_question(item: CostChange) -> bool:
    """Neither text is made for that architecture. Of the emulator all must be told that is asked for."""
    return item.where != EMULATOR and item.before == item.after == "n/a"


def _figure(item: CostChange) -> str:
    place = "in the emulator" if item.where == EMULATOR else f"on {item.where}"
    return f"{item.what} {place} from {_cell(item.before)} to {_cell(item.after)}"


def _cell(value: int | float | str) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)


_SAYS: Final[dict[str, Callable[[Change, Rule], _Said]]] = {
    "added": _of_status,
    "contract": _of_contract,
    "meaning": _of_meaning,
    "removed": _of_status,
    "rounding": _of_meaning,
    **dict.fromkeys(FIGURES, _of_figure),
}
"""What each word objects to."""
