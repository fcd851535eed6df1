"""An example for the help of every command; a test reads each of them with the parser."""

from __future__ import annotations

from typing import Final


def _example(*commands: str) -> str:
    return "\n".join(["example:", *(f"  curator {one}" for one in commands)]) + "\n"


EXAMPLES: Final[dict[str, str]] = {
    "curator init": _example("init /srv/weir"),
    "curator dataset check": _example(
        "dataset check photos --image-shape 3x32x32 --convert rgb --resize crop"
    ),
    "curator dataset add": _example(
        "dataset add cats photos --dir /srv/weir --epsilon 10 --delta 1e-5 \\\n"
        "      --adjacency add-or-remove-one-record --classes cat,dog --image-shape 3x32x32 \\\n"
        "      --nominal-size 25000 --max-size 30000 --sampling-rate 50/25000 --capacity 112 \\\n"
        "      --convert rgb --resize crop"
    ),
    "curator dataset list": _example("dataset list --dir /srv/weir"),
    "curator dataset pause": _example("dataset pause cats --dir /srv/weir --reason 'a question'"),
    "curator dataset resume": _example("dataset resume cats --dir /srv/weir --reason answered"),
    "curator dataset retire": _example(
        "dataset retire cats --dir /srv/weir --reason 'study over' --confirm cats"
    ),
    "curator dataset erase": _example(
        "dataset erase cats --dir /srv/weir --reason 'consent withdrawn' --confirm cats"
    ),
    "curator dataset cap": _example(
        "dataset cap cats --dir /srv/weir --epsilon 5 --reason 'new advice'"
    ),
    "curator dataset share": _example("dataset share cats alice --dir /srv/weir --epsilon 4"),
    "curator dataset policy": _example(
        "dataset policy cats --dir /srv/weir --set min_noise_multiplier=0.7 --clear max_steps"
    ),
    "curator analyst add": _example("analyst add alice --dir /srv/weir --expires-days 90"),
    "curator analyst rotate": _example("analyst rotate alice --dir /srv/weir"),
    "curator analyst revoke": _example("analyst revoke alice --dir /srv/weir"),
    "curator analyst list": _example("analyst list --dir /srv/weir"),
    "curator analyst log": _example("analyst log --dir /srv/weir"),
    "curator serve": _example("serve --dir /srv/weir"),
    "curator rehearse": _example("rehearse", "rehearse fashion.npz --source-is-public"),
    "curator key": _example("key --dir /srv/weir"),
    "curator budget": _example("budget --dir /srv/weir"),
    "curator plan": _example(
        "plan cats recipe.toml --dir /srv/weir --for-steps 2000",
        "plan cats recipe.toml --dir /srv/weir --set max_epsilon_per_run=2",
    ),
    "curator ledger export": _example("ledger export --dir /srv/weir --out ledger.jsonl"),
    "curator ledger verify": _example("ledger verify ledger.jsonl"),
    "curator ledger show": _example("ledger show --dir /srv/weir"),
    "curator ledger backup": _example("ledger backup --dir /srv/weir --out ledger-copy.sqlite"),
    "curator ledger accept-restored": _example(
        "ledger accept-restored --dir /srv/weir --reason 'disk failed on Monday'"
    ),
    "curator accountant explain": _example(
        "accountant explain recipe.toml --epsilon 10 --delta 1e-5 --nominal-size 60000"
    ),
    "curator audit": _example("audit --canary flip --mechanism dp-sinkhorn --trials 500"),
    "curator doctor": _example("doctor --dir /srv/weir", "doctor --json > doctor.json"),
    "curator completion": _example(
        "completion bash > ~/.local/share/bash-completion/completions/curator"
    ),
}
