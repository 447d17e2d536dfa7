"""Target architectures and the PTX versions that know them (ISA, "PTX Module Directives: .target")."""

from __future__ import annotations

import re

TARGETS: dict[str, str] = {
    "sm_75": "6.3",
    "sm_80": "7.0",
    "sm_86": "7.1",
    "sm_87": "7.4",
    "sm_88": "9.0",
    "sm_89": "7.8",
    "sm_90": "7.8",
    "sm_90a": "8.0",
    "sm_100": "8.6",
    "sm_100a": "8.6",
    "sm_100f": "8.8",
    "sm_101": "8.6",
    "sm_101a": "8.6",
    "sm_101f": "8.8",
    "sm_103": "8.8",
    "sm_103a": "8.8",
    "sm_103f": "8.8",
    "sm_110": "9.0",
    "sm_110a": "9.0",
    "sm_110f": "9.0",
    "sm_120": "8.7",
    "sm_120a": "8.7",
    "sm_120f": "8.8",
    "sm_121": "8.8",
    "sm_121a": "8.8",
    "sm_121f": "8.8",
}
"""The lowest PTX ISA version that accepts each ``.target``, from sm_75 on."""

RENAMED: dict[str, str] = {f"sm_101{suffix}": f"sm_110{suffix}" for suffix in ("", "a", "f")}
"""Names that PTX 9.0 and its assemblers no longer know, and today's."""


def supports(target: str, minimum: str) -> bool:
    """Say whether a target has every feature of the plain target `minimum`.

    Plain targets form an onion: each has the features of all lower ones. An architecture-specific (``a``) or
    family-specific (``f``) target has those of the plain target of the same number.

    Parameters
    ----------
    target : str
        A name of `TARGETS`, e.g. ``sm_90a``.
    minimum : str
        A plain name of `TARGETS`, without a suffix, e.g. ``sm_80``.

    Returns
    -------
    bool
        Whether code for `minimum` may be compiled for `target`.

    Raises
    ------
    ValueError
        If either name is not in the table, or `minimum` has a suffix.
    """
    for name in (target, minimum):
        if name not in TARGETS:
            raise ValueError(f"unknown target {name!r}: use one of {', '.join(TARGETS)}")
    if not minimum[-1].isdigit():
        raise ValueError(f"minimum {minimum!r} has a suffix: name the plain target {minimum.rstrip('af')!r}")
    return _number(target) >= _number(minimum)


USUAL = ("sm_80", "sm_90", "sm_100", "sm_120")
"""One of each generation in wide use: what a command takes if nobody names any."""


def runs_on(target: str, architecture: str) -> bool:
    """Say whether code with a ``.target`` runs on an architecture.

    Plain targets run on their number and every higher one, ``f`` targets on those of the same family (the
    same tens), ``a`` targets on their own number alone.

    Parameters
    ----------
    target, architecture : str
        Such as ``sm_90a``, of any number; ``compute_90`` means ``sm_90``.
    """
    code, machine = (name.replace("compute_", "sm_") for name in (target, architecture))
    if not all(re.fullmatch("sm_[0-9]+[af]?", name) for name in (code, machine)):
        return True  # no architecture: whoever assembles the text says what is wrong
    if code.endswith("a"):
        return code == machine
    if code.endswith("f") and _number(code) // 10 != _number(machine) // 10:
        return False
    return _number(machine) >= _number(code)


def _number(target: str) -> int:
    number = int(target.removeprefix("sm_").rstrip("af"))
    # The architecture first called sm_101 is the one now called sm_110: above sm_103, not below it.
    return 110 if number == 101 else number
