"""The report, one HTML file for editors; and its figures, `bmcd.report.plots`."""
