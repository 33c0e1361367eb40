"""What a transcript means: entries, tree, upgrades, token estimate. Pure, no input or output."""
