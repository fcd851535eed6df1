"""What published papers say that their runs cost, and what those cost: never a charge."""
