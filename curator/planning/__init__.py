"""What runs would cost, by public facts and the ledger: prices, noise, tables; charges nothing."""
