"""Where a chain starts: click orders, k-means, a mixture fitted by EM. Knows no sampler."""
