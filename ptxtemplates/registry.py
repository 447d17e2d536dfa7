"""Kernels by name. Built-in ones register exactly as a user's own do."""

from __future__ import annotations

import dataclasses
import importlib
from typing import TYPE_CHECKING, Final, TypeVar

from ptxtemplates.declaration import check_class, check_text
from ptxtemplates.errors import DeclarationError, ParameterError, UnknownKernelError, suggestion
from ptxtemplates.kernel import parameters_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from ptxtemplates.kernel import Kernel

K = TypeVar("K", bound="type[Kernel]")

_KERNELS: Final[dict[str, type[Kernel]]] = {}


def register(kernel: K) -> K:
    """Make a kernel class known under its ``name``; usable as a decorator.

    Raises
    ------
    DeclarationError
        If it has no name, or another class has it.
    """
    check_text(kernel, "name")
    known = _KERNELS.setdefault(kernel.name, kernel)
    if known is not kernel:
        raise DeclarationError(
            f"{kernel.__name__}.name: two kernels are named {kernel.name!r}, in {known.__module__} and "
            f"{kernel.__module__}; choose another name"
        )
    return kernel


def registered() -> dict[str, type[Kernel]]:
    """Return every registered kernel class by name, sorted.

    Raises
    ------
    DeclarationError
        If one of them says something impossible.
    """
    importlib.import_module("ptxtemplates.kernels")  # here, not above: that package imports this file
    for kernel in _KERNELS.values():
        check_class(kernel)
    return dict(sorted(_KERNELS.items()))


def find(name: str) -> type[Kernel]:
    """Return the kernel class registered under `name`.

    Raises
    ------
    UnknownKernelError
        If there is none; the message has the nearest name.
    """
    kernels = registered()
    if name not in kernels:
        raise UnknownKernelError(f"no kernel is named {name!r}; {suggestion(name, kernels)}")
    return kernels[name]


def construct(kernel: type[Kernel], values: Mapping[str, object]) -> Kernel:
    """Build a kernel from named values.

    Raises
    ------
    ParameterError
        If a name is unknown, a parameter is missing, or a value is refused.
    """
    fields = {field: declared for field, _, declared in parameters_of(kernel)}
    for name in values:
        if name not in fields:
            raise ParameterError(
                f"{kernel.name}: there is no parameter {name!r}; {suggestion(name, fields)}", field=name
            )
    for field, declared in fields.items():
        if declared is dataclasses.MISSING and field not in values:
            raise ParameterError(f"{kernel.name}: {field} is missing and has no default", field=field)
    constructor: Callable[..., Kernel] = kernel  # it checks the types itself
    return constructor(**values)
