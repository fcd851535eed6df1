"""Generate the protobuf and gRPC stubs, or check that the committed ones are up to date.

Usage: python scripts/protos.py [--check]
"""

from __future__ import annotations

import argparse
import filecmp
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
_RUNTIME_IMPORT = re.compile(r"^from google\.protobuf import runtime_version as .*\n", re.MULTILINE)
_RUNTIME_CALL = re.compile(
    r"^_runtime_version\.ValidateProtobufRuntimeVersion\([^)]*\)\n", re.MULTILINE
)
SOURCES = sorted(
    path.relative_to(ROOT) for path in (ROOT / "protos" / "weir" / "v1").glob("*.proto")
)


def generate(target: Path) -> None:
    """Write all stubs below `target`.

    Raises:
        subprocess.CalledProcessError: If the compiler refuses a file.
    """
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    command = [sys.executable, "-m", "grpc_tools.protoc", "-I."]
    command += [f"--{kind}_out={target}" for kind in ("python", "grpc_python", "mypy", "mypy_grpc")]
    command += [str(source) for source in SOURCES]
    subprocess.run(command, cwd=ROOT, env=environment, check=True)
    for stub in target.rglob("*_pb2_grpc.py*"):
        if stub.name.startswith("service_pb2"):
            continue
        stub.unlink()  # only service.proto has a service
    for stub in target.rglob("*_pb2.py"):
        stub.write_text(for_any_runtime(stub.read_text(encoding="utf-8")), encoding="utf-8")


def for_any_runtime(text: str) -> str:
    """Return a stub without the check that shuts out protobuf's other major versions.

    The check admits the compiler's major version and the next. What a stub calls besides is the
    same from 5.28 on, and many who would use the analyst's side have packages that need 5 or 6.
    CI imports the stubs on the oldest version that pyproject.toml admits.

    Raises:
        ValueError: If the compiler writes something else than it used to.
    """
    text, num_imports = _RUNTIME_IMPORT.subn("", text)
    text, num_calls = _RUNTIME_CALL.subn("", text)
    if (num_imports, num_calls) != (1, 1):
        msg = "the stubs do not check the runtime's version as they used to; look at them"
        raise ValueError(msg)
    return text


def is_current() -> bool:
    """Return whether the committed stubs are what the compiler writes now."""
    with tempfile.TemporaryDirectory() as folder:
        generate(Path(folder))
        made = {path.relative_to(folder): path for path in Path(folder).rglob("*_pb2*")}
        kept = {path.relative_to(ROOT) for path in (ROOT / "protos").rglob("*_pb2*")}
        kept = {path for path in kept if path.suffix in {".py", ".pyi"}}
        return set(made) == kept and all(
            filecmp.cmp(path, ROOT / name, shallow=False) for name, path in made.items()
        )


def main() -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="only compare with what is committed")
    if not parser.parse_args().check:
        generate(ROOT)
        return 0
    if is_current():
        return 0
    print("the stubs are not up to date: run 'python scripts/protos.py'", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main())
