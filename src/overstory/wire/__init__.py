"""Frames to bytes, and back."""
