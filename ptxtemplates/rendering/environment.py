"""The Jinja environment that templates are rendered in, and its errors with template and line."""

from __future__ import annotations

import hashlib
import re
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from jinja2.exceptions import TemplateNotFound, TemplateSyntaxError

from ptxtemplates.errors import TemplateError
from ptxtemplates.ptx.literals import float32_bits, float32_literal
from ptxtemplates.rendering import compiled
from ptxtemplates.rendering.places import (
    MarkLines,
    Place,
    PutMarks,
    Traced,
    concatenate,
    indent,
    marks_of,
    without_last_newline,
)
from ptxtemplates.rendering.scope import TemplateScopes, read_scopes
from ptxtemplates.sources import BUILT_IN_TEMPLATES

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, MutableMapping
    from types import CodeType

    from jinja2 import Template


class Filter(NamedTuple):
    """A filter of templates, and what it gives."""

    function: Callable[[Any], str]
    help: str


FILTERS: Final = {
    "f32": Filter(
        lambda value: float32_literal(float32_bits(value)),
        "the float32 nearest to a number, as an exact literal with its decimal value beside it",
    ),
    "f32_bits": Filter(float32_literal, "the same for a float32 that is given by its bits"),
    "u64": Filter(lambda value: f"0x{value:016x}", "an unsigned 64-bit integer in hex"),
    "decimal": Filter(
        lambda value: repr(value).removesuffix(".0"), "a float in the fewest digits that give it back"
    ),
}
"""The filters that templates have beside Jinja's own."""

UNSTABLE_FILTERS: Final = ("random",)
STABLE_GLOBALS: Final = ("range", "dict", "namespace", "joiner", "cycler")

_CONTROL: Final = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")
_VECTOR_AS_TAG: Final = re.compile(r"\{%[-+]?\s*[A-Za-z_$][\w$]*\s*[,}]")


class _Loader(FileSystemLoader):
    """Loads compiled templates, and notes the scopes and the digest of each in its environment."""

    def load(
        self, environment: Environment, name: str, globals: MutableMapping[str, Any] | None = None
    ) -> Template:
        assert isinstance(environment, TemplateEnvironment)
        source, filename, uptodate = self.get_source(environment, name)
        text = source.replace("\r\n", "\n").replace("\r", "\n")
        found = compiled.load(name, filename, text)
        if found is None:
            found = _compile(environment, name, filename, text)
            compiled.store(name, filename, text, *found)
        code, (scopes, runs) = found
        vars(environment).update(marks_of(name, runs))
        environment.scopes[name] = TemplateScopes.unpack(scopes)
        environment.digests[name] = hashlib.sha256(text.encode()).hexdigest()
        return environment.template_class.from_code(environment, code, globals or {}, uptodate)


def _compile(environment: Environment, name: str, filename: str | None, text: str) -> tuple[CodeType, Any]:
    """Return the code of a template, and what belongs to it as plain values: its scopes and marks."""
    if control := _CONTROL.search(text):
        line = text.count("\n", 0, control.start()) + 1
        raise TemplateError(f"{Place(name, line)}: a control character, {control[0]!r}; remove it")
    try:
        tree = environment.parse(text, name)
        scopes = read_scopes(name, tree)
        put = PutMarks(name)
        code = environment.compile(put.visit(tree), name, filename)
    except TemplateSyntaxError as error:
        raise TemplateError(_syntax_message(error, name, text)) from error
    except (SyntaxError, RecursionError, MemoryError) as error:  # nested too deeply for Jinja or Python
        raise TemplateError(f"{Place(name, 1)}: cannot be compiled: {error.args[0]}") from error
    return code, (scopes.pack(), put.runs)


class TemplateEnvironment(Environment):
    """Jinja as templates of PTX need it: strict, marked line by line, the same output everywhere.

    Parameters
    ----------
    *folders : pathlib.Path
        Where templates are looked up, in this order.
    """

    folders: tuple[Path, ...]
    scopes: dict[str, TemplateScopes]
    digests: dict[str, str]
    concat = staticmethod(concatenate)

    def __init__(self, *folders: Path) -> None:
        self.folders = folders
        self.scopes = {}
        self.digests = {}
        super().__init__(
            loader=_Loader([str(folder) for folder in folders]),
            extensions=[MarkLines],
            undefined=StrictUndefined,
            finalize=without_last_newline,
            trim_blocks=True,
            lstrip_blocks=True,
            keep_trailing_newline=True,
            auto_reload=False,
            cache_size=-1,
        )
        self.filters.update({name: entry.function for name, entry in FILTERS.items()}, indent=indent)
        for name in UNSTABLE_FILTERS:
            del self.filters[name]
        self.globals = {name: self.globals[name] for name in STABLE_GLOBALS}

    def scopes_of(self, name: str, place: Place | None, kernel: str) -> TemplateScopes:
        """Load template `name`, asked for by the import at `place` or by `kernel`, and return its scopes."""
        asking = f"{place or kernel}: "
        try:
            self.get_template(name)
        except TemplateNotFound as error:
            raise TemplateError(
                f"{asking}there is no template {error.name!r} in {self._searched()}"
            ) from error
        except UnicodeDecodeError as error:
            raise TemplateError(f"{asking}template {name!r} is not UTF-8: {error}") from error
        except OSError as error:
            raise TemplateError(f"{asking}template {name!r} cannot be read: {error.strerror}") from error
        return self.scopes[name]

    def _searched(self) -> str:
        """Name the folders that templates are looked up in, those below the current one as seen from it."""
        here = Path.cwd()
        folders = [folder for folder in self.folders if folder != BUILT_IN_TEMPLATES]
        shown = [
            str(folder.relative_to(here) if folder.is_relative_to(here) else folder) for folder in folders
        ]
        return ", ".join([*shown, "the built-in folder"])

    def render(self, name: str, variables: Mapping[str, object]) -> Traced:
        """Render a template."""
        try:
            text = self.get_template(name).render(variables)
        except TemplateError:
            raise
        except Exception as error:  # a template can raise anything: whatever it is, it has a place
            place = self._place_of(error) or Place(name, 1)
            kind = "" if type(error).__module__.startswith("jinja2") else f"{type(error).__name__}: "
            raise TemplateError(f"{place}: {kind}{error}") from error
        assert isinstance(text, Traced)  # made by `concatenate`
        return text

    def _place_of(self, error: Exception) -> Place | None:
        """Find the innermost template line that raised `error`: Jinja rewrites tracebacks to show it."""
        files = {template.filename: name for name, template in self._loaded() if template.filename}
        place = None
        frame = error.__traceback__
        while frame is not None:
            file = frame.tb_frame.f_code.co_filename
            if file in files:
                place = Place(files[file], frame.tb_lineno)
            frame = frame.tb_next
        return place

    def _loaded(self) -> list[tuple[str, Any]]:
        return [(name, self.get_template(name)) for name in self.scopes]


def _syntax_message(error: TemplateSyntaxError, name: str, source: str) -> str:
    place = Place(name, error.lineno)
    line = [*source.split("\n"), ""][error.lineno - 1]
    if _VECTOR_AS_TAG.search(line):
        return f"{place}: '{{%' opens a Jinja tag; write a vector list with a space: {{ %even, %odd }}"
    return f"{place}: {error.message}"


@cache
def environment(*folders: Path) -> TemplateEnvironment:
    """Return the environment for these folders; a process reads each template once."""
    return TemplateEnvironment(*folders)
