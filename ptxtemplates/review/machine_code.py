"""Whether two texts become the same machine code: a cubin without what no GPU executes.

Everything that the assembler writes counts, unless it is known to be a name or a note: code, constant banks,
tables, the sizes of memories, what the driver is told of registers, parameters and the block. What is not
known stays in. So two cubins may be told apart needlessly, but never be taken for the same wrongly.

Sections go by their names and contents; a symbol is the place in a section that it names, so that renaming a
table changes nothing. Code, constants and shared memory of other entries of the module are left out, unless
something that counts refers to them.
"""

from __future__ import annotations

import io
import struct
from typing import TYPE_CHECKING, Any, Final

from ptxtemplates.errors import AssemblyError, MissingExtraError
from ptxtemplates.review.assembling import Refusal, assembled, entry_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_NAMES: Final = (".shstrtab", ".strtab", ".symtab")
_NOTES: Final = (".note", ".debug", ".nv_debug", ".nv.merc.", ".nv.capmerc.")
"""How sections begin that are not executed. The last two are what a driver would translate for architectures
other than the one that was assembled for."""

_CODE: Final = ".text."
_INFO: Final = ".nv.info"
_RELOCATIONS: Final = ("SHT_REL", "SHT_RELA")
_EMPTY: Final = "SHT_NOBITS"
_OF_CODE: Final = 0x40
"""Flag of a section that belongs to the one its ``sh_info`` names."""

_REGISTERS: Final = 24
"""Before sm_90, bits of ``sh_info`` of code from here on hold its registers; the lower ones are a symbol."""

_SIZED: Final = 4
"""Format of an attribute with a size and that many bytes; the others have two bytes in place of a size."""

_OF_SYMBOL: Final = frozenset({0x0A, 0x11, 0x12, 0x23, 0x2F})
"""Attributes that begin with a symbol: parameters, frame, smallest and largest stack, registers."""


def machine_code(text: str, entry: str, architecture: str) -> bytes | str:
    """Return what a GPU executes of an entry.

    Parameters
    ----------
    text : str
        PTX.
    entry : str
        Its name; empty for the only one. The name itself does not count.
    architecture : str
        Such as ``sm_90``.

    Returns
    -------
    bytes or str
        Bytes that are equal for two texts only if code, constants, tables and resources are; or as a string
        the reason why there are none.
    """
    named = entry_of(text, entry)
    if isinstance(named, Refusal):
        return named.reason
    assembly = assembled(text, architecture)
    if isinstance(assembly, Refusal):
        return assembly.reason
    if named not in assembly.resources:
        return f"has no entry {named}"
    try:
        return code_of(assembly.cubin, named, assembly.resources)
    except (AssemblyError, MissingExtraError) as error:
        return str(error)


def code_of(cubin: bytes, entry: str, entries: Iterable[str]) -> bytes:
    """Return what is executed of an entry of a cubin, as `machine_code` does.

    Parameters
    ----------
    cubin : bytes
        An ELF file of the assembler.
    entry : str
        Its name.
    entries : iterable of str
        All entries of the cubin.

    Raises
    ------
    AssemblyError
        If the bytes are no cubin.
    MissingExtraError
        If pyelftools is not installed.
    """
    try:
        from elftools.common.exceptions import ELFError
        from elftools.elf.elffile import ELFFile
    except ImportError as error:
        raise MissingExtraError(
            "reading cubins needs pyelftools, which is not installed: pip install 'ptxtemplates[cuda]'"
        ) from error
    try:
        return _Cubin(ELFFile(io.BytesIO(cubin)), entry, {*entries} - {entry}).written()
    except (ELFError, struct.error) as error:
        raise AssemblyError(f"this is no cubin: {error}") from error


