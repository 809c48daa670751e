"""Data sets, where they come from, and the benchmarks made of them."""
