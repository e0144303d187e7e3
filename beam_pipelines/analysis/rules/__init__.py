"""What is checked: one module for each kind of rule, none of which reads data."""
