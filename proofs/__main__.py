"""Check every proof: `python -m proofs`.

After reading a proof again: `python -m proofs --record`.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from proofs import charges, coq, offsets, table
from proofs.code_hash import changed, record

ROOT: Final = Path(__file__).resolve().parent.parent


def _coq() -> list[str]:
    """Return what is wrong with the proofs in Coq."""
    if coq.compiler() is None:
        return ["coqc is not installed: 'apt-get install coq' on Debian has version 8.16"]
    try:
        with tempfile.TemporaryDirectory() as folder:
            rests = coq.check(ROOT, Path(folder))
    except coq.Unproved as error:
        return [str(error)]
    for theorem, axioms in rests.items():
        print(f"  {theorem}: {'on the axioms below' if axioms else 'on no axiom'}")
    for axiom in sorted({axiom for axioms in rests.values() for axiom in axioms}):
        print(f"  axiom of Coq's library of real numbers: {axiom}")
    return []


CHECKS: Final[dict[str, Callable[[], list[str]]]] = {
    "the code is what the proofs were made for": lambda: changed(ROOT),
    "theorems, in Coq": _coq,
    "offsets of the budget rule, by ranges": lambda: offsets.check(ROOT),
    "charges of Gaussian releases, by ranges": lambda: charges.check(ROOT),
    "the noise's table, by intervals": lambda: table.check(ROOT),
    "the sum of two draws, by intervals": table.check_sum,
}


def main() -> int:
    """Run all checks and say what is wrong."""
    if sys.argv[1:] == ["--record"]:
        record(ROOT)
        return 0
    wrong = []
    for name, check in CHECKS.items():
        started = time.monotonic()
        found = check()
        print(f"{'FAILED' if found else 'proved'}: {name} ({time.monotonic() - started:.0f} s)")
        wrong += found
    for line in wrong:
        print(line, file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
