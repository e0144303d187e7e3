"""What a run would give, computed from some rows in memory."""
