"""From a recipe to a plan, before a row is read."""
