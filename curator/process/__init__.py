"""A curator that serves: built out of its folder, kept alive, and taken down in order."""
