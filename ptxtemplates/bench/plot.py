"""Times as a figure: for each subject, the time of a call against rows, and the least that it can be."""

from __future__ import annotations

import importlib.util
import io
import itertools
import os
import textwrap
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from ptxtemplates.bench.contender import EMPTY, OURS
from ptxtemplates.errors import MissingExtraError, PtxTemplatesError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    Values = Mapping[str, Any]

FORMATS: Final = {".pdf": "pdf", ".png": "png", ".svg": "svg"}
"""By a file's suffix."""

_UNDATED: Final[dict[str, dict[str, None]]] = {
    "pdf": {"CreationDate": None},
    "png": {},
    "svg": {"Date": None},
}
"""What is left out of the files, so that one report always gives the same bytes."""

_LIMIT: Final = "limit: bytes of ptxtemplates at the rate of a copy"
_NEUTRAL: Final = "0.35"

_COLUMNS: Final = 3
_LEGEND_COLUMNS: Final = (2, 3, 5)
"""By the number of columns of panels."""

_PANEL_INCHES: Final = (4.4, 3.4)
_TITLE_WIDTH: Final = 46
_DOTS_PER_INCH: Final = 150

_STYLE: Final[dict[Any, Any]] = {
    "axes.edgecolor": _NEUTRAL,
    "axes.grid": True,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.titlesize": 9,
    "axes.labelsize": 9,
    "font.family": ["DejaVu Sans", "sans-serif"],
    "font.size": 9,
    "grid.color": "0.9",
    "legend.frameon": False,
    "svg.fonttype": "none",
    "svg.hashsalt": "ptxtemplates",
}


class PlotError(PtxTemplatesError):
    """A figure cannot be written where it should be, or not in that format."""


class _Look(NamedTuple):
    """How a contender is drawn."""

    colour: str
    marker: str


_LOOKS: Final = {
    OURS: _Look("#D55E00", "o"),
    "PyTorch eager": _Look("#56B4E9", "v"),
    "PyTorch compiled": _Look("#0072B2", "^"),
    "Triton": _Look("#009E73", "s"),
    "FlashInfer": _Look("#CC79A7", "D"),
    "vLLM": _Look("#E69F00", "P"),
}
"""The colours of Okabe and Ito, which people who see red and green as one tell apart; markers for print."""

_OTHER: Final = _Look("#000000", "X")


def check(file: Path) -> None:
    """Raise if no figure can be written to a file: before minutes are spent on measuring.

    Raises
    ------
    PlotError
        If its suffix names no format, or its folder is not there.
    MissingExtraError
        If matplotlib is not installed.
    """
    if file.suffix.lower() not in FORMATS:
        raise PlotError(f"{file}: a figure is written as .pdf, .png or .svg, which the suffix decides")
    if file.is_dir():
        raise PlotError(f"{file} is a directory: name a file in it")
    if not file.parent.is_dir():
        raise PlotError(f"{file}: there is no directory {file.parent}")
    if importlib.util.find_spec("matplotlib") is None:
        raise MissingExtraError("a figure needs matplotlib: pip install 'ptxtemplates[plot]'")


def save(report: Values, file: Path) -> None:
    """Write a figure of a report.

    One panel a subject, with logarithmic axes; bars reach from the first to the third quartile. Contenders
    that compute with other elements than ours say so, and move other numbers of bytes than the limit's.

    Parameters
    ----------
    report : mapping
        As ptxtemplates/schemas/bench-1.json describes it, with at least one measurement.
    file : Path
        Its suffix decides the format: one of `FORMATS`.

    Raises
    ------
    PlotError
        If the file cannot be written, or its suffix names no format.
    MissingExtraError
        If matplotlib is not installed.
    """
    check(file)
    from matplotlib import rc_context

    form = FORMATS[file.suffix.lower()]
    written = io.BytesIO()
    with rc_context(_STYLE):
        figure = _drawn(report)
        figure.savefig(written, format=form, dpi=_DOTS_PER_INCH, metadata=_UNDATED[form])
    whole = file.resolve()  # through a link, not in its place
    part = whole.with_name(f".ptxtemplates-{os.getpid()}.part")
    try:
        part.write_bytes(written.getvalue())
        part.replace(whole)
    except OSError as error:
        raise PlotError(f"{file} cannot be written: {error.strerror}") from error
    finally:  # an interrupt too leaves the figure that was there before
        part.unlink(missing_ok=True)


