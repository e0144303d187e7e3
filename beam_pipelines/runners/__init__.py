"""How a Beam job is run: options, worker processes, engines, progress."""
