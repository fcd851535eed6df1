"""Read-only views of budgets, runs and history, for callers, pages and metrics."""
