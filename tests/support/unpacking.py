"""Archives of the fixtures, also on a Python 3.11 that is older than the filters of its `tarfile` (3.11.4)."""

from __future__ import annotations

import tarfile
from pathlib import Path


def unpack(packed: Path, place: Path) -> None:
    """Unpack an archive of this project."""
    with tarfile.open(packed) as archive:
        if hasattr(tarfile, "data_filter"):
            archive.extractall(place, filter="data")
        else:
            archive.extractall(place)
