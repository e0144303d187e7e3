"""A dataset on disk: manifest, loader, inspect, verify."""
