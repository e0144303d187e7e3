"""Formats of files: Avro, ORC, NumPy, HDF5, Excel and WebDataset."""
