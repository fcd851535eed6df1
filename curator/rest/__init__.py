"""Read-only HTTP: budgets, runs and health; never a release."""
