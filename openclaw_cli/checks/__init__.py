"""Looking for trouble in stores, transcripts and files: one module for each family of checks; reads only."""
