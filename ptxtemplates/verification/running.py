"""Cases times a place to run them."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from ptxtemplates.errors import EmulationError
from ptxtemplates.references import cases
from ptxtemplates.references.place import SkippedCase
from ptxtemplates.references.telling import telling
from ptxtemplates.verification.constants import compare, strict
from ptxtemplates.verification.judging import Judgement, judge
from ptxtemplates.verification.outcomes import Outcome, Verdict
from ptxtemplates.verification.programs import program_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from ptxtemplates.kernel import Kernel
    from ptxtemplates.references import Case
    from ptxtemplates.references.place import Place
    from ptxtemplates.verification.programs import Program


def verify(kernel: Kernel, place: Place, *, seed: int = 0, given: Program | None = None) -> Verdict:
    """Hold a kernel to its cases, and its tables and constants to its definition.

    Parameters
    ----------
    kernel : Kernel
        Which.
    place : Place
        Where its text runs.
    seed : int
        Decides the inputs of the cases.
    given : Program, optional
        A text to run in place of the rendered one. It may lack tables and constants of the definition.

    Raises
    ------
    UnknownKernelError
        If there are no cases for it.
    UnsupportedInstruction, PtxSyntaxError
        If the place cannot run the text.
    """
    program = given or program_of(kernel)
    outcomes = tuple(run_cases(cases(kernel, seed), {kernel: program}, place))
    if given is None:
        return Verdict(kernel.variant, outcomes, strict(kernel, program), ())
    return Verdict(kernel.variant, outcomes, *compare(kernel, program))


def run_cases(chosen: Iterable[Case], programs: dict[Kernel, Program], place: Place) -> Iterator[Outcome]:
    """Run cases and judge them; kernels that `programs` lacks are rendered."""
    started = time.perf_counter()
    for case in chosen:  # making a case counts: its exact results are computed there
        for launch in case.launches:
            if launch.kernel not in programs:
                programs[launch.kernel] = program_of(launch.kernel)
        ran, reason, skipped = None, "", ""
        with telling(f"case {case.name}"):
            try:
                ran = place.run(case, programs)
            except EmulationError as error:
                reason = str(error)
            except SkippedCase as error:
                skipped = str(error)
            judgement = Judgement(0.0, None, ()) if ran is None else judge(case, ran.contents)
        findings = () if ran is None else ran.findings
        finished = time.perf_counter()
        yield Outcome(case.name, *judgement, findings, reason, finished - started, skipped)
        started = finished
