"""The recipe: its values, and its reader from YAML."""
