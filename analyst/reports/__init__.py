"""What a curator says about plans, budgets and runs: in words, as JSON, and as a picture."""
