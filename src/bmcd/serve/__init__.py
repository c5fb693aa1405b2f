"""The HTTP service: a model asked by machines and, on a page of its own, by editors. Needs the extra `serve`."""
