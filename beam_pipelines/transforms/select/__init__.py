"""Selection: filter, derive, protect, reject."""
