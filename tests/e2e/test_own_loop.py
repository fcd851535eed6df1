"""The Python of the README and of the page on one's own loop, run as it is printed."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from tests.documented import ROOT
from tests.e2e import forks
from tests.e2e.conftest import Local, credentials

pytestmark = pytest.mark.e2e

_STRICT = "import warnings\n\nwarnings.simplefilter('error')\n"
_BLOCK = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)


def blocks(page: str) -> list[str]:
    return _BLOCK.findall((ROOT / page).read_text(encoding="utf-8"))


def run_program(program: str, local: Local, folder: Path) -> str:
    """Run it beside the analyst's credentials; what changes is the port."""
    (folder / "alice.credentials.json").write_bytes(credentials(local.folder, "alice").read_bytes())
    port = f"localhost:{local.curator.rpc.port}"
    (folder / "program.py").write_text(_STRICT + program.replace("localhost:50051", port))
    done = forks.run([str(folder / "program.py")], cwd=folder, timeout=200)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_page_s_program_trains_closes_and_leaves_a_certificate(
    local: Local, tmp_path: Path
) -> None:
    _, program, go_on, report = blocks("docs/how-to/your-own-loop.md")
    said = run_program(program + report, local, tmp_path)
    assert "closed" in said
    (run,) = local.curator.ledger.runs()
    assert (run.used, run.is_open) == (20, False)
    assert (tmp_path / "certificate.json").stat().st_size > 0
    with np.load(tmp_path / "synthetic.npz") as made:
        assert made["images"].shape == (1000, 8, 8)
    # The same program, stopped in its fifth step, and what the page says of going on.
    stopped = program.replace("            optimizer.zero_grad()", "            stop(step)", 1)
    assert stopped != program
    begin = "def stop(step):\n    if step == 5: raise TimeoutError\n    optimizer.zero_grad()\n\n"
    caught = "try:\n" + "".join(f"    {line}\n" for line in (begin + stopped).splitlines())
    caught += "except TimeoutError as error:\n    print(error.__notes__)\n"
    said = run_program(caught + go_on, local, tmp_path)
    assert "up to 16 of its 20 steps stay reserved" in said
    assert [(one.used, one.is_open) for one in local.curator.ledger.runs()] == [(20, False)] * 2


def test_the_readme_s_lines_run(local: Local, tmp_path: Path) -> None:
    (program,) = blocks("README.md")
    for printed, tried in (
        ("dp-sinkhorn-mnist", "dp-sinkhorn-digits"),
        ('"mnist"', '"digits"'),
        ("784", "64"),
        ("=2000", "=3"),
    ):
        assert printed in program
        program = program.replace(printed, tried)
    run_program(program, local, tmp_path)
    (run,) = local.curator.ledger.runs()
    assert (run.used, run.is_open) == (3, False)
