"""A recipe's ``preprocessing_fn``: its source, its steps."""
