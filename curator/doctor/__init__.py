"""What a steward, and whoever helps one, wants to know of a machine and a folder; it only reads."""
