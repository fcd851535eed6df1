"""What a steward hands over: arrays and folders of images, surveyed, converted or refused."""
