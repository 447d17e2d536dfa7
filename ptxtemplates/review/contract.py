"""What callers of a kernel rely on: what changed of it, and whether that can break them."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any, Final

from ptxtemplates.errors import PtxSyntaxError
from ptxtemplates.ptx.parser import parse
from ptxtemplates.ptx.targets import TARGETS, runs_on
from ptxtemplates.review.arguments import parameter_changes
from ptxtemplates.review.declared import Contract, both, declared, described
from ptxtemplates.review.model import ContractChange
from ptxtemplates.review.releases import driver_for

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from ptxtemplates.review.model import Side

    Judgement = tuple[bool, str]


def contract_changes(old: Side, new: Side) -> tuple[ContractChange, ...]:
    """Compare what callers rely on: what the texts declare, and what the descriptions add to it.

    Where text and description of the new kernel disagree, that is a change too, and breaking. Of a side
    without description only what its text declares is compared.

    Parameters
    ----------
    old, new : Side

    Returns
    -------
    tuple of ContractChange
        Breaking ones first; otherwise in the order of a launch: entry, parameters, geometry, memory, target.
    """
    before, after = _Read(old), _Read(new)
    changes = [*_unreadable(before, after), *_of_entries(*_comparable(before, after))]
    if old.description is not None and new.description is not None:
        changes += _of_descriptions(old.description, new.description)
    changes += _disagreements(before, after)
    return tuple(sorted(changes, key=lambda change: not change.breaking))


class _Read:
    """What can be known of one side.

    Attributes
    ----------
    problem : str
        Why the text cannot be read; empty if it can.
    texts : dict of str to Contract
        What the text declares of each entry that counts: the described one, or all.
    description : Contract or None
    """

    def __init__(self, side: Side) -> None:
        self.problem = ""
        self.texts: dict[str, Contract] = {}
        self.description = None if side.description is None else described(side.description)
        try:
            module = parse(side.text)
        except PtxSyntaxError as error:
            self.problem = f"line {error.line}: {error}"
            return
        self.texts = {entry.name: declared(module, entry) for entry in module.entries}
        named = self.description.entry if self.description else None
        if named in self.texts:
            self.texts = {named: self.texts[named]}


def _unreadable(old: _Read, new: _Read) -> Iterator[ContractChange]:
    if new.problem and not old.problem:
        why = "what it declares cannot be compared, and an assembler may refuse it"
        yield ContractChange("text", "parses", f"does not parse: {new.problem}", True, why)
    elif old.problem and not new.problem:
        why = "what the text before declared cannot be compared"
        yield ContractChange("text", f"does not parse: {old.problem}", "parses", False, why)


def _comparable(old: _Read, new: _Read) -> tuple[dict[str, Contract], dict[str, Contract]]:
    """Return what is known of both sides from the same sources: silence must not look like a change."""
    if old.description is None or new.description is None:
        return ({}, {}) if old.problem or new.problem else (old.texts, new.texts)
    if old.problem or new.problem:
        before, after = old.description, new.description
        return {before.entry or "": before}, {after.entry or "": after}
    if len(old.texts) != 1 or len(new.texts) != 1:
        return old.texts, new.texts
    ((name, before),), ((new_name, after),) = old.texts.items(), new.texts.items()
    return {name: both(before, old.description)}, {new_name: both(after, new.description)}


def _of_entries(old: Mapping[str, Contract], new: Mapping[str, Contract]) -> Iterator[ContractChange]:
    if len(old) == len(new) == 1:
        yield from _of_contract(*old.values(), *new.values())
        return
    for name, contract in old.items():
        if name not in new:
            yield ContractChange("entry", name, "", True, "nothing of that name can be launched any longer")
        else:
            for change in _of_contract(contract, new[name]):
                yield change._replace(what=f"entry {name}: {change.what}")
    for name in new:
        if name not in old:
            yield ContractChange("entry", "", name, False, "nobody can have launched it before")


def _of_contract(old: Contract, new: Contract) -> Iterator[ContractChange]:
    if old.entry and new.entry and old.entry != new.entry:
        yield ContractChange("entry", old.entry, new.entry, True, "look the kernel up by its new name")
    if old.parameters is not None and new.parameters is not None:
        yield from parameter_changes(old.parameters, new.parameters)
    for field, (what, write, judge) in _FIELDS.items():
        before, after = getattr(old, field), getattr(new, field)
        if before is not None and after is not None and before != after:
            yield ContractChange(what, write(before), write(after), *judge(before, after))


def _threads(extents: tuple[int, ...]) -> str:
    return f"({', '.join(map(str, extents))})" if extents else ""


def _bytes(count: int) -> str:
    return f"{count:,} bytes"


def _judge_linkage(old: str, new: str) -> Judgement:
    if new == "":
        return True, "a loader finds only entries that are .visible or .weak"
    return False, "loaders find it by name"


def _judge_block(_: tuple[int, ...], new: tuple[int, ...]) -> Judgement:
    if not new:
        return False, "blocks of the size that was required before still work"
    return True, "launch with exactly that block"


def _judge_most_threads(old: int, new: int) -> Judgement:
    if new and (not old or new < old):
        return True, "a launch with more threads a block fails"
    return False, "blocks that were small enough still are"


def _judge_shared_memory(old: int, new: int) -> Judgement:
    if new > old:
        return True, "each block takes more, beside what a launch asks for: it must still fit"
    return False, "what fitted before still fits"


def _judge_dynamic(_: bool, new: bool) -> Judgement:
    if new:
        return True, "launches must say how many bytes of shared memory they want"
    return False, "a size that a launch still passes is not used"


def _judge_target(old: str, new: str) -> Judgement:
    machines = [*TARGETS, *(each for each in (old, new) if each not in TARGETS)]
    lost = [each for each in machines if runs_on(old, each) and not runs_on(new, each)]
    if not lost:
        return False, "it runs on every GPU that it ran on"
    return True, f"it no longer runs on {_listed(lost)}"


def _listed(machines: list[str]) -> str:
    plain = [each for each in machines if each[-1].isdigit()] or machines
    return ", ".join(plain) if len(plain) <= 4 else f"{plain[0]} to {plain[-1]}"


def _judge_version(old: str, new: str) -> Judgement:
    before, after = (tuple(map(int, each.split("."))) for each in (old, new))
    if after > before:
        return True, f"it needs {driver_for(new)}; before, {driver_for(old)}"
    return False, f"drivers that read PTX {old} read it; {driver_for(new)} is enough"


def _judge_options(_: tuple[str, ...], new: tuple[str, ...]) -> Judgement:
    if new == () or new == ("debug",):
        return False, "launches are the same"
    return True, "it decides how textures are bound, or what may be linked with it"


_FIELDS: Final[dict[str, tuple[str, Callable[[Any], str], Callable[[Any, Any], Judgement]]]] = {
    "linkage": ("linkage", lambda linkage: f".{linkage}" if linkage else "", _judge_linkage),
    "block": ("block", _threads, _judge_block),
    "most_threads": ("threads a block", lambda most: f"at most {most}" if most else "", _judge_most_threads),
    "cluster": (
        "cluster",
        str,
        lambda _, new: (True, f"launch {'with' if new else 'without'} such clusters"),
    ),
    "shared_memory": ("shared memory", _bytes, _judge_shared_memory),
    "dynamic": ("dynamic shared memory", lambda dynamic: "used" if dynamic else "", _judge_dynamic),
    "target": (".target", str, _judge_target),
    "options": (".target options", ", ".join, _judge_options),
    "version": (".version", str, _judge_version),
    "address_size": (".address_size", str, lambda _, new: (True, f"pointers have {new} bits")),
}
"""Of each field of `Contract`: what a reader calls it, how it is written, and what a change does."""


def _of_descriptions(old: Mapping[str, Any], new: Mapping[str, Any]) -> Iterator[ContractChange]:
    """Compare what only descriptions say."""
    for key, why in (
        ("kernel", "choose it by its new name"),
        ("grid", "launch with the new grid"),
    ):
        before, after = old.get(key), new.get(key)
        if before is not None and after is not None and before != after:
            yield ContractChange(key, _value(before), _value(after), True, why)
    yield from _of_limits(_mapping(old, "grid_limits"), _mapping(new, "grid_limits"))
    before_values, after_values = (_mapping(each, "template_parameters") for each in (old, new))
    for name in sorted(before_values.keys() | after_values.keys()):
        before, after = before_values.get(name), after_values.get(name)
        if name in ("entry", "target") or before == after:
            continue  # the text declares these two
        judgement = (True, "the same name stands for another kernel now: results or sizes differ")
        if before is None:
            judgement = (False, "it is a choice when the text is rendered now")
        elif after is None:
            judgement = (False, "it is no longer a choice when the text is rendered")
        yield ContractChange(f"template parameter {name}", _value(before), _value(after), *judgement)


def _of_limits(old: Mapping[str, Any], new: Mapping[str, Any]) -> Iterator[ContractChange]:
    for name in sorted(old.keys() & new.keys()):
        before, after = old[name], new[name]
        if not (isinstance(before, int) and isinstance(after, int)) or before == after:
            continue
        breaking = after < before
        why = "launches of more must be divided" if breaking else "what was allowed still is"
        yield ContractChange(f"grid limit of {name}", f"{before:,}", f"{after:,}", breaking, why)


def _mapping(description: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    value = description.get(key)
    return value if isinstance(value, dict) else {}


def _value(value: Any) -> str:
    if isinstance(value, list | tuple):
        return f"({', '.join(map(str, value))})"
    return "" if value is None else str(value)


def _disagreements(old: _Read, new: _Read) -> Iterator[ContractChange]:
    """Compare description and text of each side; what was wrong before and still is was no change."""
    mended = {**_wrong(old)}
    for what, (said, is_so) in _wrong(new).items():
        mended.pop(what, None)
        after = f"description says {said or 'none'}, text declares {is_so or 'none'}"
        why = "whoever launches by the description is wrong: make it anew from the text"
        yield ContractChange(f"description: {what}", "", after, True, why)
    for what, (said, was_so) in mended.items():
        before = f"description said {said or 'none'}, text declared {was_so or 'none'}"
        why = "they agree now; whoever launched by the description was wrong"
        yield ContractChange(f"description: {what}", before, "", False, why)


def _wrong(side: _Read) -> dict[str, tuple[str, str]]:
    """Return what a description says otherwise than the text: what it says, and what is so."""
    description, texts = side.description, side.texts
    if description is None or side.problem:
        return {}
    if description.entry is not None and description.entry not in texts:
        return {"entry": (description.entry, ", ".join(texts))}
    if len(texts) != 1:
        return {}
    (text,) = texts.values()
    wrong: dict[str, tuple[str, str]] = {}
    for field in ("shared_memory", "target", "version"):
        said, is_so = getattr(description, field), getattr(text, field)
        if said is not None and said != is_so:
            wrong[_FIELDS[field][0]] = (_FIELDS[field][1](said), _FIELDS[field][1](is_so))
    if description.block is not None and text.block is not None:
        too_many = text.most_threads and prod(description.block) > text.most_threads
        if text.block and description.block != text.block:
            wrong["block"] = (_threads(description.block), _threads(text.block))
        elif too_many:
            wrong["block"] = (_threads(description.block), f"at most {text.most_threads} threads")
    wrong |= _wrong_parameters(description, text)
    return wrong


def _wrong_parameters(description: Contract, text: Contract) -> dict[str, tuple[str, str]]:
    if description.parameters is None or text.parameters is None:
        return {}
    names = [tuple(each.name for each in contract.parameters or ()) for contract in (description, text)]
    if names[0] != names[1]:
        return {"parameters": (", ".join(names[0]), ", ".join(names[1]))}
    wrong = {}
    for index, (said, is_so) in enumerate(zip(description.parameters, text.parameters, strict=True), start=1):
        for field in ("type", "size", "offset", "alignment"):
            pair = getattr(said, field), getattr(is_so, field)
            if pair[0] != pair[1] and None not in pair:
                wrong[f"parameter {index} ({said.name}): {field}"] = (str(pair[0]), str(pair[1]))
    return wrong