class _Cubin:
    """Sections and symbols of a cubin as they are seen from one entry."""

    def __init__(self, file: Any, entry: str, others: set[str]) -> None:
        self._file = file
        self._entry = entry
        self._sections = list(file.iter_sections())
        self._symbols = list(file.get_section_by_name(".symtab").iter_symbols())
        counting = [
            number
            for number, section in enumerate(self._sections)
            if section.name and section.name not in _NAMES and not section.name.startswith(_NOTES)
        ]
        # relocations go where what they change goes
        counting = [
            number for number in counting if not self._relocates(number) or self._info(number) in counting
        ]
        own = [number for number in counting if self._owner(number) not in others]
        reached = {symbol["st_shndx"] for number in own for symbol in self._referred(number)}
        kept = own if reached.isdisjoint({*counting} - {*own}) else counting
        self._left_out = {*counting} - {*kept}
        self._names = {number: self._name(number) for number in kept}
        # in an order of ours: other entries change that of the file
        ordered = sorted(kept, key=lambda number: (self._names[number], number))
        self._places = {number: place for place, number in enumerate(ordered)}

    def written(self) -> bytes:
        """Return all that counts, each part with its length before it."""
        header = self._file.header
        starts = [
            self._place(number) for number, symbol in enumerate(self._symbols) if symbol.name == self._entry
        ]
        fields = (header["e_machine"], header["e_flags"], [*header["e_ident"].items()], starts)
        parts = [
            repr(fields).encode(),
            *(part for number in self._places for part in self._parts(number)),
        ]
        return b"".join(len(part).to_bytes(8, "little") + part for part in parts)

    def _name(self, number: int) -> str:
        """Return the name of a section, without that of the entry."""
        name = str(self._sections[number].name)
        return name.removesuffix(self._entry) if self._owner(number) == self._entry else name

    def _parts(self, number: int) -> Iterator[bytes]:
        section = self._sections[number]
        name = self._names[number]
        relates: Any = 0
        if self._relocates(number):
            relates = self._places[self._info(number)]
        elif name.startswith(_CODE):
            relates = section["sh_info"] >> _REGISTERS
        size = None if name.startswith(_INFO) else section["sh_size"]  # that has its sizes in it
        fields = ("sh_type", "sh_flags", "sh_addralign", "sh_entsize")
        yield repr((name, relates, size, *(section[field] for field in fields))).encode()
        if self._relocates(number):
            yield from (self._relocation(each) for each in section.iter_relocations())
        elif name.startswith(_INFO):
            yield from self._attributes(section.data())
        elif section["sh_type"] != _EMPTY:
            yield section.data()

    def _relocation(self, each: Any) -> bytes:
        added = each["r_addend"] if each.is_RELA() else None
        place = self._place(each["r_info_sym"])
        return repr((each["r_offset"], each["r_info_type"], place, added)).encode()

    def _place(self, number: int) -> tuple[object, ...]:
        """Return what a symbol names: its name counts only where others may see it."""
        symbol = self._symbols[number]
        info, section = symbol["st_info"], symbol["st_shndx"]
        seen = info["bind"] != "STB_LOCAL" and symbol.name != self._entry
        place = self._places.get(section, str(section))
        extent = (symbol["st_value"], symbol["st_size"])
        return place, *extent, info["type"], [*symbol["st_other"].items()], symbol.name if seen else ""

    def _attributes(self, content: bytes) -> Iterator[bytes]:
        """Yield what the driver is told, with symbols as places and without those of other entries."""
        at = 0
        while at < len(content):
            form, attribute, size = struct.unpack_from("<BBH", content, at)
            end = at + 4 + (size if form == _SIZED else 0)
            if end > len(content):
                raise AssemblyError(f"this is no cubin: an attribute {attribute:#x} is cut off")
            if form == _SIZED and attribute in _OF_SYMBOL:
                (number,) = struct.unpack_from("<I", content, at + 4)
                if number >= len(self._symbols):
                    raise AssemblyError(f"this is no cubin: attribute {attribute:#x} has no symbol {number}")
                if self._symbols[number]["st_shndx"] not in self._left_out:
                    yield content[at : at + 4] + content[at + 8 : end] + repr(self._place(number)).encode()
            else:
                yield content[at:end]
            at = end

    def _referred(self, number: int) -> Iterator[Any]:
        if self._relocates(number):
            for each in self._sections[number].iter_relocations():
                yield self._symbols[each["r_info_sym"]]

    def _owner(self, number: int) -> str:
        """Return the function that a section belongs to; empty for those of the module."""
        for _ in range(3):  # relocations of constants of code
            section = self._sections[number]
            if section.name.startswith(_CODE):
                return str(section.name.removeprefix(_CODE))
            if not self._relocates(number) and not section["sh_flags"] & _OF_CODE:
                break
            number = self._info(number)
        return ""

    def _relocates(self, number: int) -> bool:
        return self._sections[number]["sh_type"] in _RELOCATIONS

    def _info(self, number: int) -> int:
        return int(self._sections[number]["sh_info"])
