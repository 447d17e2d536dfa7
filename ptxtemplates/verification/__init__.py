"""Cases times a place to run them: the worst error against its bound, and what was found on the way.

Public names are loaded on first use: the command line forks before NumPy is there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ptxtemplates.lazy import lazily

if TYPE_CHECKING:
    from ptxtemplates.verification.outcomes import Mismatch, Outcome, Verdict
    from ptxtemplates.verification.places import Emulator
    from ptxtemplates.verification.programs import Program, given_program, program_of
    from ptxtemplates.verification.running import run_cases, verify

__all__ = [
    "Emulator",
    "Mismatch",
    "Outcome",
    "Program",
    "Verdict",
    "given_program",
    "program_of",
    "run_cases",
    "verify",
]

__getattr__ = lazily(
    __name__,
    {
        **dict.fromkeys(("Mismatch", "Outcome", "Verdict"), "outcomes"),
        "Emulator": "places",
        **dict.fromkeys(("Program", "given_program", "program_of"), "programs"),
        **dict.fromkeys(("run_cases", "verify"), "running"),
    },
)
