"""What Ray writes to a disk, and who may join it: workers of this machine hold private records."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

if find_spec("ray") is None:  # it must not be imported here: others start it
    pytest.skip("Ray is not installed", allow_module_level=True)

_SCRIPT = """
import os
from pathlib import Path
from curator.divergences.ray_workers import RayWorkers
workers = RayWorkers(1)
import ray
session = Path(ray._private.worker._global_node.get_session_dir_path())
print("FOLDER", session)
print("CLOSED", any(path.stat().st_mode & 0o077 == 0 for path in session.parents))
print("TOKEN", os.environ["RAY_AUTH_MODE"], len(os.environ["RAY_AUTH_TOKEN"]))
workers.stop()
"""


@pytest.mark.filterwarnings("ignore")  # of a package that tests start and do not own
def test_records_that_ray_spills_are_the_owners_alone_and_end_with_the_process() -> None:
    plain = {name: value for name, value in os.environ.items() if not name.startswith("RAY_")}
    ran = subprocess.run(
        [sys.executable, "-c", _SCRIPT], capture_output=True, text=True, env=plain, check=True
    )
    said = dict(line.split(" ", 1) for line in ran.stdout.splitlines() if line[:1].isupper())
    assert said["CLOSED"] == "True"
    assert said["TOKEN"] == "token 64"
    assert not Path(said["FOLDER"]).exists()
