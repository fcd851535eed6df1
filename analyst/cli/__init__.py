"""The `analyst` command.

analyst train       open or resume a run and train a generator
analyst plan        what steps cost and what an epsilon buys; charges nothing
analyst budget      what is left
analyst close       end a run and give back what it did not use
analyst certificate check a privacy certificate, offline, or fetch a lost one
analyst sample      images from a run's checkpoint; costs nothing
analyst evaluate    classifiers trained on synthetic images, tested on public ones; a report
analyst export      a synthetic set as NPZ, image folder or IDX
analyst embedding   fetch a release once, and train on it without a curator
analyst adapt       a classifier of public images, moved to a private set without labels
analyst recipes     the recipes that come with this package, and what their keys mean
analyst completion  what makes a shell complete this command
"""

from analyst.cli.access import ConnectionConfig
from analyst.cli.app import main
from analyst.cli.command import Connect
from analyst.cli.exit_code import ExitCode

__all__ = ["Connect", "ConnectionConfig", "ExitCode", "main"]
