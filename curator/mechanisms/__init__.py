"""The mechanisms: each turns generated images and private records into a releasable gradient."""
