"""Training: generate, ask the curator for a gradient, take an optimizer step, remember."""