def _drawn(report: Values) -> Figure:
    from matplotlib.figure import Figure

    by_key: dict[Any, list[Values]] = {}
    for values in report["measurements"]:
        by_key.setdefault(_key(values), []).append(values)
    panels = [*by_key.values()]
    # four stand better in a square
    columns = 2 if len(panels) == 4 else min(_COLUMNS, len(panels))
    lines = -(-len(panels) // columns)
    width, height = _PANEL_INCHES
    figure = Figure(figsize=(columns * width, lines * height + 1.0), layout="constrained")
    shown: dict[str, Any] = {}
    grid = figure.subplots(lines, columns, squeeze=False)
    for axes, panel in itertools.zip_longest(grid.flat, panels):
        if panel is None:
            axes.set_axis_off()
        else:
            _draw(axes, panel, shown)
    device = report["device"]
    title = f"{device['name']} ({device['architecture']}), ptxtemplates {report['version']}: time of a call"
    figure.suptitle(textwrap.fill(title, _TITLE_WIDTH * columns), size=11)
    order = sorted(shown, key=lambda name: (name in (_LIMIT, EMPTY), _rank(name)))
    figure.legend(
        [shown[name] for name in order],
        order,
        loc="outside lower center",
        ncols=_LEGEND_COLUMNS[columns - 1],
    )
    return figure


def _key(values: Values) -> tuple[str, str, tuple[tuple[str, int], ...]]:
    """Return what a panel has in common: the subject, the name of its axis, and the other sizes."""
    axis = _axis(values)
    return (
        values["subject"],
        axis,
        tuple((name, value) for name, value in values["sizes"].items() if name != axis),
    )


def _axis(values: Values) -> str:
    """Return the size along which times are drawn: rows where there are any, else the first one there is."""
    sizes = values["sizes"]
    return "rows" if "rows" in sizes else next(iter(sizes), "")


def _draw(axes: Axes, panel: Sequence[Values], shown: dict[str, Any]) -> None:
    """Draw a subject; add to `shown` what the legend must explain."""
    subject, axis, others = _key(panel[0])
    own_element = next((values["element"] for values in panel if values["contender"] == OURS), "")
    ours: list[tuple[int, float]] = []
    by_name: dict[str, list[Values]] = {}
    for values in panel:
        by_name.setdefault(_label(values, own_element), []).append(values)
        if values["contender"] == OURS:
            ours.append((_place(values, axis), values["bytes"] * 1e6 / values["copy_bytes_per_s"]))
    for name in sorted(by_name, key=_rank):
        points = sorted(by_name[name], key=lambda values: _place(values, axis))
        hollow = points[0]["element"] not in ("", own_element)
        shown[name] = _line(axes, name, points, axis, hollow=hollow)
    if ours:
        places, limits = zip(*sorted(ours), strict=True)
        [shown[_LIMIT]] = axes.plot(places, limits, color=_NEUTRAL, linestyle="--", marker="_", linewidth=1.2)
    measured = sorted({_place(values, axis) for values in panel})
    axes.set(
        xscale="log",
        yscale="log",
        xlabel=axis,
        ylabel="µs",
        xlim=(measured[0] / 1.5, measured[-1] * 1.5),
        # where the limit is lower than what a launch takes, it says nothing: it leaves the panel there
        ylim=(0.75 * min(values["quartiles_us"][0] for values in panel), None),
        title=_title(subject, others),
    )
    _number(axes, measured)


def _line(axes: Axes, name: str, points: Sequence[Values], axis: str, *, hollow: bool) -> Any:
    """Draw the times of a contender; its markers are hollow if its elements are others than ours."""
    medians = [values["median_us"] for values in points]
    spread = [
        [values["median_us"] - values["quartiles_us"][0] for values in points],
        [values["quartiles_us"][1] - values["median_us"] for values in points],
    ]
    empty = name == EMPTY
    look = _Look(_NEUTRAL, ".") if empty else _LOOKS.get(_base(name), _OTHER)
    return axes.errorbar(
        [_place(values, axis) for values in points],
        medians,
        yerr=spread,
        color=look.colour,
        marker=look.marker,
        markersize=5,
        markerfacecolor="white" if hollow else look.colour,
        linestyle=":" if empty else "-",
        linewidth=2.2 if name == OURS else 1.2,
        capsize=3,
        # ours lies above the others where they meet
        zorder=4 if name == OURS else 3,
    )


def _number(axes: Axes, places: Sequence[int]) -> None:
    """Write plain numbers at both axes: those that were measured, and steps of 1, 2, 5 of time."""
    from matplotlib.ticker import FixedLocator, FuncFormatter, LogLocator, NullFormatter, NullLocator

    axes.xaxis.set_major_locator(FixedLocator(_apart(places)))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(FuncFormatter(lambda place, _: f"{place:,.0f}"))
    low, high = axes.get_ylim()
    axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5) if high < 300 * low else (1,)))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda time, _: f"{time:,g}"))
    axes.yaxis.set_minor_formatter(NullFormatter())


def _apart(places: Sequence[int]) -> list[int]:
    """Leave out places whose numbers would run into the one before."""
    kept: list[int] = []
    least = (places[-1] / places[0]) ** (1 / 9)
    for place in places:
        if not kept or place >= kept[-1] * least:
            kept.append(place)
    return kept


def _place(values: Values, axis: str) -> int:
    place: int = values["sizes"].get(axis, 1)
    return place


def _label(values: Values, own_element: str) -> str:
    """Return a contender's name, and what it computes with if that is not what ours does."""
    name: str = values["contender"]
    element: str = values["element"]
    if element in ("", own_element):
        return name
    return f"{name[:-1]}, {element})" if name.endswith(")") else f"{name} ({element})"


def _base(name: str) -> str:
    """Return a contender's name without what is said of it in parentheses."""
    return name.partition(" (")[0]


def _rank(name: str) -> tuple[int, str]:
    """Return where a contender stands in the order of `_LOOKS`; others come behind, by name."""
    names = [*_LOOKS]
    return (names.index(_base(name)) if _base(name) in names else len(names), name)


def _title(subject: str, others: tuple[tuple[str, int], ...]) -> str:
    parts = [subject, *(f"{name}={value}" for name, value in others)]
    return textwrap.fill(", ".join(parts), _TITLE_WIDTH, break_on_hyphens=False)
