"""``python -m ptxtemplates``."""

from ptxtemplates.cli import run

if __name__ == "__main__":
    run()
