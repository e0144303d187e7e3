"""What a run would give, by some rows in memory: rows, sizes, disk space."""
