"""Every command of the tutorial works, in its order, in an empty folder.

What makes a curator, the curator itself and the training start as they do for a reader; what only
looks at them is forked (`forks.py`).
"""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.e2e import forks

pytestmark = pytest.mark.e2e

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "tutorial" / "first-run.md").read_text()
BLOCKS = re.findall(r"```sh\n(.*?)```", PAGE, re.DOTALL)
ADDRESS = "localhost:50051"


STARTED = "".join(
    f'{name}() {{ {sys.executable} -m {name}.cli "$@"; }}\n' for name in ("curator", "analyst")
)


def run(folder: Path, commands: str, programs: str) -> str:
    """Run commands as a shell does; return what they print."""
    done = subprocess.run(
        ["bash", "-euc", programs + commands],
        check=False,
        cwd=folder,
        env={"PYTHONPATH": str(ROOT), "PATH": "/usr/bin:/bin", "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=240,
    )
    assert done.returncode == 0, f"{commands}\n{done.stdout}\n{done.stderr}"
    return done.stdout


@pytest.mark.timeout(600)
def test_the_tutorial(tmp_path: Path) -> None:
    serving = next(index for index, block in enumerate(BLOCKS) if "curator serve" in block)
    for block in BLOCKS[:serving]:
        run(tmp_path, block, STARTED)
    forked = forks.shell_functions()
    words = BLOCKS[serving].split()[1:]
    process = subprocess.Popen(
        [sys.executable, "-m", "curator.cli", *words, "--grpc-port", "0", "--rest-port", "0"],
        cwd=tmp_path,
        env={"PYTHONPATH": str(ROOT), "PATH": "/usr/bin:/bin", "OMP_NUM_THREADS": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    printed = {}
    try:
        line = process.stdout.readline() if process.stdout else ""
        (port,) = re.findall(r"grpc \S+:(\d+) ", line)
        for block in BLOCKS[serving + 1 : -1]:
            assert "analyst " in block
            commands = block.replace(ADDRESS, f"localhost:{port}")
            commands = commands.replace("analyst train", f"{sys.executable} -m analyst.cli train")
            printed[block] = run(tmp_path, commands, forked)
    finally:
        process.send_signal(signal.SIGINT)  # Ctrl-C, as the page says
        process.communicate(timeout=60)
    assert process.returncode == 0
    run(tmp_path, BLOCKS[-1], forked)
    assert {"digits.png", "synthetic.npz", "ledger.jsonl"} <= {p.name for p in tmp_path.iterdir()}
    (certificate,) = (text for block, text in printed.items() if "certificate verify" in block)
    assert "epsilon 10 at delta 0.0001, over all runs" in certificate
    (spent,) = re.findall(r"spent +epsilon (\d\.\d+)", certificate)
    assert 5.0 < float(spent) < 5.4  # 'About 5.2 of 10'
