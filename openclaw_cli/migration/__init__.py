"""File-era stores into SQLite: inspecting, importing, validating."""
