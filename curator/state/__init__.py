"""What stateful mechanisms keep between steps: private, in memory and on the curator's disk."""
