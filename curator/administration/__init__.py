"""What a steward does to data sets, by hand or through the socket of a curator that serves."""
