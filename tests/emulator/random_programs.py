"""Random programs for the reference in `scalar`.

Control flow is structured, so that programs end: branches, loops of at most four rounds, breaks, early
returns, branches to one of several places, calls. Where the threads that run together are known, as an
operand that holds their mask, they exchange values.
"""

from __future__ import annotations

import random
from collections.abc import Iterable
from typing import Final, NamedTuple

from tests.emulator.scalar import COMPUTE, Function, Instruction

SLOTS: Final = 8
"""Words that each thread writes to global memory."""
VALUES: Final = tuple(f"%r{number}" for number in range(6))
PREDICATES: Final = tuple(f"%p{number}" for number in range(3))
EVERYONE: Final = -1
_SOURCES: Final = {"mad.lo.s32": 3, "sad.u32": 3, "selp.b32": 2} | dict.fromkeys(
    ("mov.u32", "not.b32", "neg.s32", "abs.s32", "popc.b32", "clz.b32", "brev.b32"), 1
)
"""How many numbers an operation takes, unless it takes two."""
_ARITHMETIC: Final = [name for name in COMPUTE if not name.startswith("setp") and not name.endswith("pred")]
_COMPARISONS: Final = [name for name in COMPUTE if name.startswith("setp")]
_EXCHANGES: Final = (
    *(f"vote.sync.{mode}" for mode in ("ballot.b32", "all.pred", "any.pred", "uni.pred")),
    *(f"match.{mode}.sync.b32" for mode in ("any", "all")),
    *(f"redux.sync.{operation}.u32" for operation in ("add", "min", "max")),
    *(f"redux.sync.{operation}.s32" for operation in ("add", "min", "max")),
    *(f"redux.sync.{operation}.b32" for operation in ("and", "or", "xor")),
)
Mask = str | int | None


class Program(NamedTuple):
    """A kernel ``k`` and the functions that it calls."""

    functions: dict[str, Function]


