"""``python -m ptxtemplates``, and the console script."""

from __future__ import annotations

import signal
import sys


def run() -> None:
    """Run the command line, from before the first import on: an interrupt is never a traceback."""
    try:
        if hasattr(signal, "SIGPIPE"):
            signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # end as other tools do when their reader has gone
        # a supervisor's wish to end leaves as little behind as an interrupt from the keyboard
        signal.signal(signal.SIGTERM, signal.default_int_handler)
        from ptxtemplates.cli import run as run_cli

        run_cli()
    except KeyboardInterrupt:
        sys.stderr.write("error: interrupted\n")
        sys.exit(2)


if __name__ == "__main__":
    run()
