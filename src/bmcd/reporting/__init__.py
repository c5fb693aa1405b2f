"""The report: one HTML file about a model, for editors. Knows every room but the command line and the service."""
