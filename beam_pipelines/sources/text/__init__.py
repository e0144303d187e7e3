"""Byte ranges of text files and their records."""
