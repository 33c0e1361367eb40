"""Where a value comes from: flag, environment, our YAML, OpenClaw's JSON5, default."""
