"""Video instructions."""
