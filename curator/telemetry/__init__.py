"""Structured logs of requests; never of data."""
