"""Chains: several releases under one budget, each trained on what the ones before it gave."""
