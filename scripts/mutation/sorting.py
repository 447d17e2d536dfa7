"""What becomes of a mutant: refused by the assembler, caught by `verify`, or sorted by many more inputs."""

from __future__ import annotations

import hashlib
import re
from functools import cache, cached_property
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from ptxtemplates.errors import EmulationError, PtxTemplatesError
from ptxtemplates.references import cases
from ptxtemplates.references.case import Close
from ptxtemplates.review.machine_code import machine_code
from ptxtemplates.verification import Emulator, Program, program_of, run_cases
from ptxtemplates.verification.constants import strict
from ptxtemplates.verification.judging import judge
from scripts.mutation.inputs import INPUTS, wide_cases

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ptxtemplates.kernel import Kernel
    from ptxtemplates.references import Case
    from ptxtemplates.references.place import Contents
    from ptxtemplates.verification import Outcome
    from scripts.mutation.mutators import Mutant

ARCHITECTURE: Final = "sm_80"
CASES_SEED: Final = 0
"""That of `ptxtemplates verify`."""
WIDE_SEED: Final = 1

_APPROXIMATE: Final = re.compile(r"\b\S+\.approx\S*")

STATES: Final = (
    "rejected",
    "identical",
    "caught",
    "equivalent",
    "rounding-only",
    "caught late",
    "unexplained",
)
"""What may become of a mutant.

rejected : no machine code
identical : the machine code of the original
caught : by the cases, or the comparison of tables and constants, of `ptxtemplates verify`
equivalent : the same bits on many more inputs
rounding-only : other bits, within the bounds on these inputs
caught late : by these inputs, and not by `ptxtemplates verify`
unexplained : none of these
"""


class Sorted(NamedTuple):
    """A mutant and what became of it.

    Attributes
    ----------
    mutant : Mutant
        Which.
    state : str
        One of `STATES`.
    by : str
        What caught it and how: ``constants``, or a case and ``finding <kind>``, ``mismatch`` or ``error``.
    """

    mutant: Mutant
    state: str
    by: str = ""


class Sorter:
    """Sorts the mutants of one kernel; cases and their exact results are computed once.

    Parameters
    ----------
    kernel : Kernel
        Which.
    inputs : int
        How many numbers sort the mutants that its cases let pass.

    Raises
    ------
    RuntimeError
        If the kernel itself does not assemble or pass its cases: then nothing can be said of its mutants.
    """

    def __init__(self, kernel: Kernel, inputs: int = INPUTS) -> None:
        self._kernel = kernel
        self._inputs = inputs
        self._program = program_of(kernel)
        self._others: dict[Kernel, Program] = {}
        self._code = self._machine_code(self._program.text)
        if isinstance(self._code, str):
            raise RuntimeError(f"{kernel.variant}: {self._code}")
        made = list(cases(kernel, CASES_SEED))
        list(
            self._outcomes(made, self._program)
        )  # once, so that nothing is loaded or compiled when it counts
        outcomes = list(self._outcomes(made, self._program))
        failed = [outcome.case for outcome in outcomes if not outcome.ok]
        if failed or strict(kernel, self._program):
            raise RuntimeError(f"{kernel.variant} itself fails: {failed or 'constants'}")
        seconds = {outcome.case: outcome.seconds for outcome in outcomes}
        self._cases = sorted(made, key=lambda case: seconds[case.name])

    def sort(self, mutant: Mutant) -> Sorted:
        """Say what becomes of a mutant."""
        text = mutant.text(self._program.text)
        code = self._machine_code(text)
        if isinstance(code, str):
            return Sorted(mutant, "rejected")
        if code == self._code:
            return Sorted(mutant, "identical")
        program = Program(text, self._program.entry, self._program.places)
        try:
            if by := self._caught(program):
                return Sorted(mutant, "caught", by)
            return Sorted(mutant, *self._sorted(program))
        except PtxTemplatesError as error:
            return Sorted(mutant, "caught", f"refused: {type(error).__name__}")
        except Exception as error:  # a mutant must not end the run: whatever it broke is reported with it
            return Sorted(mutant, "unexplained", f"{type(error).__name__}: {error}")

    def _machine_code(self, text: str) -> bytes | str:
        return machine_code(text, self._program.entry, ARCHITECTURE)

    def _outcomes(self, made: list[Case], program: Program) -> Iterator[Outcome]:
        for case in made:
            yield from run_cases([case], self._programs(case, program), Emulator())

    def _programs(self, case: Case, program: Program) -> dict[Kernel, Program]:
        """Return the texts that a case launches; those of other kernels are rendered once."""
        for launch in case.launches:
            if launch.kernel not in self._others:
                self._others[launch.kernel] = program_of(launch.kernel)
        return {**self._others, self._kernel: program}

    def _caught(self, program: Program) -> str:
        """Return what catches a text; empty if nothing does."""
        for outcome in self._outcomes(self._cases, program):
            if outcome.error:
                return f"{outcome.case}: error"
            if outcome.findings:
                return f"{outcome.case}: finding {outcome.findings[0].kind}"
            if outcome.mismatches:
                return f"{outcome.case}: mismatch"
        return "constants" if strict(self._kernel, program) else ""

    @cached_property
    def _wide(self) -> list[tuple[Case, bytes]]:
        """Many more inputs, and a digest of what the original makes of each."""
        found = []
        for case in wide_cases(self._kernel, WIDE_SEED, self._inputs):
            digest, by = self._run(case, self._program, Emulator())
            if by:
                raise RuntimeError(f"{self._kernel.variant} itself fails: {by}")
            found.append((case, digest))
        return found

    def _sorted(self, program: Program) -> tuple[str, str]:
        # the emulator rounds any approximate instruction correctly, or in its own way: no bits to compare
        same = _APPROXIMATE.findall(program.text) == _APPROXIMATE.findall(self._program.text)
        for case, expected in self._wide:
            digest, by = self._run(case, program, Emulator())
            if by:
                return "caught late", by
            same = same and digest == expected
        if same:
            return "equivalent", ""
        for case, _ in self._wide:
            _, by = self._run(case, program, Emulator("worst", WIDE_SEED))
            if by:
                return "caught late", f"{by}, worst accuracy"
        return "rounding-only", ""

    def _run(self, case: Case, program: Program, place: Emulator) -> tuple[bytes, str]:
        """Return a digest of the results, and what is wrong with them."""
        try:
            ran = place.run(case, self._programs(case, program))
        except EmulationError:
            return b"", f"{case.name}: error"
        if ran.findings:
            return b"", f"{case.name}: finding {ran.findings[0].kind}"
        wrong = judge(case, ran.contents).mismatches
        return _digest(case, ran.contents), f"{case.name}: mismatch" if wrong else ""


def _digest(case: Case, contents: Contents) -> bytes:
    """Hash the results that a case looks at; all NaN count as one."""
    digest = hashlib.sha256()
    for expected in case.expectations:
        size = expected.exact.size if isinstance(expected, Close) else expected.size
        part = contents(expected.buffer, expected.at, size).copy()
        part[np.isnan(part)] = np.nan
        if isinstance(expected, Close) and expected.free is not None:
            part[expected.free.reshape(-1)] = 0
        digest.update(part.tobytes())
    return digest.digest()


@cache
def sorter_of(kernel: Kernel, inputs: int) -> Sorter:
    """Return the sorter of a kernel: one for each process."""
    return Sorter(kernel, inputs)


def sort(kernel: Kernel, mutant: Mutant, inputs: int = INPUTS) -> Sorted:
    """Say what becomes of a mutant of a kernel; parameters as in `Sorter`."""
    return sorter_of(kernel, inputs).sort(mutant)
