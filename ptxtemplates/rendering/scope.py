"""Which of a kernel's variables a template uses, through the macros that it calls.

Found from the templates' syntax trees, so that a name in a branch not taken counts, and a macro that is never
called does not.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from jinja2 import nodes

from ptxtemplates.errors import TemplateError
from ptxtemplates.rendering.places import Place

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

MAIN: Final = ""
"""Stands for the body of a template outside its macros, where a macro's name is asked for."""


class Body(NamedTuple):
    """The main body of a template, or one macro: what it takes from outside."""

    reads: dict[str, int]
    """Names that it reads, and the line of the first use."""
    attributes: dict[tuple[str, str], int]
    """``name.attribute``, where the name may stand for an imported template, and the line of the first."""


class TemplateScopes(NamedTuple):
    """The bodies of one template by name, and what it imports."""

    name: str
    bodies: dict[str, Body]
    imports: dict[str, tuple[int, str, str]]
    """Local name to (line, template, macro); `MAIN` if the name stands for the whole template."""

    def pack(self) -> tuple[object, ...]:
        """Return the same as plain values."""
        bodies = {name: (body.reads, body.attributes) for name, body in self.bodies.items()}
        return self.name, bodies, self.imports

    @classmethod
    def unpack(cls, packed: Any) -> TemplateScopes:
        """Undo `pack`."""
        name, bodies, imports = packed
        return cls(name, {key: Body(*body) for key, body in bodies.items()}, imports)


def read_scopes(name: str, tree: nodes.Template) -> TemplateScopes:
    """Sort out the bodies of a parsed template."""
    scopes = TemplateScopes(name, {MAIN: Body({}, {})}, {})
    for statement in tree.find_all((nodes.Import, nodes.FromImport, nodes.Include, nodes.Extends)):
        _read_import(scopes, statement)
    macros = [node for node in tree.body if isinstance(node, nodes.Macro)]
    rest = [node for node in tree.body if not isinstance(node, nodes.Macro)]
    bound: set[str] = set()
    _Reader(scopes.bodies[MAIN]).read_all(rest, bound)
    for macro in macros:
        scopes.bodies[macro.name] = Body({}, {})
        _Reader(scopes.bodies[macro.name]).read(macro, set(bound))  # sees what the template itself sets
    return scopes


def _read_import(scopes: TemplateScopes, node: nodes.Node) -> None:
    place = Place(scopes.name, node.lineno)
    if isinstance(node, nodes.Include | nodes.Extends):
        raise TemplateError(f"{place}: include and extends are not supported; import macros instead")
    assert isinstance(node, nodes.Import | nodes.FromImport)
    if not isinstance(node.template, nodes.Const):
        raise TemplateError(f"{place}: an import must name its template literally")
    source = str(node.template.value)
    if isinstance(node, nodes.Import):
        scopes.imports[node.target] = (node.lineno, source, MAIN)
        return
    for imported in node.names:
        macro, local = imported if isinstance(imported, tuple) else (imported, imported)
        scopes.imports[local] = (node.lineno, source, macro)


class _Reader:
    """Collects the names that a body reads and does not bind itself, in Jinja's scoping."""

    def __init__(self, body: Body) -> None:
        self.body = body

    def read_all(self, body: Iterable[nodes.Node], bound: set[str]) -> None:
        for node in body:
            self.read(node, bound)

    def read(self, node: nodes.Node, bound: set[str]) -> None:
        """Visit `node` where the names in `bound` are local; names it assigns are added."""
        match node:
            case nodes.Name(name=name, ctx="load"):
                if name not in bound:
                    self.body.reads.setdefault(name, node.lineno)
            case nodes.Getattr(node=nodes.Name(name=name), attr=attribute) if name not in bound:
                self.body.attributes.setdefault((name, attribute), node.lineno)
            case nodes.For():
                self.read(node.iter, bound)
                inside = bound | _targets(node.target) | {"loop"}
                self.read_all([*([node.test] if node.test else []), *node.body], inside)
                self.read_all(node.else_, set(bound))
            case nodes.If():
                self.read(node.test, bound)
                branches = [node.body, *([branch.test, *branch.body] for branch in node.elif_), node.else_]
                set_in = [set(bound) for _ in branches]
                for branch, inside in zip(branches, set_in, strict=True):
                    self.read_all(branch, inside)
                bound |= set.intersection(*set_in)  # what every branch sets
            case nodes.Macro() | nodes.CallBlock():
                if isinstance(node, nodes.CallBlock):
                    self.read(node.call, bound)
                else:
                    bound.add(node.name)
                inside = bound | {argument.name for argument in node.args}
                self.read_all(node.defaults, set(inside))
                self.read_all(node.body, inside | {"varargs", "kwargs", "caller"})
            case nodes.With():
                self.read_all(node.values, bound)
                self.read_all(node.body, bound.union(*(_targets(target) for target in node.targets)))
            case nodes.Assign():
                self.read(node.node, bound)
                bound |= _targets(node.target)
            case nodes.AssignBlock():
                self.read_all(node.body, set(bound))
                bound |= _targets(node.target)
            case _:
                self.read_all(node.iter_child_nodes(), bound)


def _targets(node: nodes.Node) -> set[str]:
    return {name.name for name in (node, *node.find_all(nodes.Name)) if isinstance(name, nodes.Name)}


def names_used(
    template: str, scopes_of: Callable[[str, Place | None], TemplateScopes]
) -> tuple[dict[str, Place], tuple[str, ...]]:
    """Follow the macros that `template` calls.

    Parameters
    ----------
    template : str
        Name of a template.
    scopes_of : callable
        Gives the scopes of a template by name; the place is that of the import that asks for it.

    Returns
    -------
    dict of str to Place
        Every name that is read on the way and that no template defines, and where first.
    tuple of str
        Every template that is read on the way, sorted.
    """
    found: dict[str, Place] = {}
    loaded = {template: scopes_of(template, None)}
    pending = [(template, MAIN)]
    done = set()
    while pending:
        current = pending.pop()
        if current in done:
            continue
        done.add(current)
        scopes = loaded[current[0]]
        for line, source, _ in scopes.imports.values():
            if source not in loaded:
                loaded[source] = scopes_of(source, Place(current[0], line))
                pending.append((source, MAIN))
        # a macro that does not exist is reported by StrictUndefined, at the call
        body = scopes.bodies.get(current[1], Body({}, {}))
        for (name, attribute), line in body.attributes.items():
            if name in scopes.imports:
                pending.append((scopes.imports[name][1], attribute))
            else:
                _follow(name, Place(current[0], line), scopes, pending, found)
        for name, line in body.reads.items():
            if (
                name in scopes.imports and scopes.imports[name][2] == MAIN
            ):  # handed on whole: any macro may run
                source = scopes.imports[name][1]
                pending += [(source, macro) for macro in loaded[source].bodies]
            else:
                _follow(name, Place(current[0], line), scopes, pending, found)
    return found, tuple(sorted(loaded))


def _follow(
    name: str,
    place: Place,
    scopes: TemplateScopes,
    pending: list[tuple[str, str]],
    found: dict[str, Place],
) -> None:
    """Sort out a name that a body reads: an imported macro, a macro of the template, or a variable."""
    if name in scopes.imports:
        pending.append(scopes.imports[name][1:])
    elif name in scopes.bodies:
        pending.append((scopes.name, name))
    else:
        found.setdefault(name, place)
