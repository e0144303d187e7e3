"""A dataset on disk: its paths, manifest, loader, checks."""
