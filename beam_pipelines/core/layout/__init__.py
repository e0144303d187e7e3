"""The files of a dataset: names, manifest, schema, stripes."""
