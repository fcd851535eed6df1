"""Proofs that a machine checks; see docs/explanation/proofs.md."""
