"""Sub-tasks in transcripts: found, and folded into cards."""
