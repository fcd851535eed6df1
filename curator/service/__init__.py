"""Use cases, one a file: the only code that brings ledger, data and mechanisms together."""
