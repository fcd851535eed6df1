"""The only door out: clip, truncate to a lattice, certify in integers, add discrete noise."""
