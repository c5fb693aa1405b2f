"""`python -m bmcd` is `bmcd`."""

from bmcd.cli import app

if __name__ == "__main__":
    app(prog_name="bmcd")
