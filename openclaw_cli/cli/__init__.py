"""The command line: options, output, help."""
