"""Private images on disk: readers, the checksummed store, and secure sampling."""
