"""One revision a file; a revision that was released never changes."""
