"""What the operating system does for this process, and what it refuses, in words."""
