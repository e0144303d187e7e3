"""The command line: commands, and options that several commands share."""
