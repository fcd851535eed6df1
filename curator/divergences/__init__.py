"""Mathematics on tensors: costs, Sinkhorn, feature maps, critics and how they learn."""
