"""The log-scale prior, the matched Gaussian, and the KLs between them."""
