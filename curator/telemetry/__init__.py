"""Logs, metrics and traces of requests; never of data."""
