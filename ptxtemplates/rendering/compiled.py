"""Compiled templates, kept between processes.

Compiling a template takes Jinja ten times longer than rendering it. What was compiled once is kept in the
user's cache directory, as Python keeps its own bytecode: keyed by everything that it depends on, checked by a
digest, and gone without harm.
"""

from __future__ import annotations

import contextlib
import hashlib
import marshal
import os
import sys
import time
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import jinja2.compiler

if TYPE_CHECKING:
    from types import CodeType

DIGEST_SIZE: Final = hashlib.sha256().digest_size
KEPT_S: Final = 30 * 24 * 3600


def cache_folder() -> Path:
    """Return the user's cache directory for this package, by the convention of the platform."""
    home = {"win32": "LOCALAPPDATA", "darwin": ""}.get(sys.platform, "XDG_CACHE_HOME")
    default = Path("~/Library/Caches" if sys.platform == "darwin" else "~/.cache")
    return Path(os.environ.get(home) or default).expanduser() / "ptxtemplates"


@cache
def _producer() -> bytes:
    """Identify what compiles: this room's source, Jinja's compiler, the Python version."""
    digest = hashlib.sha256(f"{sys.implementation.cache_tag} {sys.version}".encode())
    for source in (*sorted(Path(__file__).parent.glob("*.py")), Path(jinja2.compiler.__file__)):
        digest.update(source.read_bytes())
    return digest.digest()


def _entry(name: str, filename: str | None, source: str) -> Path:
    digest = hashlib.sha256(_producer())
    for part in (name, filename or "", source):
        digest.update(f"{len(part)} {part}".encode())
    return cache_folder() / f"{digest.hexdigest()}.template"


def load(name: str, filename: str | None, source: str) -> tuple[CodeType, Any] | None:
    """Return the code of a template and what was stored with it; None if it is not there, or not whole."""
    try:
        content = _entry(name, filename, source).read_bytes()
    except (OSError, RuntimeError):  # RuntimeError: there is no home directory
        return None
    if hashlib.sha256(content[DIGEST_SIZE:]).digest() != content[:DIGEST_SIZE]:
        return None
    code, extra = marshal.loads(content[DIGEST_SIZE:])
    return code, extra


def store(name: str, filename: str | None, source: str, code: CodeType, extra: Any) -> None:
    """Keep the code of a template, and plain values that belong to it. Failing to is no error."""
    content = marshal.dumps((code, extra))
    with contextlib.suppress(OSError, RuntimeError):
        entry = _entry(name, filename, source)
        if not entry.parent.is_dir():
            if not Path.home().is_dir():
                return  # a home that does not exist is not ours to make
            entry.parent.mkdir(parents=True)
        _forget_old(entry.parent)
        staged = entry.with_suffix(f".{os.getpid()}.part")
        staged.write_bytes(hashlib.sha256(content).digest() + content)
        staged.replace(entry)


def _forget_old(folder: Path) -> None:
    """Remove entries written too long ago; what is still in use is compiled once more."""
    oldest = time.time() - KEPT_S
    for entry in folder.iterdir():
        if entry.stat().st_mtime < oldest:
            entry.unlink(missing_ok=True)
