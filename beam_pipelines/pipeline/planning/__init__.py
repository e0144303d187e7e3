"""From a recipe to a plan: every decision before a row is read."""
