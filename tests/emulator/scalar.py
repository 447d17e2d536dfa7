"""A reference for control flow: one thread at a time, in Python integers.

A program is a list of labels and instructions for each function; `Interpreter` runs it. Threads are
generators that stop where they exchange values with their warp or their block; an exchange takes place once
every thread that takes part, and that has not ended, has come to it.

A call of a function is a new frame, so that a place is the path of calls to it.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Generator, Mapping, Sequence
from typing import Final, NamedTuple

WARP: Final = 32
LOCAL_WORDS: Final = 8
TABLE: Final = [(index * 0x9E3779B1 + 0x7F4A7C15) % (1 << 32) for index in range(16)]
"""What `ldt` reads: a module variable."""


class Instruction(NamedTuple):
    """An instruction: its guard as written (``@%p0``, or empty), result and sources."""

    opcode: str
    result: str | None = None
    sources: tuple[str | int, ...] = ()
    guard: str = ""


class Function(NamedTuple):
    """A function: its parameters and its result are registers, or lie in memory (``.param``)."""

    name: str
    parameters: tuple[str, ...]
    result: str
    body: Sequence[str | Instruction]
    in_memory: bool = False


class Exchange(NamedTuple):
    """What a thread waits for: the place (in which call), the lanes that its mask names, and what it gives.

    Without a mask it waits for all of its block.
    """

    opcode: str
    place: tuple[int, ...]
    mask: int | None
    values: tuple[int, ...]


class Ended(Exception):
    """A thread has ended inside a function."""


Registers = dict[str, int]
Thread = Generator[Exchange, int, None]


def unsigned(value: int, bits: int = 32) -> int:
    return value % (1 << bits)


def signed(value: int, bits: int = 32) -> int:
    value %= 1 << bits
    return value - (1 << bits) if value >> (bits - 1) else value


def _shift_right(a: int, count: int) -> int:
    return a >> min(count, WARP)


COMPUTE: Final[dict[str, Callable[..., int]]] = {
    "mov.u32": lambda a: a,
    "add.u32": operator.add,
    "add.s32": operator.add,
    "sub.s32": operator.sub,
    "mul.lo.u32": operator.mul,
    "mul.hi.u32": lambda a, b: a * b >> 32,
    "mul.hi.s32": lambda a, b: signed(a) * signed(b) >> 32,
    "mad.lo.s32": lambda a, b, c: a * b + c,
    "and.b32": operator.and_,
    "or.b32": operator.or_,
    "xor.b32": operator.xor,
    "not.b32": operator.invert,
    "neg.s32": operator.neg,
    "abs.s32": lambda a: abs(signed(a)),
    "shl.b32": lambda a, count: a << min(count, WARP),
    "shr.u32": _shift_right,
    "shr.s32": lambda a, count: _shift_right(signed(a), count),
    "min.u32": min,
    "max.u32": max,
    "min.s32": lambda a, b: min(signed(a), signed(b)),
    "max.s32": lambda a, b: max(signed(a), signed(b)),
    "popc.b32": lambda a: a.bit_count(),
    "clz.b32": lambda a: 32 - a.bit_length(),
    "brev.b32": lambda a: int(f"{a:032b}"[::-1], 2),
    "sad.u32": lambda a, b, c: c + abs(a - b),
    "selp.b32": lambda a, b, p: a if p else b,
    "setp.lt.u32": lambda a, b: int(a < b),
    "setp.ge.s32": lambda a, b: int(signed(a) >= signed(b)),
    "setp.ne.s32": lambda a, b: int(a != b),
    "and.pred": operator.and_,
    "xor.pred": operator.xor,
    "not.pred": lambda p: 1 - p,
}
"""Results of registers; whatever does not fit 32 bits is cut."""


def meet(opcode: str, lanes: Mapping[int, tuple[int, ...]], lane: int) -> int:
    """Return what one lane gets from an exchange of the values that lanes give."""
    first = {number: values[0] for number, values in lanes.items()}
    mode = opcode.split(".")
    if mode[0] == "vote":
        yes = sum(1 << number for number, value in first.items() if value)
        every = sum(1 << number for number in first)
        return {"ballot": yes, "all": int(yes == every), "any": int(yes != 0), "uni": int(yes in (0, every))}[
            mode[2]
        ]
    if mode[0] == "match":
        same = sum(1 << number for number, value in first.items() if value == first[lane])
        every = sum(1 << number for number in first)
        return same if mode[1] == "any" else every * (same == every)
    if mode[0] == "redux":
        values = [signed(value) if mode[3] == "s32" else value for value in first.values()]
        total = values[0]
        for value in values[1:]:
            total = _REDUX[mode[2]](total, value)
        return total
    source, _ = shuffle_source(mode[2], lane, lanes[lane][1], lanes[lane][2])
    return first[source]


_REDUX: Final[dict[str, Callable[[int, int], int]]] = {
    "add": operator.add,
    "min": min,
    "max": max,
    "and": operator.and_,
    "or": operator.or_,
    "xor": operator.xor,
}


def shuffle_source(mode: str, lane: int, b: int, c: int) -> tuple[int, bool]:
    """Return the lane that a lane reads, and whether it is in range (ISA, "shfl.sync", Semantics)."""
    bval, cval, segmask = b & 31, c & 31, c >> 8 & 31
    max_lane = (lane & segmask) | (cval & ~segmask & 31)
    min_lane = lane & segmask
    j, pval = 0, False
    match mode:
        case "up":
            j = lane - bval
            pval = j >= max_lane
        case "down":
            j = lane + bval
            pval = j <= max_lane
        case "bfly":
            j = lane ^ bval
            pval = j <= max_lane
        case "idx":
            j = min_lane | (bval & ~segmask & 31)
            pval = j <= max_lane
    return (j, True) if pval else (lane, False)


def meet_block(opcode: str, values: dict[int, tuple[int, ...]], shared: list[int]) -> dict[int, int]:
    """Return what each thread gets at a barrier; `swap` writes a word of shared memory and reads one."""
    if opcode == "swap":
        for number, (word, _) in values.items():
            shared[number] = word
        return {number: shared[index % len(shared)] for number, (_, index) in values.items()}
    yes = [given[0] for given in values.values()]
    result = {"popc": sum(yes), "and": int(all(yes)), "or": int(any(yes))}[opcode.split(".")[2]]
    return dict.fromkeys(values, result)


def _members(number: int, waiting: dict[int, Exchange]) -> list[int]:
    """Return the threads that meet with one; none if one of them is still elsewhere."""
    exchange = waiting[number]
    first = number - number % WARP
    members = [
        other
        for other in sorted(waiting)
        if exchange.mask is None or (other - other % WARP == first and exchange.mask >> other % WARP & 1)
    ]
    together = all(waiting[other][:3] == exchange[:3] for other in members)
    return members if together else []


class Interpreter:
    """Runs threads of a program.

    Parameters
    ----------
    functions : dict of str to Function
        Those that can be called, and the kernel by the name of ``k``.
    """

    def __init__(self, functions: dict[str, Function]) -> None:
        self._functions = functions
        self._labels = {
            name: {item: at for at, item in enumerate(function.body) if isinstance(item, str)}
            for name, function in functions.items()
        }

    def block(self, registers: list[Registers], out: list[list[int]]) -> None:
        """Run the threads of a block, of which the registers are given; ``out`` is what each writes."""
        threads = [self._kernel(each, mine) for each, mine in zip(registers, out, strict=True)]
        shared = [0] * len(threads)
        waiting: dict[int, Exchange] = {}
        for number, thread in enumerate(threads):
            self._go_on(number, thread, None, waiting)
        while waiting:
            members = next(members for number in sorted(waiting) if (members := _members(number, waiting)))
            exchange = waiting[members[0]]
            values = {number: waiting.pop(number).values for number in members}
            if exchange.mask is None:
                results = meet_block(exchange.opcode, values, shared)
            else:
                lanes = {number % WARP: given for number, given in values.items()}
                results = {number: meet(exchange.opcode, lanes, number % WARP) for number in members}
            for number in members:
                self._go_on(number, threads[number], results[number], waiting)

    @staticmethod
    def _go_on(number: int, thread: Thread, result: int | None, waiting: dict[int, Exchange]) -> None:
        try:
            waiting[number] = thread.send(result)  # type: ignore[arg-type]  # None begins a generator
        except (StopIteration, Ended):
            waiting.pop(number, None)

    def _kernel(self, registers: Registers, out: list[int]) -> Thread:
        yield from self._run("k", registers, out, ())

    def _run(self, name: str, registers: Registers, out: list[int], calls: tuple[int, ...]) -> Thread:
        body = self._functions[name].body
        local = [0] * LOCAL_WORDS
        at = 0

        def value(source: str | int) -> int:
            return unsigned(source) if isinstance(source, int) else registers[source]

        while at < len(body):
            item = body[at]
            at += 1
            if isinstance(item, str):
                continue
            opcode, result, sources, guard = item
            if guard and bool(registers[guard.lstrip("@!")]) == guard.startswith("@!"):
                continue
            if opcode == "bra":
                at = self._labels[name][str(sources[0])]
                continue
            if opcode == "brx":
                at = self._labels[name][str(sources[1 + value(sources[0])])]
                continue
            if opcode == "ret":
                return
            if opcode == "exit":
                raise Ended
            if opcode == "out":
                out[int(sources[0])] = value(sources[1])
                continue
            if opcode == "stl":
                local[value(sources[0]) % LOCAL_WORDS] = value(sources[1])
                continue
            assert result is not None
            if opcode == "ldl":
                registers[result] = local[value(sources[0]) % LOCAL_WORDS]
            elif opcode == "ldt":
                registers[result] = TABLE[value(sources[0]) % len(TABLE)]
            elif opcode == "call":
                called = self._functions[str(sources[0])]
                inner = dict(zip(called.parameters, (value(each) for each in sources[1:]), strict=True))
                yield from self._run(called.name, inner, out, (*calls, at))
                registers[result] = inner[called.result]
            elif opcode == "swap" or opcode.startswith("bar.red"):
                given = [value(each) for each in sources]
                registers[result] = yield Exchange(opcode, (*calls, at), None, tuple(given))
            elif ".sync" in opcode:
                *given, mask = (value(each) for each in sources)
                registers[result] = unsigned((yield Exchange(opcode, (*calls, at), mask, tuple(given))))
            else:
                registers[result] = unsigned(COMPUTE[opcode](*(value(each) for each in sources)))
