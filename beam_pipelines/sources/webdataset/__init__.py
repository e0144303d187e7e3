"""WebDataset: tar archives, whose files of one name are a row."""
