"""One conversion: plan, first pass, validation, writing, commit."""
