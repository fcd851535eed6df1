"""The vocabulary of privacy: frozen values that every layer speaks; no mathematics, no I/O."""
