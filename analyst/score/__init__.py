"""Classifiers of generators' samples, told apart by how many private records each gets right."""
