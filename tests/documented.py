"""The commands that the documentation shows, as a reader would type them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
_GENERATED = ("reference/analyst.md", "reference/curator.md")  # examples of --help: tests/unit/cli
_BLOCK = re.compile(r"^```(\w*)[^\n]*\n(.*?)^```", re.MULTILINE | re.DOTALL)
_INLINE = re.compile(r"(?<!`)`((?:curator|analyst) [a-z][^`\n]*)`")


@dataclass(frozen=True, slots=True)
class Page:
    """One page with its shell blocks."""

    name: str
    text: str

    @property
    def blocks(self) -> list[str]:
        """Whole shell blocks, in order."""
        return [body for kind, body in _BLOCK.findall(self.text) if kind in {"sh", "bash"}]

    @property
    def commands(self) -> list[str]:
        """Each command of the shell blocks on one line, without its comment."""
        lines = re.sub(r"\\\n\s*", "", "\n".join(self.blocks)).splitlines()
        plain = (re.sub(r"\s+# .*$", "", line).strip() for line in lines)
        return [line for line in plain if line and not line.startswith("#")]

    @property
    def inline(self) -> list[str]:
        """What the text itself calls a command of ours, such as `curator init DIR`."""
        return _INLINE.findall(_BLOCK.sub("", self.text))


def pages() -> list[Page]:
    """Return the README and every page of the site that people write."""
    files = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted(DOCS.rglob("*.md"))]
    named = [(str(file.relative_to(DOCS)) if DOCS in file.parents else file.name, file)
             for file in files]  # fmt: skip
    return [Page(name, file.read_text()) for name, file in named if name not in _GENERATED]