class _Writer:
    """Writes the body of one function."""

    def __init__(self, rng: random.Random, name: str, *, returns: bool, shuffles: bool) -> None:
        self.rng = rng
        self.name = name
        self.returns = returns
        self.shuffles = shuffles
        self.callable: list[Function] = []
        self.body: list[str | Instruction] = []
        self._number = 0

    def new(self, prefix: str) -> str:
        self._number += 1
        return f"{prefix}{self._number}"

    def put(self, opcode: str, result: str | None = None, *sources: str | int, guard: str = "") -> None:
        self.body.append(Instruction(opcode, result, sources, guard))

    def value(self) -> str | int:
        if self.rng.random() < 0.2:
            return self.rng.choice([0, 1, 2, 5, 31, 33, 255, -1, -7, 0x7FFFFFFF, -0x80000000, 0x12345678])
        return self.rng.choice(VALUES)

    def register(self) -> str:
        return self.rng.choice(VALUES)

    def predicate(self) -> str:
        return self.rng.choice(PREDICATES)

    def mixed(self) -> str:
        """Write a number in which threads differ."""
        register = self.new("%n")
        self.put("mad.lo.s32", register, "%id", self.rng.randrange(1, 1 << 31, 2), self.register())
        return register

    def often(self, share: float) -> str:
        """Write a predicate that holds in about a share of the threads."""
        predicate, number = self.new("%q"), self.mixed()
        self.put("setp.lt.u32", predicate, number, int(share * (1 << 32)))
        return predicate

    def guard(self) -> str:
        return self.rng.choice(["", "", f"@{self.predicate()}", f"@!{self.predicate()}"])

    # ---- statements

    def block(self, length: int, depth: int, mask: Mask, leave: str | None) -> None:
        """Write statements; `leave` is the label behind the loop that they may break."""
        for _ in range(length):
            names = ["compute"] * 6 + ["compare"] * 3 + ["local", "table", "out", "logic", "call", "call"]
            if mask is not None:
                names += ["exchange"] * 5
            if mask == EVERYONE and self.name == "k":
                names += ["barrier", "swap", "rounds"]
            if depth < 3:
                names += ["branch", "branch", "loop", "choice"]
            if leave is not None:
                names += ["leave"]
            if self.returns:
                names += ["finish"]
            name = self.rng.choice(names)
            getattr(self, f"_{name}")(
                *((depth, mask, leave) if name in ("branch", "loop", "choice", "rounds") else (mask, leave))
            )

    def _compute(self, mask: Mask, leave: str | None) -> None:
        opcode = self.rng.choice(_ARITHMETIC)
        sources = [self.value() for _ in range(_SOURCES.get(opcode, 2))]
        if opcode == "selp.b32":
            sources.append(self.predicate())
        self.put(opcode, self.register(), *sources, guard=self.guard())

    def _compare(self, mask: Mask, leave: str | None) -> None:
        first = self.mixed() if self.rng.random() < 0.5 else self.register()
        self.put(self.rng.choice(_COMPARISONS), self.predicate(), first, self.value(), guard=self.guard())

    def _logic(self, mask: Mask, leave: str | None) -> None:
        opcode = self.rng.choice(["and.pred", "xor.pred", "not.pred"])
        sources = [self.predicate() for _ in range(1 if opcode == "not.pred" else 2)]
        self.put(opcode, self.predicate(), *sources, guard=self.guard())

    def _local(self, mask: Mask, leave: str | None) -> None:
        if self.rng.random() < 0.5:
            self.put("stl", None, self.register(), self.value(), guard=self.guard())
        else:
            self.put("ldl", self.register(), self.register(), guard=self.guard())

    def _table(self, mask: Mask, leave: str | None) -> None:
        self.put("ldt", self.register(), self.register(), guard=self.guard())

    def _out(self, mask: Mask, leave: str | None) -> None:
        if self.name == "k":
            self.put("out", None, self.rng.randrange(SLOTS), self.value(), guard=self.guard())

    def _finish(self, mask: Mask, leave: str | None) -> None:
        # a thread that returned from a function that exchanges would be missed in it: it has not ended
        ends = "exit" if self.name == "g" or self.rng.random() < 0.2 else "ret"
        self.put(ends, guard=f"@{self.often(0.2)}")

    def _leave(self, mask: Mask, leave: str | None) -> None:
        assert leave is not None
        self.put("bra", None, leave, guard=f"@{self.often(0.3)}")

    def _call(self, mask: Mask, leave: str | None) -> None:
        possible = [each for each in self.callable if mask is not None or "%mask" not in each.parameters]
        if not possible:
            return
        function = self.rng.choice(possible)
        exchanges = "%mask" in function.parameters
        sources = [mask if each == "%mask" else self.value() for each in function.parameters]
        guard = "" if exchanges or function.in_memory else self.guard()
        self.put(
            "call",
            self.register(),
            function.name,
            *(each for each in sources if each is not None),
            guard=guard,
        )

    def _exchange(self, mask: Mask, leave: str | None) -> None:
        assert mask is not None
        if self.shuffles and mask == EVERYONE and self.rng.random() < 0.5:
            mode = self.rng.choice(["up", "down", "bfly", "idx"])
            self.put(
                f"shfl.sync.{mode}.b32", self.register(), self.register(), self.value(), self.value(), mask
            )
            return
        opcode = self.rng.choice(_EXCHANGES)
        source = self.predicate() if opcode.startswith("vote") else self.register()
        self.put(opcode, self.predicate() if opcode.endswith("pred") else self.register(), source, mask)

    def _barrier(self, mask: Mask, leave: str | None) -> None:
        operation = self.rng.choice(["popc.u32", "and.pred", "or.pred"])
        result = self.predicate() if operation.endswith("pred") else self.register()
        self.put(f"bar.red.{operation}", result, self.often(0.5))

    def _swap(self, mask: Mask, leave: str | None) -> None:
        self.put("swap", self.register(), self.register(), self.mixed())

    def _rounds(self, depth: int, mask: Mask, leave: str | None) -> None:
        """Write a loop that all threads of a block go round together."""
        count, again, head = self.new("%n"), self.new("%q"), self.new("L")
        self.put("and.b32", count, "%block", 1)
        self.body.append(head)
        self.block(self.rng.randint(1, 4), depth + 1, mask, None)
        self.put("setp.ne.s32", again, count, 0)
        self.put("sub.s32", count, count, 1)
        self.put("bra", None, head, guard=f"@{again}")

    def _agreed(self, predicate: str, mask: Mask) -> Mask:
        """Write what computes the mask of the threads for which a predicate holds."""
        if mask is None or self.rng.random() < 0.3:
            return None
        register = self.new("%m")
        self.put("vote.sync.ballot.b32", register, predicate, mask)
        return register

    def _branch(self, depth: int, mask: Mask, leave: str | None) -> None:
        predicate, opposite = self.often(0.6), self.new("%q")
        self.put("not.pred", opposite, predicate)
        then, otherwise = self._agreed(predicate, mask), self._agreed(opposite, mask)
        other, end = self.new("L"), self.new("L")
        self.put("bra", None, other, guard=f"@!{predicate}")
        self.block(self.rng.randint(1, 4), depth + 1, then, leave)
        if self.rng.random() < 0.5:
            self.put("bra", None, end)
            self.body.append(other)
            self.block(self.rng.randint(1, 4), depth + 1, otherwise, leave)
        else:
            self.body.append(other)
        self.body.append(end)

    def _loop(self, depth: int, mask: Mask, leave: str | None) -> None:
        """Write a loop whose threads know each other until they go on, or one that they may break."""
        count, again = self.new("%n"), self.new("%q")
        head, end = self.new("L"), self.new("L")
        self.put("shr.u32", count, self.mixed(), 30)
        together: Mask = None
        if mask is not None and self.rng.random() < 0.5:
            together = self.new("%m")
            self.put("mov.u32", together, mask)
        self.body.append(head)
        self.block(self.rng.randint(1, 5), depth + 1, together, end if together is None else None)
        self.put("setp.ne.s32", again, count, 0)
        self.put("sub.s32", count, count, 1)
        if together is not None:
            self.put("vote.sync.ballot.b32", str(together), again, together)
        self.put("bra", None, head, guard=f"@{again}")
        self.body.append(end)

    def _choice(self, depth: int, mask: Mask, leave: str | None) -> None:
        index, end = self.new("%n"), self.new("L")
        targets = [self.new("L") for _ in range(4)]
        self.put("shr.u32", index, self.mixed(), 30)
        self.put("brx", None, index, *targets)
        for target in targets:
            self.body.append(target)
            self.block(self.rng.randint(0, 2), depth + 1, None, leave)
            if self.rng.random() < 0.7:
                self.put("bra", None, end)
        self.body.append(end)


