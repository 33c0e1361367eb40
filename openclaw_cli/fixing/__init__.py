"""`doctor fix`: recovery, import, canonical keys and retired settings in one planned run."""
