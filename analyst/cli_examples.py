"""An example for the help of every command; a test reads each of them with the parser."""

from __future__ import annotations

from typing import Final

_ACCESS: Final = "--curator localhost:50051 --credentials alice.credentials.json"
_ADAPTATION: Final = "--recipe mnist-to-usps --source mnist.npz --out runs/usps"


def _example(*commands: str) -> str:
    return "\n".join(["example:", *(f"  analyst {one}" for one in commands)]) + "\n"


EXAMPLES: Final[dict[str, str]] = {
    "analyst train": _example(
        f"train {_ACCESS} \\\n      --recipe embedding-digits --steps 300 --out runs/digits",
        f"train {_ACCESS} \\\n      --resume --out runs/digits",
    ),
    "analyst plan": _example(
        f"plan {_ACCESS} \\\n      --recipe dp-sinkhorn-digits --for-steps 400",
        f"plan {_ACCESS} \\\n      --recipe dp-sinkhorn-digits --for-steps 400 --for-epsilon 5",
        f"plan {_ACCESS} \\\n      --recipe dp-sinkhorn-digits --over noise --plot plan.png",
    ),
    "analyst runs": _example(f"runs --open {_ACCESS}"),
    "analyst close": _example(f"close 0123456789abcdef0123456789abcdef {_ACCESS}"),
    "analyst certificate verify": _example(
        "certificate verify runs/digits/certificate.json --credentials alice.credentials.json"
    ),
    "analyst certificate fetch": _example(
        f"certificate fetch 0123456789abcdef0123456789abcdef {_ACCESS} \\\n"
        "      --out runs/digits/certificate.json"
    ),
    "analyst budget": _example(f"budget {_ACCESS}"),
    "analyst sample": _example("sample --out-of runs/digits --count 1000 --out synthetic.npz"),
    "analyst evaluate": _example(
        "evaluate synthetic.npz --test public-test.npz --out report --run runs/digits"
    ),
    "analyst export": _example("export synthetic.npz --format folder --out synthetic"),
    "analyst embedding download": _example(
        f"embedding download {_ACCESS} \\\n      --recipe embedding-digits --out digits.safetensors"
    ),
    "analyst embedding train": _example(
        "embedding train digits.safetensors --recipe embedding-digits --out runs/offline"
    ),
    "analyst adapt train": _example(
        f"adapt train {_ACCESS} \\\n      {_ADAPTATION}",
        f"adapt train --federation hospitals.toml --on-loss continue \\\n      {_ADAPTATION}",
    ),
    "analyst adapt test": _example("adapt test runs/usps --test public-test.npz"),
    "analyst recipes": _example("recipes", "recipes embedding-digits"),
    "analyst completion": _example(
        "completion bash > ~/.local/share/bash-completion/completions/analyst"
    ),
}