def random_program(seed: int, *, full_warps: bool) -> Program:
    """Make a program; without full warps, none that shuffles."""
    rng = random.Random(seed)
    returns = rng.random() < 0.6
    functions: dict[str, Function] = {}
    for name, parameters, in_memory in (
        ("f", ("%r0", "%r1"), False),
        ("g", ("%r1", "%r2", "%mask"), False),
        ("h", ("%r3", "%r0"), True),
    ):
        writer = _Writer(rng, name, returns=returns, shuffles=False)
        writer.callable = [each for each in functions.values() if "%mask" not in each.parameters]
        _set_all(writer, parameters)
        writer.block(5, 2, "%mask" if "%mask" in parameters else None, None)
        functions[name] = Function(name, parameters, "%r4", writer.body, in_memory)
    kernel = _Writer(rng, "k", returns=returns, shuffles=full_warps and not returns)
    kernel.callable = list(functions.values())
    _set_all(kernel, ("%r0", "%r1"))
    kernel.block(14, 0, EVERYONE, None)
    for slot, register in enumerate(VALUES):
        kernel.put("out", None, slot, register)
    functions["k"] = Function("k", ("%r0", "%r1"), "%r0", kernel.body)
    return Program(functions)


def _set_all(writer: _Writer, given: Iterable[str]) -> None:
    given = list(given)
    writer.put("mov.u32", "%id", given[0])
    writer.put("mov.u32", "%block", given[1])
    for register in VALUES:
        if register not in given:
            writer.put("mad.lo.s32", register, "%id", writer.rng.randrange(1, 1 << 31, 2), given[1])
    for predicate in PREDICATES:
        writer.put("setp.lt.u32", predicate, writer.mixed(), 1 << 31)
