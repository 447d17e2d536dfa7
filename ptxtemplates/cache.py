"""What is kept between processes: in the user's cache directory, checked by a digest, gone without harm.

An entry's key must hold everything that its content depends on. An entry that is missing, cut off or damaged
counts as not there, and whatever it held is made anew.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import sys
import time
from pathlib import Path
from typing import Final

DIGEST_SIZE: Final = hashlib.sha256().digest_size
KEPT_S: Final = 30 * 24 * 3600


def cache_folder() -> Path:
    """Return the user's cache directory for this package, by the convention of the platform."""
    variable = {"win32": "LOCALAPPDATA"}.get(sys.platform, "XDG_CACHE_HOME")
    default = "~/Library/Caches" if sys.platform == "darwin" else "~/.cache"
    chosen = Path(os.environ.get(variable, ""))
    # a relative path would lead to whatever directory one happens to be in: the convention is to ignore it
    return (chosen if chosen.is_absolute() else Path(default).expanduser()) / "ptxtemplates"


def key_of(*parts: str | bytes) -> str:
    """Return a key for the given parts: equal for equal parts only."""
    digest = hashlib.sha256()
    for part in parts:
        content = os.fsencode(part)
        digest.update(b"%d " % len(content) + content)
    return digest.hexdigest()


def load(kind: str, key: str) -> bytes | None:
    """Return the content of an entry; None if it is not there, or not whole."""
    try:
        content = (cache_folder() / f"{key}.{kind}").read_bytes()
    except (OSError, RuntimeError):  # RuntimeError: there is no home directory
        return None
    if hashlib.sha256(content[DIGEST_SIZE:]).digest() != content[:DIGEST_SIZE]:
        return None
    return content[DIGEST_SIZE:]


def store(kind: str, key: str, content: bytes) -> None:
    """Keep the content of an entry. Failing to is no error."""
    with contextlib.suppress(OSError, RuntimeError):
        folder = cache_folder()
        if not folder.is_dir():
            # the cache directory may be missing; a home that does not exist is not ours to make
            if not any(above.is_dir() for above in list(folder.parents)[:2]):
                return
            folder.mkdir(parents=True, exist_ok=True)  # another thread may have been quicker
        _forget_old(folder)
        staged = folder / f"{key}.{os.getpid()}.part"
        staged.write_bytes(hashlib.sha256(content).digest() + content)
        staged.replace(folder / f"{key}.{kind}")


def _forget_old(folder: Path) -> None:
    """Remove entries written too long ago, now and then; what is still in use is made once more."""
    swept = folder / "swept"
    now = time.time()
    with contextlib.suppress(FileNotFoundError):
        if now - swept.stat().st_mtime < KEPT_S / 30:
            return
    swept.touch()
    for entry in folder.iterdir():
        with contextlib.suppress(FileNotFoundError):  # staged by another thread, and in its place by now
            if entry.stat().st_mtime < now - KEPT_S:
                entry.unlink()
