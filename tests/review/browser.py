"""A headless Chromium, driven through its DevTools protocol over a pipe: nothing but the standard library.

The browser keeps a profile of its own in a temporary folder, and reaches no network: pages are files.
"""

from __future__ import annotations

import base64
import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

NAMES: Final = ("chromium", "chromium-browser", "google-chrome-stable", "google-chrome")
OPTIONS: Final = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--disable-dev-shm-usage",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-default-apps",
    "--disable-extensions",
    "--disable-sync",
    "--hide-scrollbars",
    "--host-resolver-rules=MAP * ~NOTFOUND",
    "--remote-debugging-pipe",
)
PATIENCE: Final = 60
"""Seconds that the browser has to answer."""


class View(NamedTuple):
    """What a page is looked at with."""

    name: str
    width: int
    height: int
    phone: bool
    scheme: str


DESKTOP: Final = (1280, 900, False)
PHONE: Final = (375, 812, True)
VIEWS: Final = tuple(
    View(f"{device}-{scheme}", *size, scheme)
    for device, size in (("desktop", DESKTOP), ("phone", PHONE))
    for scheme in ("light", "dark")
)


def why_not() -> str | None:
    """Return why no browser can be used here; None if one can."""
    if sys.platform == "win32":
        return "the browser is driven through inherited pipes, which Windows has not"
    return None if executable() else f"no Chromium is installed: none of {', '.join(NAMES)} is on PATH"


def executable() -> str | None:
    """Return the path of a Chromium."""
    return next(filter(None, map(shutil.which, NAMES)), None)


class Browser:
    """One page in one browser."""

    def __init__(self, commands: IO[bytes], answers: IO[bytes]) -> None:
        self._commands = commands
        self._answers = answers
        self._last = 0
        self._page: str | None = None
        self.events: list[dict[str, Any]] = []
        target = self.ask("Target.createTarget", url="about:blank")["targetId"]
        self._page = self.ask("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.ask(f"{domain}.enable")

    def ask(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Send a command, and return what it gives; events that come before it are kept."""
        self._last += 1
        message: dict[str, Any] = {"id": self._last, "method": method, "params": parameters}
        if self._page is not None:
            message["sessionId"] = self._page
        self._commands.write(json.dumps(message).encode() + b"\0")
        while True:
            answer = self._read()
            if answer.get("id") == self._last:
                assert "error" not in answer, (method, answer["error"])
                found: dict[str, Any] = answer["result"]
                return found
            self.events.append(answer)

    def _read(self) -> dict[str, Any]:
        content = bytearray()
        signal.alarm(PATIENCE)
        while (byte := self._answers.read(1)) != b"\0":
            assert byte, "the browser has ended"
            content += byte
        signal.alarm(0)
        message: dict[str, Any] = json.loads(content)
        return message

    def open(self, file: Path, view: View, *, scripts: bool = True) -> None:
        """Load a file, and wait until it is loaded. Events of earlier pages are forgotten."""
        self.ask(
            "Emulation.setDeviceMetricsOverride",
            width=view.width,
            height=view.height,
            deviceScaleFactor=1,
            mobile=view.phone,
        )
        scheme = {"name": "prefers-color-scheme", "value": view.scheme}
        self.ask("Emulation.setEmulatedMedia", media="screen", features=[scheme])
        self.ask("Emulation.setScriptExecutionDisabled", value=not scripts)
        self.events.clear()
        self.ask("Page.navigate", url=file.as_uri())
        while not self._loaded(file.as_uri()):
            self.events.append(self._read())

    def _loaded(self, url: str) -> bool:
        """Tell whether a page is loaded, and not only the one before it."""
        arrived = False
        for event in self.events:
            if event.get("method") == "Page.frameNavigated":
                arrived = event["params"]["frame"]["url"] == url
            if arrived and event.get("method") == "Page.loadEventFired":
                return True
        return False

    def value(self, script: str) -> Any:
        """Return the value of a JavaScript expression in the page."""
        answer = self.ask("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in answer, (script, answer["exceptionDetails"])
        return answer["result"].get("value")

    def complaints(self) -> list[str]:
        """Return what the console has, and every request but for the page itself."""
        self.value("new Promise(done => setTimeout(done, 50))")  # what is on its way arrives
        found = []
        for event in self.events:
            method, parameters = event.get("method"), event.get("params", {})
            if method in ("Runtime.consoleAPICalled", "Runtime.exceptionThrown", "Log.entryAdded"):
                found.append(json.dumps(parameters))
            elif method == "Network.requestWillBeSent" and parameters["type"] != "Document":
                found.append(parameters["request"]["url"])
            elif method == "Page.javascriptDialogOpening":
                found.append(parameters["message"])
        return found

    def picture(self, file: Path, *, whole: bool = False) -> None:
        """Write what is seen, or the whole page, as PNG."""
        shot = self.ask("Page.captureScreenshot", format="png", captureBeyondViewport=whole)
        file.write_bytes(base64.b64decode(shot["data"]))

    def press(self, key: str, code: int, text: str = "") -> None:
        """Press a key and let it go."""
        for kind in ("keyDown", "keyUp"):
            self.ask(
                "Input.dispatchKeyEvent",
                type=kind,
                key=key,
                code=key,
                windowsVirtualKeyCode=code,
                **({"text": text} if text and kind == "keyDown" else {}),
            )


@contextlib.contextmanager
def browser() -> Iterator[Browser]:
    """Run a browser."""
    program = executable()
    assert program is not None
    with contextlib.ExitStack() as stack:
        profile = stack.enter_context(
            tempfile.TemporaryDirectory(prefix="browser-", ignore_cleanup_errors=True)
        )
        commands, to_browser = os.pipe()
        from_browser, answers = os.pipe()
        written = stack.enter_context(os.fdopen(to_browser, "wb", buffering=0))
        read = stack.enter_context(os.fdopen(from_browser, "rb"))

        def connect() -> None:
            """Make 3 what the browser reads commands from, and 4 what it writes answers to."""
            moved = os.dup(commands), os.dup(answers)
            while min(moved) <= 4:
                moved = os.dup(moved[0]), os.dup(moved[1])
            os.dup2(moved[0], 3)
            os.dup2(moved[1], 4)

        process = subprocess.Popen(
            [program, *OPTIONS, f"--user-data-dir={profile}", "about:blank"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            close_fds=False,  # what Python opens is closed anyway, and 3 and 4 must not be
            preexec_fn=connect,
            start_new_session=True,
        )
        stack.callback(_end, process)
        os.close(commands)
        os.close(answers)
        before = signal.signal(signal.SIGALRM, _too_late)
        stack.callback(signal.signal, signal.SIGALRM, before)
        stack.callback(signal.alarm, 0)
        yield Browser(written, read)


def _end(process: subprocess.Popen[bytes]) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)  # it leads a group of its own
    process.wait()


def _too_late(*_: object) -> None:
    raise TimeoutError("the browser does not answer")
