"""Moves between modes: chains that exchange clusters, clusters that split and merge. Beside plain chains."""
