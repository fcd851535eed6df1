"""The steward's configuration: one TOML file in the curator's folder, read once.

Nothing here carries privacy: budgets, relations and sizes are typed in with `curator dataset add`
and live in the ledger.
"""

from __future__ import annotations

import os
import re
import tomllib
from pathlib import Path
from typing import Annotated, Final

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError

from curator.divergences.backend_names import Backend
from curator.service.limits import Limits
from curator.validation_errors import in_plain_words

TEMPLATE = """\
# Configuration of this curator. Every key is optional; unknown keys are errors.

[grpc]
host = "127.0.0.1"     # "::" or 0.0.0.0 serves other machines (see also host_names)
port = 50051           # 0 takes a free port
# certificate_port = 50052   # for analysts with a client certificate ('analyst add --certificate')
# unix_socket = "/run/weir.sock"  # also for analysts on this machine: the owner's alone, no TLS
# unix_socket_user = 1001    # who owns it instead of the curator's user: a user id; needs CAP_CHOWN
reflection = false     # lets tools such as grpcurl list the methods

[rest]
host = "127.0.0.1"
port = 8080
# health_port = 8081     # also /healthz and /readyz, where nothing else is answered; for probes

[identity]
# Names and addresses under which analysts reach this curator, besides localhost and this host's
# name. They go into the server certificate; run 'curator init' again after changing them.
host_names = []

[ledger]
# url = "postgresql://..."  # for several curators behind one address; WEIR_LEDGER_URL goes before
# head_file = "/elsewhere/ledger-head.json"  # default: in this folder; better on another disk
lease_seconds = 15.0   # with PostgreSQL: how long after a crash others wait before they take over

[limits]
max_message_mib = 64   # largest request; one of more than 2 MiB comes in pieces
max_samples = 4096     # most generated images in one step
max_open_runs = 64     # open runs of one analyst
max_state_mib = 4096   # critics, shards, embeddings of all open runs; one analyst has half
idle_hours = 24.0      # a run without steps for so long is closed and returns what it did not use

[telemetry]
# trace_endpoint = "http://localhost:4318/v1/traces"  # OpenTelemetry; needs the extra otel

[timing]
response_slot_ms = 0.0 # answers leave a whole number of slots after their step; 0: when ready

[compute]
solver = "auto"        # Sinkhorn updates: "numba" or, on a card, "triton"; "torch"; or what works
threads = 1            # threads for tensors; more helps with large images, 0 takes all cores
device = "cpu"         # "cuda" for a graphics card, "cuda:1" for the second
ray_workers = 0        # critics on so many workers of Ray; needs the extra ray
ray_address = ""       # of a cluster of the curator's own; empty: workers on this machine
"""


URL_VARIABLE: Final = "WEIR_LEDGER_URL"
"""Goes before the configuration, so that a password need not be in a file."""


class ConfigError(ValueError):
    """The configuration file is not valid; the text names the key."""


class _Section(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


def _without_brackets(host: str) -> str:
    return host[1:-1] if host.startswith("[") and host.endswith("]") else host


Host = Annotated[str, AfterValidator(_without_brackets)]
"""A name or a numeric address; one of IPv6 may be written with or without brackets."""


_LARGEST_USER: Final = (1 << 31) - 1  # systems have no user of a larger id


class GrpcSection(_Section):
    """Where gRPC listens."""

    host: Host = "127.0.0.1"
    port: int = Field(default=50051, ge=0, le=65535)
    certificate_port: int | None = Field(default=None, ge=0, le=65535)
    unix_socket: str = ""
    unix_socket_user: int | None = Field(default=None, ge=0, le=_LARGEST_USER)
    reflection: bool = False


class RestSection(_Section):
    """Where REST listens."""

    host: Host = "127.0.0.1"
    port: int = Field(default=8080, ge=0, le=65535)
    health_port: int | None = Field(default=None, ge=0, le=65535)


class IdentitySection(_Section):
    """Under which names analysts reach the curator."""

    host_names: tuple[str, ...] = Field(default=(), strict=False)


class LedgerSection(_Section):
    """Where the ledger is."""

    url: str = ""
    head_file: str = ""
    lease_seconds: float = Field(default=15.0, ge=1, le=3600, allow_inf_nan=False)


_DEVICE: Final = re.compile(r"cpu|cuda(:\d{1,2})?")


def _device(name: str) -> str:
    if not _DEVICE.fullmatch(name):
        msg = f'{name!r} is none of "cpu", "cuda" and "cuda:NUMBER"'
        raise ValueError(msg)
    return name


class ComputeSection(_Section):
    """What the curator may use of the machine."""

    threads: int = Field(default=1, ge=0, le=1024)
    solver: Backend = Field(default=Backend.AUTO, strict=False)
    device: Annotated[str, AfterValidator(_device)] = "cpu"
    ray_workers: int = Field(default=0, ge=0, le=4096)
    ray_address: str = ""


class TelemetrySection(_Section):
    """What is told of requests besides the log and the metrics."""

    trace_endpoint: str = ""


class TimingSection(_Section):
    """When answers leave."""

    response_slot_ms: float = Field(default=0.0, ge=0, le=60_000, allow_inf_nan=False)


class CuratorConfig(_Section):
    """The whole file."""

    grpc: GrpcSection = GrpcSection()
    rest: RestSection = RestSection()
    identity: IdentitySection = IdentitySection()
    ledger: LedgerSection = LedgerSection()
    limits: Limits = Limits()
    compute: ComputeSection = ComputeSection()
    telemetry: TelemetrySection = TelemetrySection()
    timing: TimingSection = TimingSection()

    @property
    def database(self) -> str:
        """URL of the ledger's database, empty for a file in the folder."""
        return os.environ.get(URL_VARIABLE) or self.ledger.url


def load_config(path: Path) -> CuratorConfig:
    """Read and check a configuration file.

    Raises:
        ConfigError: If it is not TOML, has an unknown key or a value that is not valid.
    """
    if not path.exists():
        return CuratorConfig()
    try:
        return CuratorConfig.model_validate(tomllib.loads(path.read_text()))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        msg = f"{path}: not valid TOML: {error}"
        raise ConfigError(msg) from None
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        key = ".".join(str(part) for part in first["loc"])
        what = "unknown key" if first["type"] == "extra_forbidden" else in_plain_words(first)
        msg = f"{path}: {key}: {what}; 'curator init' writes a file with every key explained"
        raise ConfigError(msg) from None
