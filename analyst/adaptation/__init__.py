"""Domain adaptation: a classifier of public images, moved to a private set without labels."""
