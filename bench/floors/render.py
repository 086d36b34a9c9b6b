"""Render one SLS file with bare Jinja2 and libyaml's safe loader."""

from __future__ import annotations

import sys
from pathlib import Path

import jinja2
import yaml


def main(path: Path) -> int:
    """Render and load the file; return the number of its ids."""
    text = jinja2.Environment().from_string(path.read_text()).render()
    return len(yaml.load(text, Loader=yaml.CSafeLoader))


if __name__ == "__main__":
    print(main(Path(sys.argv[1])))
