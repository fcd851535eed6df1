"""Pure mathematics on tensors: costs, Sinkhorn, feature maps; usable without a curator."""
