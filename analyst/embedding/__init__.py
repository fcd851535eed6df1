"""Downloaded embeddings: kept in a file, and trained on without a curator."""
