"""Cards and the texts in them."""
