"""The commands, which import what they run."""
