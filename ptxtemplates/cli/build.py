"""``ptxtemplates build``."""

from __future__ import annotations

import json
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import click

from ptxtemplates.artifacts import build, check
from ptxtemplates.beside import stale_files, write_files
from ptxtemplates.cli.parameters import config_option, json_option
from ptxtemplates.cli.progress import with_progress
from ptxtemplates.config import load, select
from ptxtemplates.manifest import MANIFEST, parse_manifest, texts_of
from ptxtemplates.products import Making, outputs_of
from ptxtemplates.sources import BUILT_IN_TEMPLATES
from ptxtemplates.stamp import PRIVATE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from ptxtemplates.artifacts import BuildPlan
    from ptxtemplates.kernel import Kernel

F = TypeVar("F", bound="Callable[..., Any]")


class Beside(NamedTuple):
    """Files for the program that uses the kernels, outside of the build directory."""

    header: Path | None
    rust: Path | None
    embed: bool
    depfile: Path | None

    @property
    def stamp(self) -> Path | None:
        """The target of the depfile: a file that is as new as the last build."""
        if self.depfile is None or not self.depfile.name:
            return None
        return self.depfile.with_suffix(".stamp")

    @staticmethod
    def dependencies(config: Path, kernels: list[Kernel], entries: list[dict[str, Any]]) -> list[Path]:
        """Every file that a build reads."""
        from ptxtemplates.bindings.depfile import dependencies_of

        return dependencies_of(config, kernels, entries)

    @property
    def outputs(self) -> list[Path]:
        """Every file."""
        return [path for path in (self.header, self.rust, self.depfile, self.stamp) if path is not None]


def path_option(*names: str, help: str, **attributes: Any) -> Callable[[F], F]:
    """Return an option that takes a path."""
    return click.option(*names, type=click.Path(path_type=Path), help=help, **attributes)


@click.command("build")
@config_option
@path_option("--out", default=Path("build"), show_default=True, help="Directory to build into.")
@click.option(
    "--kernel", "pattern", metavar="GLOB", help="Only variants or kernels of this name; * and ? are wild."
)
@click.option(
    "--arch", "architectures", multiple=True, metavar="ARCH", help="Assemble for sm_90, say; may be repeated."
)
@click.option("--fatbin", is_flag=True, help="Put PTX and cubins of a variant into one file too.")
@path_option("--header", help="C and C++ header to write: entries, launch geometry, parameter structs.")
@path_option("--rust", help="Rust module to write: the same.")
@click.option("--embed", is_flag=True, help="Put the PTX into the header and the module.")
@path_option(
    "--depfile",
    help="Dependencies to write, for Make and Ninja; their target is FILE with the ending .stamp.",
)
@click.option("--print-outputs", is_flag=True, help="Print every file that a build writes, and write none.")
@click.option(
    "--check", "only_check", is_flag=True, help="Write nothing; name what is stale and exit with 1."
)
@json_option
def command(
    config: Path,
    out: Path,
    pattern: str | None,
    architectures: tuple[str, ...],
    fatbin: bool,
    header: Path | None,
    rust: Path | None,
    embed: bool,
    depfile: Path | None,
    print_outputs: bool,
    only_check: bool,
    as_json: bool,
) -> int:
    """Render every listed kernel into a build directory, with a manifest.

    Files that would not change are not touched; files of earlier builds that are no longer listed go.
    """
    beside = Beside(header, rust, embed, depfile)
    if pattern is not None and beside.outputs:
        raise click.UsageError(
            "--header, --rust and --depfile are for the whole list, --kernel for a part of it"
        )
    if embed and not (header or rust):
        raise click.UsageError("--embed puts the PTX into --header or --rust: give one of them")
    if print_outputs and (only_check or as_json):
        raise click.UsageError("--print-outputs prints paths and does nothing else: no --check, no --json")
    kernels = load(config)
    if pattern is not None:
        kernels = select(kernels, pattern)
    making = Making(tuple(dict.fromkeys(architectures)), fatbin)
    _refuse_collisions(beside, config, kernels, out, making)
    if print_outputs:
        paths = [out / path for path in [*outputs_of(kernels, making), MANIFEST]]
        for path in [*paths, *beside.outputs]:
            click.echo(path)
        return 0
    run = check if only_check else build
    plan = run(kernels, out, pattern=pattern, making=making, progress=with_progress("rendering"))
    files = _files_beside(beside, plan, out)
    if beside.depfile is not None and beside.stamp is not None:
        from ptxtemplates.bindings.depfile import depfile as text_of

        files[beside.depfile] = text_of(
            beside.stamp, beside.dependencies(config, kernels, _entries(plan, out))
        )
    stamps = {beside.stamp: ""} if beside.stamp is not None else {}
    if only_check:
        files |= stamps
        reasons = _reasons(plan, out) | stale_files(files)
        current = [path for path in [*_paths(plan.unchanged, out), *map(str, files)] if path not in reasons]
        if as_json:
            report = {"out": out.as_posix(), "stale": reasons, "unchanged": current}
            click.echo(json.dumps(report, indent=2, sort_keys=True))
        else:
            _print_check(reasons, len(current), out)
        return 1 if reasons else 0
    written = write_files(files)
    kept = [path for path in map(str, files) if path not in written]
    write_files(stamps, touch=True)
    lists = {
        "written": _paths(plan.written, out) + written,
        "unchanged": _paths(plan.unchanged, out) + kept,
        "removed": _paths(plan.dropped, out),
    }
    if as_json:
        click.echo(json.dumps({"out": out.as_posix(), **lists}, indent=2, sort_keys=True))
    else:
        _print_report(len(kernels), **lists)
    return 0


