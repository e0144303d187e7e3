"""The files of a source: listed, counted, decompressed."""
