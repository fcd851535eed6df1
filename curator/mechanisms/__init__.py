"""The mechanisms: each one turns generated images and private records into a releasable gradient."""
