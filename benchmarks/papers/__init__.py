"""What published papers say of their runs, and what they cost: information, never a charge."""
