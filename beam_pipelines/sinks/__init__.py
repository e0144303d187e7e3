"""Writers of shards, one folder for each format."""
