"""Clusters: choosing their number, matching them between chains, summarising them. Knows no recommendations."""
