"""Explain a published setting: python -m benchmarks.papers SPEC [--epsilon E] [--delta D] ...

SPEC is what `curator accountant explain` takes, or a setting whose name ends with -published.
"""

from __future__ import annotations

import argparse
import json
import tomllib
from pathlib import Path

from benchmarks.papers.settings import read_setting
from benchmarks.papers.words import setting_lines


def main() -> None:
    """Print the chain to epsilon, and what is published of it."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.papers")
    parser.add_argument("spec", help="a TOML or JSON file, or inline JSON")
    parser.add_argument("--epsilon", type=float)
    parser.add_argument("--delta", type=float)
    parser.add_argument("--steps", type=int, dest="num_steps")
    parser.add_argument("--nominal-size", type=int)
    parser.add_argument("--dimension", type=int)
    parser.add_argument("--capacity", type=int)
    overrides = vars(parser.parse_args())
    spec = overrides.pop("spec")
    text = spec if spec.lstrip().startswith("{") else Path(spec).read_text(encoding="utf-8")
    table = json.loads(text) if text.lstrip().startswith("{") else tomllib.loads(text)
    try:
        setting = read_setting(table, overrides)
    except ValueError as problem:
        parser.error(str(problem))
    for line in setting_lines(setting):
        print(line)


if __name__ == "__main__":
    main()
