"""Arrow arrays and what they hold: types, sizes, bytes, hashes."""
