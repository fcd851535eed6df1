"""What can be wrong with a source; told to the steward, who may see the data."""

from __future__ import annotations


class SourceError(ValueError):
    """The source cannot be read as labelled images; the text names the file and what is wrong."""
