"""A linear classifier that private records teach, on features that are public."""
