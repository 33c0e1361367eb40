"""The process environment. No other module of the project reads it (a test holds that)."""

from __future__ import annotations

import os
from collections.abc import Mapping


def environment() -> Mapping[str, str]:
    """The variables of this process, live."""
    return os.environ
