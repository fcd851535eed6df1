"""The durable record of what was spent: append-only, hash-chained, never under-counting."""
