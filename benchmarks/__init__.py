"""Figures that must hold, each measured side by side with its baseline. `python -m benchmarks` runs them all."""
