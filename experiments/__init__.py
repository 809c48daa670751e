"""Command lines, presets and committed results."""
