"""Probabilistic continual learning: CLAW and its rivals as Pyro model/guide pairs."""
