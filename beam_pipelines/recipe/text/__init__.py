"""The text of a recipe: YAML, its lines, its variables."""
