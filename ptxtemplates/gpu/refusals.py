"""What the driver and cuda.core refuse, as `GpuError`: in the driver's words, and in one line."""

from __future__ import annotations

import re
from functools import wraps
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from ptxtemplates.gpu.errors import GpuError

if TYPE_CHECKING:
    from collections.abc import Callable

    Given = ParamSpec("Given")
    Result = TypeVar("Result")


def check(code: Any) -> None:
    """Raise `GpuError` if the driver's result code is an error."""
    if int(code):
        raise _of_driver(code)


def translated(function: Callable[Given, Result]) -> Callable[Given, Result]:
    """Return a function that raises `GpuError` where cuda.core has an error of its own."""

    @wraps(function)
    def called(*arguments: Given.args, **options: Given.kwargs) -> Result:
        try:
            return function(*arguments, **options)
        except Exception as error:
            refusal = refusal_of(error)
            if refusal is None:
                raise
            raise refusal from error

    return called


def refusal_of(error: Exception) -> GpuError | None:
    """Return what an exception of cuda.core means; None for any other, which is a mistake of the caller."""
    # CUDAError has no public name; what cuda.core refuses without asking the driver is a RuntimeError
    if any(kind.__name__ == "CUDAError" for kind in type(error).__mro__):
        from cuda.bindings import driver

        name = str(error).partition(":")[0]
        code = getattr(driver.CUresult, name, None)
        return (
            GpuError(f"the driver says {_sentence(error)}", name=name) if code is None else _of_driver(code)
        )
    return GpuError(f"cuda.core says: {_sentence(error)}") if isinstance(error, RuntimeError) else None


def _of_driver(code: Any) -> GpuError:
    from cuda.bindings import driver

    _, word = driver.cuGetErrorName(code)
    _, text = driver.cuGetErrorString(code)
    name = _text(word)
    return GpuError(f"the driver says {name}: {_text(text)}", name=name)


def _text(said: bytes | None) -> str:
    return (said or b"an error that it has no name for").decode()


def _sentence(error: Exception) -> str:
    """Return the first sentence alone: cuda.core adds a paragraph."""
    return re.split(r"(?<=\.)\s", str(error), maxsplit=1)[0]
