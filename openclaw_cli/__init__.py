"""A command-line toolkit for the session stores of OpenClaw."""

__version__ = "0.1.0"
