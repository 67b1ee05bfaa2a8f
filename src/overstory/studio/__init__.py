"""What Overstory shows in a browser."""
