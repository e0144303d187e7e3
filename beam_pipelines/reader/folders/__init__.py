"""The folders of datasets, on this machine and elsewhere."""
