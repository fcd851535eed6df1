"""One file an event: what it costs by every accountant, its words and its text."""