def _paths(paths: Iterable[str], out: Path) -> list[str]:
    return [str(out / path) for path in paths]


def _refuse_collisions(
    beside: Beside, config: Path, kernels: list[Kernel], out: Path, making: Making
) -> None:
    """Refuse outputs that would overwrite what a build reads, writes elsewhere, or did not write."""
    outputs = [path.resolve() for path in beside.outputs]
    folders = {
        folder.resolve() for kernel in kernels for folder in (kernel.template_folder, BUILT_IN_TEMPLATES)
    }
    taken = {config.resolve(): "the list of variants", (out / MANIFEST).resolve(): "the manifest"}
    taken |= {(out / path).resolve(): "a file of the build" for path in outputs_of(kernels, making)}
    for kernel in kernels:
        module = sys.modules.get(type(kernel).__module__)
        if module is not None and module.__file__ is not None:
            taken[Path(module.__file__).resolve()] = "the code of a kernel"
    for index, path in enumerate(outputs):
        shown = beside.outputs[index]
        if path in outputs[:index]:
            raise click.UsageError(f"{shown} is to be written twice: give each output a name of its own")
        if path in taken:
            raise click.UsageError(f"{shown} is {taken[path]}: give another file to write")
        if (out / PRIVATE).resolve() in path.parents or folders & {*path.parents}:
            raise click.UsageError(
                f"{shown} lies among the templates, or a build's own files: give another file"
            )
        if path.is_dir() or not shown.name:
            raise click.UsageError(f"{shown} is a directory: give a file to write")
    stamp = beside.stamp
    if stamp is not None and stamp.exists() and stamp.stat().st_size:
        raise click.UsageError(
            f"{stamp}, the depfile's stamp, exists and is no stamp: name the depfile otherwise"
        )
    if beside.depfile is not None and stamp is not None:
        from ptxtemplates.bindings.depfile import depfile as text_of

        text_of(stamp, [])  # a name that Make or Ninja would misread is refused before anything is built


def _entries(plan: BuildPlan, out: Path) -> list[dict[str, Any]]:
    return parse_manifest(out / MANIFEST, plan.contents[MANIFEST])


def _files_beside(beside: Beside, plan: BuildPlan, out: Path) -> dict[Path, str]:
    """Return the header and the module that are asked for."""
    files = {}
    entries = _entries(plan, out) if beside.header or beside.rust else []
    texts = texts_of(entries, plan.contents) if beside.embed else None
    if beside.header is not None:
        from ptxtemplates.bindings.c import c_header

        files[beside.header] = c_header(entries, texts)
    if beside.rust is not None:
        from ptxtemplates.bindings.rust import rust_module

        files[beside.rust] = rust_module(entries, texts)
    return files


def _print_report(kernels: int, written: list[str], unchanged: list[str], removed: list[str]) -> None:
    for path in written:
        click.echo(f"wrote {path}")
    for path in removed:
        click.echo(f"removed {path}")
    click.echo(
        f"kernels: {kernels}; files: {len(written)} written, {len(unchanged)} unchanged, "
        f"{len(removed)} removed"
    )


def _reasons(plan: BuildPlan, out: Path) -> dict[str, str]:
    """Say of each file of the build directory that is not as it should be, what is wrong with it."""
    return {
        **{str(out / path): "missing" for path in plan.missing},
        **{str(out / path): _difference(out / path, plan.contents[path]) for path in plan.differing},
        **{str(out / path): "no longer listed" for path in plan.dropped},
    }


def _difference(file: Path, wanted: bytes) -> str:
    if file.exists() and file.read_bytes().replace(b"\r\n", b"\n") == wanted:
        return "differs in line ends only (with Git: '* text eol=lf' in a .gitattributes beside it)"
    return "differs from what would be built"


def _print_check(reasons: dict[str, str], current: int, out: Path) -> None:
    for path, reason in sorted(reasons.items()):
        click.echo(f"{path}: {reason}")
    if not reasons:
        click.echo(f"{out} is current: {current} files")
        return
    words = [word for word in click.get_current_context().meta["ptxtemplates.words"] if word != "--check"]
    click.echo(f"to mend it: {shlex.join(['ptxtemplates', *words])}")
