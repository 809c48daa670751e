"""One file per method: a Pyro model/guide pair, or the penalty that makes it."""
