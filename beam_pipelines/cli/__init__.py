"""Parts of the command line: groups of commands, and options that several commands share."""
