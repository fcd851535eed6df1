"""Candidates that grow from those that private records vote for; the model is never trained."""
