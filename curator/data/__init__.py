"""Private images on disk: the checksummed store, units, and secure sampling."""
