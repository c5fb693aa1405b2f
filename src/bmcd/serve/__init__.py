"""The HTTP service (extra `serve`): a model asked by machines, and by editors. Knows all but the command line."""
