"""What a use of private data costs, and whether a budget affords it; every rounding errs upward."""
