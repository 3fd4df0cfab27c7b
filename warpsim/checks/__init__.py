"""What the text calls undefined: convergence, undefined bits, races, proxies, stalls."""
