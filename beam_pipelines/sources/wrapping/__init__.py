"""Formats that change the columns of another format."""
