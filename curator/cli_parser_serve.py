"""`serve` and `rehearse`, as data for argparse."""

from __future__ import annotations

import argparse
from pathlib import Path

from curator.cli_parser_data import Commands, directory_option
from curator.cli_parser_source import SOURCES, add_reading, rate

_REHEARSE_HELP = f"""\
Serve PUBLIC images without a limit, so that a training script is debugged for free before it meets
private ones. Everything but the budget is real: the ledger charges, the noise is added. It is
marked as a rehearsal everywhere, its certificates certify nothing, and its folder is its own.

{SOURCES}"""


def add_serve_commands(commands: Commands) -> None:
    """Add `serve` and `rehearse`.

    Args:
        commands: Of the whole program.
    """
    serve = commands.add_parser("serve", help="answer analysts until SIGTERM")
    directory_option(serve)
    _listening(serve)
    serve.set_defaults(command="serve")
    rehearse = commands.add_parser(
        "rehearse",
        help="serve public images without a limit, to debug for free",
        description=_REHEARSE_HELP,
    )
    rehearse.add_argument(
        "source", nargs="?", default="sklearn:digits", metavar="SOURCE", help="(%(default)s)"
    )
    rehearse.add_argument(
        "--dir",
        type=Path,
        default=Path("weir-rehearsal"),
        help="the rehearsal's own folder, made if needed (%(default)s)",
    )
    rehearse.add_argument(
        "--source-is-public",
        action="store_true",
        help="everybody may see SOURCE; needed for all but scikit-learn's digits",
    )
    _stand_ins(rehearse)
    add_reading(rehearse)
    _listening(rehearse)
    rehearse.set_defaults(command="rehearse", grpc_port=50061, rest_port=8090)


def _stand_ins(rehearse: argparse.ArgumentParser) -> None:
    group = rehearse.add_argument_group("facts, to be like the private data set's")
    group.add_argument("--name", help="rehearsal-NAME is the data set's name (by the source)")
    group.add_argument("--classes", help="names by label (the source's)")
    group.add_argument("--image-shape", metavar="CxHxW", help="such as 1x28x28 (the images')")
    group.add_argument("--max-level", type=int, help="level of a white pixel (255; digits 16)")
    group.add_argument("--nominal-size", type=int, help="(the number of images)")
    group.add_argument("--sampling-rate", type=rate, metavar="Q", help="(50 images a step)")
    group.add_argument("--capacity", type=int, help="(q n + 8 sqrt(q n))")
    group.add_argument("--delta", type=float, default=1e-5, help="(%(default)s)")


def _listening(serve: argparse.ArgumentParser) -> None:
    serve.add_argument("--grpc-host", help="address for gRPC (default: the configuration)")
    serve.add_argument("--grpc-port", type=int, help="0 takes a free port")
    serve.add_argument(
        "--grpc-certificate-port",
        type=int,
        help="for callers with a client certificate (default: the configuration); 0 takes a free "
        "port",
    )
    serve.add_argument(
        "--grpc-unix-socket",
        metavar="PATH",
        help="also listen on this socket, for analysts of the same user on this machine; in a "
        "folder that only this user may write to",
    )
    serve.add_argument("--rest-host", help="address for REST (default: the configuration)")
    serve.add_argument("--rest-port", type=int, help="0 takes a free port")
    serve.add_argument(
        "--rest-health-port",
        type=int,
        help="answers /healthz and /readyz and nothing else, for probes (default: the "
        "configuration); 0 takes a free port",
    )
    serve.add_argument(
        "--insecure-loopback",
        action="store_true",
        help="serve without TLS, on loopback addresses only, for development",
    )
    serve.add_argument("--reflection", action="store_true", help="let tools list the methods")
