"""The machine instructions that each line of a PTX text becomes, as a page carries them."""

from __future__ import annotations

import json
import os
import re
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Final, NamedTuple

from ptxtemplates.assembly import assemble
from ptxtemplates.assembly.sass import OWN, disassemble, with_own_lines
from ptxtemplates.assembly.tools import find_tool
from ptxtemplates.errors import AssemblyError, MissingExtraError, PtxSyntaxError
from ptxtemplates.review.wording import visible

if TYPE_CHECKING:
    from collections.abc import Sequence

TOOLS: Final = ("ptxas", "nvdisasm")

_PLACE: Final = re.compile(r"^[ \t]*\.(?:loc|file)\b[^\n]*$", re.MULTILINE)


class MachineCode(NamedTuple):
    """Machine code by PTX line.

    Attributes
    ----------
    lines : dict of int to str
        Instructions of a line, from 1: one a line, in the order of the machine code.
    total : int
        How many there are; some may belong to no line.
    toolchain : str
        Who made it.
    """

    lines: dict[int, str]
    total: int
    toolchain: str

    def data(self) -> str:
        """Return `lines` as JSON that can stand in a ``script`` element."""
        text = json.dumps(self.lines, separators=(",", ":"))
        return text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")


def machine_codes(texts: Sequence[str], architecture: str) -> list[MachineCode | str]:
    """Return the machine code of each text, or the reason why there is none."""
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        return list(pool.map(lambda text: machine_code_by_line(text, architecture), texts))


def machine_code_by_line(text: str, architecture: str) -> MachineCode | str:
    """Assemble a text and take the result apart.

    Parameters
    ----------
    text : str
        PTX. What its own ``.loc`` lines say does not count: its own lines are meant.
    architecture : str
        Such as ``sm_90``.

    Returns
    -------
    MachineCode or str
        As a string, the reason why there is none.
    """
    try:
        for tool in TOOLS:
            find_tool(tool)
        assembly = assemble(with_own_lines(_PLACE.sub("", text)), architecture, lineinfo=True)
        functions = disassemble(assembly.cubin)
    except MissingExtraError as error:
        return _without_folders(str(error))
    except PtxSyntaxError as error:
        return f"line {error.line}: {error}"
    except AssemblyError as error:
        # lines of faults are those of the text with more lines in it
        messages = dict.fromkeys(message for _, message in error.faults)
        return "; ".join(messages) if messages else _without_folders(str(error))
    lines: dict[int, list[str]] = {}
    for instructions in functions.values():
        for item in instructions:
            if item.file == OWN:
                found = lines.setdefault(item.line, [])
                found += [visible(f"{label}:") for label in item.labels]
                found.append(visible(f"{item.address:04x}  {item.text}"))
    return MachineCode(
        {line: "\n".join(lines[line]) for line in sorted(lines)},
        sum(map(len, functions.values())),
        assembly.toolchain,
    )


def _without_folders(message: str) -> str:
    """Call programs by their names: a page says nothing of the machine that made it."""
    return re.sub(r"(?:[A-Za-z]:)?[/\\]\S*?([\w.-]+)(?=[\s:;,]|$)", r"\1", message)
