"""Conditional generators: the analyst's side of the barrier, never sent to the curator."""
