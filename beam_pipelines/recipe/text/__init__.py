"""The text of a recipe: YAML and its lines."""
