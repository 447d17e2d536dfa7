"""Which driver reads which PTX version (ISA 9.1, "Release Notes": PTX release history)."""

from __future__ import annotations

from typing import Final

RELEASES: Final = {
    "6.0": ("9.0", "r384"),
    "6.1": ("9.1", "r387"),
    "6.2": ("9.2", "r396"),
    "6.3": ("10.0", "r400"),
    "6.4": ("10.1", "r418"),
    "6.5": ("10.2", "r440"),
    "7.0": ("11.0", "r445"),
    "7.1": ("11.1", "r455"),
    "7.2": ("11.2", "r460"),
    "7.3": ("11.3", "r465"),
    "7.4": ("11.4", "r470"),
    "7.5": ("11.5", "r495"),
    "7.6": ("11.6", "r510"),
    "7.7": ("11.7", "r515"),
    "7.8": ("11.8", "r520"),
    "8.0": ("12.0", "r525"),
    "8.1": ("12.1", "r530"),
    "8.2": ("12.2", "r535"),
    "8.3": ("12.3", "r545"),
    "8.4": ("12.4", "r550"),
    "8.5": ("12.5", "r555"),
    "8.6": ("12.7", "r565"),
    "8.7": ("12.8", "r570"),
    "8.8": ("12.9", "r575"),
    "9.0": ("13.0", "r580"),
    "9.1": ("13.1", "r590"),
}
"""PTX version: the CUDA release that introduced it, and the branch of its driver."""


def driver_for(version: str) -> str:
    """Say which driver a text of a PTX version needs.

    Parameters
    ----------
    version : str
        Such as ``7.8``.
    """
    if version in RELEASES:
        release, branch = RELEASES[version]
        return f"the driver of CUDA {release} ({branch}) or a newer one"
    return f"a driver that reads PTX {version}"
