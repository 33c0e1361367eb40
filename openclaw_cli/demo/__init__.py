"""The whole story on bundled data: what the product's own commands do, and what their reports say."""
