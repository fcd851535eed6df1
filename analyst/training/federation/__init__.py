"""Several curators behind one training run: each with its own run, ledger and certificate."""
